"""The record of runs in MLflow, by its API: start, find, resume and finish runs.

A command with several configs has one parent run and a nested run of each config. A run becomes FINISHED after
everything is recorded. Its params are the settings that differ from the defaults; the artifact config.yaml has all.
"""

import getpass
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import url2pathname

from clustering.foundation.errors import InputError
from runs.cache import CONFIG, Entry, Store
from runs.record.address import Address, RecordUnreachable
from runs.record.code_version import code_version
from runs.record.machine import machine
from runs.record.passwords import without_passwords
from runs.record.query import (
    COMMAND,
    EXPERIMENT,
    FOLDER,
    KEY,
    NOTE,
    PAGE,
    PARENT,
    STAGE,
    RunRow,
    experiments,
    read_runs,
    search,
)
from runs.record.tracked_run import DataUsed, TrackedRun
from runs.storage.locks import Say, silent

__all__ = ["COMMAND", "NOTE", "PARENT", "DataUsed", "RunRow", "TrackedRun", "Tracker", "read_runs"]

T = TypeVar("T")


class Tracker(Address):
    """The runs of one results folder. Nothing is opened before it is needed.

    Args:
        store: the results folder.
        uri: an MLflow tracking URI; None: the environment variable MLFLOW_TRACKING_URI; if empty, SQLite in the store.
        say: receives messages for the user.
    """

    def __init__(self, store: Store, *, uri: str | None = None, say: Say = silent) -> None:
        super().__init__(store, uri, say)
        self._experiments: dict[str, str] = {}

    def experiment(self, name: str) -> str:
        """Return the id of an experiment; a missing one is created, a deleted one is restored.

        MLFLOW_EXPERIMENT_NAME, if it is set, replaces every name.
        """
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or name
        if name not in self._experiments:
            self._experiments[name] = self._experiment(name)
        return self._experiments[name]

    def _experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        entry, expected = self.client.get_experiment_by_name(name), self.artifact_location(name)
        if entry is not None and (place := str(entry.artifact_location or "").removesuffix("/")) in ("", "None"):
            remedy = "rename it, so that a new one is created"
            raise InputError(f"{self.place}: the experiment {name!r} has no place for artifacts; {remedy}")
        if entry is not None and self.own and place != expected:
            # MLflow cannot change the place: artifacts would be stored where the results folder was before.
            old = f"{name} (until moved from {_path(place).parents[name.count('/') + 1]})"
            self.client.rename_experiment(entry.experiment_id, old)
            self.say(f"{self.store.root} was moved: its earlier runs are now in the experiment {old!r}")
            entry = None
        if entry is None:
            kind = {"mlflow.experimentKind": "custom_model_development"}
            with suppress(MlflowException):  # another process was first
                self.client.create_experiment(name, artifact_location=expected, tags=kind)
            entry = self.client.get_experiment_by_name(name)
        if entry is None:
            raise InputError(f"{self.place}: the experiment {name!r} could not be created; rerun the command")
        if entry.lifecycle_stage == "deleted":
            self.client.restore_experiment(entry.experiment_id)
            self.say(f"the deleted experiment {name} was restored")
        return str(entry.experiment_id)

    def start(
        self,
        experiment: str,
        name: str,
        *,
        stage: str,
        key: str,
        params: Mapping[str, Any],
        config: str = "",
        tags: Mapping[str, Any] | None = None,
        parent: str = "",
    ) -> TrackedRun:
        """Start a run, and record its settings.

        Args:
            stage: kind of its result.
            key: key of its result.
            params: settings that differ from the defaults.
            config: the whole config as YAML, an artifact.
            parent: id of its parent run.
        """
        commit, user = code_version(), ""
        with suppress(OSError, KeyError, ImportError):
            user = getpass.getuser()
        known: dict[str, Any] = {KEY: key, STAGE: stage, EXPERIMENT: experiment, FOLDER: self.store.id}
        known |= {"machine": machine(), "code": commit, "mlflow.user": user, "mlflow.source.type": "LOCAL"}
        known |= {"mlflow.source.name": Path(sys.argv[0] or "python").name}
        known |= {"mlflow.source.git.commit": commit.removesuffix("+changes")} | ({PARENT: parent} if parent else {})
        created = self.client.create_run(self.experiment(experiment), run_name=name, tags=known)
        run = self.tracked(created.info.run_id)
        with run.guarded():
            self.describe(run, params=params, config=config, tags=tags)
        return run

    def describe(
        self,
        run: TrackedRun,
        *,
        params: Mapping[str, Any],
        config: str = "",
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the settings of a run, as in `start`: also of a resumed one, which may have been killed before."""
        known = self.client.get_run(run.run_id).data.params  # which MLflow does not change
        new = {name: value for name, value in params.items() if name not in known}
        run.log(params=new, tags=tags)
        if config:
            run.text(CONFIG, config)

    def tracked(self, run_id: str, last_steps: Mapping[str, int] | None = None) -> TrackedRun:
        """Return an existing run, opened for writing; `last_steps` as in `TrackedRun`."""
        return TrackedRun(self.client, run_id, last_steps)

    def unfinished(self, experiment: str, keys: Collection[str], parent: str = "") -> dict[str, TrackedRun]:
        """Resume the newest interrupted or failed runs from this results folder, by key. The caller holds their locks.

        Args:
            parent: id of a run; only its children are resumed.
        """
        condition = f"tags.{FOLDER} = '{self.store.id}' and attributes.status != 'FINISHED'"
        condition += f" and tags.{KEY} = '{next(iter(keys))}'" if len(keys) == 1 else ""
        condition += f" and tags.`{PARENT}` = '{parent}'" if parent else ""
        resumed: dict[str, TrackedRun] = {}
        for run in search(self, [self.experiment(experiment)], condition):
            key = run.data.tags.get(KEY, "")
            if key in keys and key not in resumed:
                resumed[key] = self._resume(run)
        return resumed

    def _resume(self, run: Any) -> TrackedRun:
        data, run_id = run.data, run.info.run_id
        steps = {name: max(p.step for p in self.client.get_metric_history(run_id, name)) for name in data.metrics}
        self.client.update_run(run_id, status="RUNNING")
        if "ended" in data.tags:  # the reason of the interruption
            self.client.delete_tag(run_id, "ended")
        resumed = self.tracked(run_id, steps)
        resumed.log(tags={"resumed": int(data.tags.get("resumed", 0)) + 1, "machine": machine()})
        return resumed

    @contextmanager
    def command(
        self, experiment: str, name: str, key: str, failures: Sequence[tuple[str, Exception]] = ()
    ) -> Iterator[str]:
        """Yield the id of the parent run of a command; an interrupted one is resumed, and a finished one reused.

        Args:
            key: key of the command's results.
            failures: filled during the block; the parent run is then FAILED.
        """
        with self.store.try_lock(COMMAND, key) as free:
            if not free:  # the same command runs in another process
                running = self.find(key, status="RUNNING")
                yield running.info.run_id if running else ""
                return
            done = self.find(key)
            run = self.unfinished(experiment, [key]).get(key) if done is None else self._resume(done)
            if run is None:
                line = without_passwords(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
                run = self.start(experiment, name, stage=COMMAND, key=key, params={}, tags={NOTE: line})
            with run.guarded():
                yield run.run_id
                if failures:
                    run.stop("FAILED", f"{len(failures)} failed: {', '.join(name for name, _ in failures)}")
                else:
                    run.finish()

    def end_dead_runs(self) -> None:
        """Mark RUNNING runs of this results folder KILLED whose process ended: nobody holds the lock of their key."""
        if not self.exists() or not (self.store.root / "id").exists():
            return
        condition = f"attributes.status = 'RUNNING' and tags.{FOLDER} = '{self.store.id}'"
        for run in list(search(self, experiments(self), condition)):
            tags, run_id = run.data.tags, run.info.run_id
            with self.store.try_lock(tags.get(STAGE, ""), tags.get(KEY, "")) as free:
                # Its process may have finished the run between the search and the lock.
                if free and self.client.get_run(run_id).info.status == "RUNNING":
                    self.tracked(run_id).stop("KILLED", "its process ended unexpectedly")
                    self.say(f"marked as KILLED: {run.info.run_name}; its process ended before the run was finished")

    def recorded(self, entries: Sequence[tuple[Entry, str]]) -> dict[str, str]:
        """Return the ids of the finished runs that record results of the cache, by name of the entry.

        Runs that the entries note are read at once, unless the record has not changed since: then it is not opened.
        Each other one is searched by its key.

        Args:
            entries: each result, and the id of the parent run below which it must be recorded (empty: anywhere).
        """
        state = self.state
        notes = [(entry, *entry.noted_run(self.note_of(parent))) for entry, parent in entries]
        found = {entry.name: run_id for entry, run_id, seen in notes if run_id and seen == state != ""}
        noted = {run_id: entry for entry, run_id, _ in notes if run_id and entry.name not in found}
        if not self.exists() or len(found) == len({entry.name for entry, _ in entries}):
            return found
        for start in range(0, len(noted), PAGE):
            ids = ", ".join(f"'{run_id}'" for run_id in list(noted)[start : start + PAGE])
            condition = f"attributes.run_id IN ({ids}) and attributes.status = 'FINISHED'"
            for run in search(self, experiments(self), condition):
                entry, tags = noted[run.info.run_id], run.data.tags
                if (tags.get(KEY), tags.get("fingerprint")) == (entry.key, entry.fingerprint):
                    found[entry.name] = run.info.run_id
        for entry, parent in entries:
            if entry.name not in found:
                run = self.find(entry.key, fingerprint=entry.fingerprint, parent=parent)
                found |= {entry.name: run.info.run_id} if run else {}
        return found

    def note_of(self, parent: str = "") -> str:
        """Return the name under which results of the cache note their runs in this record, below a parent run."""
        return f"{'' if self.own else self.place}#{parent}"

    def find(self, key: str, *, fingerprint: str = "", parent: str = "", status: str = "FINISHED") -> Any | None:
        """Return the newest run with a key, as MLflow's `Run`; None if there is none.

        Args:
            fingerprint: only a run that records the result with this fingerprint.
            parent: id of a run; only its children are searched.
        """
        condition = f"tags.{KEY} = '{key}' and attributes.status = '{status}'"
        condition += f" and tags.fingerprint = '{fingerprint}'" if fingerprint else ""
        condition += f" and tags.`{PARENT}` = '{parent}'" if parent else ""
        return next(search(self, experiments(self), condition), None) if self.exists() else None

    def read(self, run_id: str, name: str, load: Callable[[Path], T], artifacts: str = "") -> T:
        """Return one artifact of a run, read by `load`.

        Args:
            artifacts: URI of the run's files, if it is known; files on this machine are then read directly.

        Raises:
            ValueError: the artifact is missing or damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.download(run_id, name, Path(folder), artifacts)
            if path is None:
                raise ValueError("missing")
            try:
                return load(path)
            except Exception as error:  # zipfile and numpy each raise their own errors
                raise ValueError(f"damaged: {error}") from error

    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """Return the path of one artifact of a run, or None if it is missing.

        An artifact on this machine is not copied; other artifacts are downloaded to `folder`.
        """
        if artifacts.startswith("file://"):
            path = _path(artifacts)
            if self.own and not path.is_dir():  # the results folder was moved
                moved = (self.store.artifacts.joinpath(*path.parts[-count:]) for count in (4, 3, 5, 6))
                path = next((place for place in moved if place.is_dir()), path)
            return path / name if (path / name).is_file() else None
        try:
            return Path(self.client.download_artifacts(run_id, name, str(folder)))
        except RecordUnreachable:
            raise
        except Exception:  # each kind of artifact store raises its own errors
            return None


def _path(address: str) -> Path:
    return Path(url2pathname(address.removeprefix("file://")))
