"""One run of the record, open for writing."""

import json
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from runs.record.passwords import without_passwords

if TYPE_CHECKING:
    from torch import nn

PARAM_LENGTH, TAG_LENGTH = 6000, 5000  # MLflow silently truncates longer values
A_CALL = 100  # params, tags and metrics that MLflow takes at once


class DataUsed(NamedTuple):
    """A data set that a run read: its name, split (or another word for its use), and fingerprint."""

    name: str
    split: str
    fingerprint: str


class TrackedRun:
    """One run that is open for writing.

    Args:
        client: the open client of its record.
        run_id: MLflow's id.
        last_steps: the last recorded step of each metric; earlier steps are not recorded twice.
    """

    def __init__(self, client: Any, run_id: str, last_steps: Mapping[str, int] | None = None) -> None:
        self._client, self.run_id = client, run_id
        self.last_steps = dict(last_steps or {})
        self._undefined: set[str] = set()
        self._finished = False

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values of one step, in one call."""
        new = {name: float(value) for name, value in values.items() if step > self.last_steps.get(name, -1)}
        self.last_steps |= dict.fromkeys(new, step)
        self.log(metrics=new, step=step)

    def log(
        self,
        *,
        metrics: Mapping[str, float] | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
        step: int = 0,
    ) -> None:
        """Record metrics, parameters and tags in as few calls as possible.

        The names of NaN and infinite metrics are recorded in the tag `undefined`.
        """
        from mlflow.entities import Metric, Param, RunTag

        metrics, params, tags = dict(metrics or {}), dict(params or {}), dict(tags or {})
        if undefined := {name for name, value in metrics.items() if not math.isfinite(value)}:
            self._undefined |= undefined
            tags["undefined"] = ", ".join(sorted(self._undefined))
        now = int(time.time() * 1000)
        values = [Metric(name, float(value), now, step) for name, value in metrics.items() if name not in undefined]
        texts = [Param(name, _shorten(value, PARAM_LENGTH)) for name, value in params.items()]
        labels = [RunTag(name, _shorten(value, TAG_LENGTH)) for name, value in tags.items()]
        for i in range(0, max(len(values), len(texts), len(labels)), A_CALL):
            part = slice(i, i + A_CALL)
            self._client.log_batch(self.run_id, metrics=values[part], params=texts[part], tags=labels[part])

    def data(self, used: Sequence[DataUsed]) -> None:
        """Record the data sets of the run, as `mlflow.log_input` does."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(name[:500], fingerprint[:36], "local", json.dumps({"name": name, "fingerprint": fingerprint})),
                [InputTag("mlflow.data.context", split)],
            )
            for name, split, fingerprint in used
        ]
        if inputs:
            self._client.log_inputs(self.run_id, datasets=inputs)

    def text(self, name: str, text: str) -> None:
        """Store a text as the run's artifact `name`."""
        self._client.log_text(self.run_id, text, name)

    def artifact(self, path: Path, folder: str | None = None) -> None:
        """Store a copy of a file as an artifact of the run."""
        self._client.log_artifact(self.run_id, str(path), folder)

    def network(self, network: "nn.Module", name: str, packages: Sequence[str], code: Sequence[str] = ()) -> None:
        """Log a network as the run's model `name`: `mlflow.pytorch.load_model("runs:/<id>/model")` loads it.

        It is done as by `mlflow.pytorch.log_model`, which needs an active run.

        Args:
            network: the network on the CPU.
            packages: requirements for loading it, in the form of pip. Others are not searched for, which takes long.
            code: Python files that define the network, if no package does.
        """
        client, run = self._client, self._client.get_run(self.run_id)
        if run.outputs is not None and run.outputs.model_outputs:
            return
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):  # of MLflow's types
            import mlflow.pyfunc
            import mlflow.pytorch
            from mlflow.entities import LoggedModelOutput, LoggedModelStatus

            logging.getLogger("mlflow.pytorch").setLevel(logging.ERROR)  # hides a warning about pickles
            path, how = Path(folder) / name, mlflow.pytorch.SERIALIZATION_FORMAT_PICKLE
            made: dict[str, Any] = {"pip_requirements": list(packages), "code_paths": list(code) or None}
            mlflow.pytorch.save_model(network, path, serialization_format=how, **made)
            of_run: dict[str, Any] = {"source_run_id": self.run_id, "model_type": "backbone"}
            model = client.create_logged_model(run.info.experiment_id, name=name, **of_run)
            client.log_model_artifacts(model.model_id, str(path))
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
        client.log_outputs(self.run_id, models=[LoggedModelOutput(model.model_id, 0)])

    def finish(self) -> None:
        """Mark the run FINISHED. This must be the last call, after everything is recorded."""
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
            self._finished = True

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
    text, note = str(value), "... (truncated; complete in config.yaml)"
    return text if len(text) <= length else text[: length - len(note)] + note
