"""One run of the record, open for writing."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords
from runs.storage.store import Store

T = TypeVar("T")
PARAM_LENGTH, TAG_LENGTH, KEY_LENGTH = 6000, 5000, 250  # MLflow silently truncates longer values
PARAMS_A_CALL, TAGS_A_CALL, METRICS_A_CALL = 100, 100, 1000


class TrackedRun:
    """One run that is open for writing. As the `Log` of a training it receives metrics during the training.

    Args:
        client: the open `MlflowClient` of its record.
        store: the store whose disk may be full if a call fails.
        seen: the last recorded step of each metric; earlier steps are not recorded twice.
    """

    def __init__(self, client: Any, store: Store, run_id: str, last_steps: Mapping[str, int] | None = None) -> None:
        self._client = client
        self._store = store
        self.run_id = run_id
        self._seen = dict(last_steps or {})
        self._undefined: set[str] = set()
        self._finished = False

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values of one step, in one call. NaN and infinite values are recorded in the tag `undefined`."""
        new = {key: float(value) for key, value in values.items() if step > self._seen.get(key, -1)}
        self._seen |= dict.fromkeys(new, step)
        self.log(metrics=new, step=step)

    def log(
        self,
        *,
        metrics: Mapping[str, float] | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
        step: int = 0,
    ) -> None:
        """Record metrics, parameters and tags in one batch, or in several if they exceed the limits of one batch."""
        from mlflow.entities import Metric, Param, RunTag

        timestamp = int(time.time() * 1000)
        metrics, tags = dict(metrics or {}), dict(tags or {})
        undefined = {key for key, value in metrics.items() if not math.isfinite(value)}
        if undefined - self._undefined:
            self._undefined |= undefined
            tags["undefined"] = ", ".join(sorted(self._undefined))
        rows = [Metric(key, float(value), timestamp, step) for key, value in metrics.items() if key not in undefined]
        pairs = [Param(key, _shorten(value, PARAM_LENGTH)) for key, value in (params or {}).items()]
        labels = [RunTag(key, _shorten(value, TAG_LENGTH)) for key, value in tags.items()]
        for long in [key for key in [*metrics, *(params or {}), *tags] if len(key) > KEY_LENGTH]:
            raise InputError(
                f"the name {long[:40]}... has {len(long)} characters, but a run allows at most {KEY_LENGTH}; shorten it"
            )
        chunks = max(_calls(rows, METRICS_A_CALL), _calls(pairs, PARAMS_A_CALL), _calls(labels, TAGS_A_CALL))
        with self._store.watched():
            for i in range(chunks):
                self._client.log_batch(
                    self.run_id,
                    metrics=_part(rows, METRICS_A_CALL, i),
                    params=_part(pairs, PARAMS_A_CALL, i),
                    tags=_part(labels, TAGS_A_CALL, i),
                )

    def text(self, name: str, text: str) -> None:
        """Store a text as the run's artefact `name`."""
        with self._store.watched():
            self._client.log_text(self.run_id, text, name)

    def artifact(self, path: Path, folder: str | None = None) -> None:
        """Store a copy of a file as an artefact of the run."""
        with self._store.watched():
            self._client.log_artifact(self.run_id, str(path), folder)

    def finish(self) -> None:
        """Mark the run FINISHED. This must be the last call, after everything is recorded."""
        with self._store.watched():
            self._client.set_terminated(self.run_id, "FINISHED")
        self._finished = True

    def stop(self, status: str, reason: str) -> None:
        """Mark the run KILLED or FAILED, with the reason in its tag `ended`; a finished run stays finished.

        Never raises, because it is called while another error is handled.
        """
        if self._finished:
            return
        with suppress(Exception):
            self.log(tags={"ended": without_passwords(reason)})
        with suppress(Exception):
            self._client.set_terminated(self.run_id, status)

    @contextmanager
    def guarded(self) -> Iterator["TrackedRun"]:
        """Mark the run KILLED or FAILED if an exception leaves the block."""
        try:
            yield self
        except (KeyboardInterrupt, SystemExit):
            self.stop("KILLED", "interrupted by the user")
            raise
        except BaseException as error:
            self.stop("FAILED", f"{type(error).__name__}: {error}")
            raise


def _shorten(value: Any, length: int) -> str:
    text = str(value)
    note = "... (truncated; complete in config.yaml)"
    return text if len(text) <= length else text[: length - len(note)] + note


def _calls(rows: Sequence[Any], size: int) -> int:
    return -(-len(rows) // size)


def _part(rows: Sequence[T], size: int, i: int) -> Sequence[T]:
    return rows[i * size : (i + 1) * size]
