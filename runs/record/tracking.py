"""The record of runs in MLflow: open, log, find, reuse.

Only `MlflowClient` is used, by run id: tests and threads share no active run. A run becomes FINISHED after everything
is recorded, so only FINISHED runs are complete.
"""

import base64
import functools
import http.client
import logging
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from clustering.foundation.errors import InputError
from runs.record.code_version import code_version
from runs.record.machine import machine
from runs.record.passwords import without_passwords
from runs.record.patient_client import PatientClient, RecordUnreachable, bound_retries
from runs.record.place import ENVIRONMENT, RecordPlace
from runs.record.run_folders import RunFolders
from runs.record.tracked_run import TrackedRun
from runs.record.unrecorded import drop_recorded
from runs.storage.locks import Say, locked, silent
from runs.storage.store import Store

T = TypeVar("T")
DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}  # by module
PARENT = "mlflow.parentRunId"  # the tag by which MLflow's interface nests a run below another


class Tracker(RecordPlace, RunFolders):
    """The runs of one store. Nothing is opened before it is needed.

    Args:
        store: the results folder.
        uri: an MLflow tracking URI; None: the environment variable MLFLOW_TRACKING_URI, else SQLite in the store.
        say: function that prints messages for the user.
    """

    def __init__(self, store: Store, *, uri: str | None = None, say: Say = silent) -> None:
        super().__init__(store, uri=uri, say=say)
        self._experiments: dict[str, str] = {}

    @functools.cached_property
    def client(self) -> Any:
        """The open `MlflowClient`; if the record is not a local file, with a limited waiting time.

        Raises:
            InputError: the server does not answer, the database cannot be written or read, or its driver is missing.
        """
        quiet_mlflow()
        if self.is_server:
            _answers(self.uri, self.place)
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
        from sqlalchemy.exc import ArgumentError, DatabaseError

        logging.getLogger("mlflow").setLevel(logging.ERROR)  # after the import, which sets the level to INFO
        logging.getLogger("alembic").setLevel(logging.ERROR)
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # hides tracebacks of raised errors
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # hides the messages about every retry
        self._check_database()
        try:
            with self.watched(), self._creation_lock():
                if self.database is None:
                    return PatientClient(lambda: MlflowClient(tracking_uri=self.uri), self.place, self.say)
                if not self.database.exists():
                    self._create(MlflowClient, self.database)
                return MlflowClient(tracking_uri=self.uri)
        except InputError:
            raise
        except ModuleNotFoundError as error:
            package = DRIVERS.get(error.name or "", error.name)
            raise InputError(
                f"{ENVIRONMENT}={self.place}: the driver of this database is not installed; pip install {package}"
            ) from error
        except (MlflowException, DatabaseError, ArgumentError, ValueError) as error:
            remedy = (
                f"update it with `mlflow db upgrade {without_passwords(self.uri)}`"
                if "schema" in str(error)
                else "move it elsewhere, or use another results folder with results=FOLDER"
                if self.own
                else f"correct {ENVIRONMENT}, or unset it"
            )
            raise InputError(f"{self.place}: no usable MLflow record ({_first_line(error)}); {remedy}") from error

    @contextmanager
    def _creation_lock(self) -> Iterator[None]:
        """Hold the lock for creating a database: if two processes create the same database, MLflow ends one of them."""
        if self.database is None:
            yield
            return
        path = self.database.with_name(self.database.name + ".lock")
        if self.own:
            self.store.prepare()
            path = self.store.locks / path.name
        with locked(path, "the new run record", self.say):
            yield

    def _check_database(self) -> None:
        """Check that the file is a database of MLflow, which would turn an empty or other file into a new record."""
        if self.database and os.path.lexists(self.database):
            with self.opened():
                pass

    def _create(self, client: type, database: Path) -> None:
        """Create an empty database under a temporary name, then rename it: a kill leaves no incomplete database."""
        new = database.with_name(database.name + ".new")
        new.unlink(missing_ok=True)
        new.with_name(new.name + "-journal").unlink(missing_ok=True)
        client(tracking_uri=f"sqlite:///{new}")
        os.replace(new, database)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Like `Store.watched`: an error in MLflow caused by a full or read-only disk becomes one plain error."""
        with self.store.watched():
            yield

    def experiment(self, name: str) -> str:
        """Return the id of the experiment of that name; a missing one is created, a deleted one is restored."""
        if name in self._experiments:
            return self._experiments[name]
        from mlflow.exceptions import MlflowException

        entry = self.client.get_experiment_by_name(name)
        if entry is None:
            # Without a location, MLflow would store the files below the current folder of this process.
            place = None if self.is_server else (self.store.artifacts / name).as_uri()
            with self.watched(), suppress(MlflowException):  # another process may have created it
                self.client.create_experiment(name, artifact_location=place)
            entry = self.client.get_experiment_by_name(name)
            if entry is None:
                raise InputError(f"{self.place}: the experiment {name!r} could not be created; rerun the command")
        if entry.lifecycle_stage == "deleted":
            self.client.restore_experiment(entry.experiment_id)
            self.say(f"the deleted experiment {name} was restored")
        self._check_place(name, entry.artifact_location)
        self._experiments[name] = entry.experiment_id
        return str(entry.experiment_id)

    def _check_place(self, name: str, location: str) -> None:
        """Check that a database was not copied without its artefacts: new ones would be stored beside the old ones."""
        if self.own and location.removesuffix("/") != (self.store.artifacts / name).as_uri():
            raise InputError(
                f"{self.store.database}: the artefacts of {name} are in {location}, not in {self.store.artifacts}; "
                "copy that folder too, or use another results folder with results=FOLDER"
            )

    def find(
        self, experiment: str, identity: str, *, parent: str | None = None, status: str = "FINISHED"
    ) -> Any | None:
        """Return the newest run, not deleted, of that identity and status, as MLflow's `Run`, or None.

        Args:
            parent: id of a run; only its children are searched.
        """
        known = self.client.get_experiment_by_name(experiment) if self.exists() else None
        if known is None:
            return None
        conditions = [f"tags.identity = '{identity}'", f"attributes.status = '{status}'"]
        conditions += [f"tags.`{PARENT}` = '{parent}'"] if parent else []
        order = ["attributes.start_time DESC"]
        rows = self.client.search_runs([known.experiment_id], " and ".join(conditions), max_results=1, order_by=order)
        return rows[0] if rows else None

    def get(self, run_id: str) -> Any | None:
        """Return MLflow's `Run` of that id, or None if it does not exist or was deleted."""
        from mlflow.exceptions import MlflowException

        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":  # not for other errors of the server
                raise
            return None
        return run if run.info.lifecycle_stage == "active" else None

    def mark_orphans_killed(self, prefix: str = "", identity: str | None = None) -> int:
        """Mark RUNNING runs of this store KILLED if their process has ended (their lock is free); return their number.

        Without arguments, the kept copies of results that are now in the record are removed, too.

        Args:
            prefix: prefix of the names of the experiments to search.
            identity: only runs of this identity, whose lock the caller holds.
        """
        if not self.exists():
            return 0
        if not prefix and identity is None:
            drop_recorded(self.store, self)
        experiments = [e.experiment_id for e in self.client.search_experiments() if e.name.startswith(prefix)]
        condition = f" and tags.identity = '{identity}'" if identity else ""
        dead = 0
        for run in (
            self.client.search_runs(experiments, "attributes.status = 'RUNNING'" + condition) if experiments else []
        ):
            tags = run.data.tags
            if tags.get("origin") != self.origin or "identity" not in tags:
                continue  # a run of another machine or program, whose process is unknown
            if identity:
                dead += self._kill(run)
                continue
            with self.store.try_lock(tags.get("stage", ""), tags["identity"]) as free:
                # Its process may have finished the run between the search and the lock.
                if free and self.client.get_run(run.info.run_id).info.status == "RUNNING":
                    dead += self._kill(run)
        return dead

    def _kill(self, run: Any) -> int:
        self.tracked(run.info.run_id).stop("KILLED", "its process ended unexpectedly")
        self.say(f"marked as KILLED: {run.info.run_name}; its process ended before the run was finished")
        return 1

    def start(
        self,
        experiment: str,
        name: str,
        *,
        stage: str,
        identity: str,
        params: Mapping[str, Any],
        config: str,
        tags: Mapping[str, Any],
    ) -> TrackedRun:
        """Start a run, and record its parameters, its resolved config as `config.yaml`, and its tags."""
        with self.watched():
            known = {"identity": identity, "stage": stage, "origin": self.origin, "code": code_version()}
            known["machine"] = machine()
            created = self.client.create_run(self.experiment(experiment), run_name=name, tags=known)
            run = self.tracked(created.info.run_id)
            with run.guarded():
                run.log(params=params, tags=tags)
                run.text("config.yaml", config)
        return run

    def tracked(self, run_id: str, last_steps: Mapping[str, int] | None = None) -> TrackedRun:
        """Return an existing run, opened for writing; `seen` as in `TrackedRun`."""
        return TrackedRun(self.client, self.store, run_id, last_steps)

    def resume(self, run_id: str) -> TrackedRun | None:
        """Resume an interrupted run; None if it was deleted or belongs to another record."""
        run = self.get(run_id)
        if run is None:
            return None
        last_steps = {}
        for key in run.data.metrics:
            last_steps[key] = max(point.step for point in self.client.get_metric_history(run_id, key))
        with self.watched():
            self.client.update_run(run_id, status="RUNNING")
            if "ended" in run.data.tags:  # the reason of the interruption
                self.client.delete_tag(run_id, "ended")
            times = int(run.data.tags.get("resumed", 0)) + 1
            resumed = self.tracked(run_id, last_steps)
            resumed.log(tags={"resumed": times, "origin": self.origin, "machine": machine()})
        return resumed

    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """Return the path of one artefact of a run, or None if it is missing.

        An artefact on this machine is not copied; other artefacts are downloaded to `folder`.
        """
        if artifacts.startswith("file://"):
            path = Path(url2pathname(artifacts.removeprefix("file://"))) / name
            return path if path.is_file() else None
        try:
            return Path(self.client.download_artifacts(run_id, name, str(folder)))
        except RecordUnreachable:
            raise
        except Exception:  # each kind of artefact store raises its own errors
            return None

    def address(self, run_id: str) -> str:
        """Return the location of the run for the user: its page on a server, or else its artefact folder."""
        info = self.client.get_run(run_id).info
        if self.is_server:
            return f"{self.place.rstrip('/')}/#/experiments/{info.experiment_id}/runs/{run_id}"
        return str(info.artifact_uri)


def quiet_mlflow() -> None:
    """Disable MLflow's telemetry and standard output, and limit its retries. Call before the first import of mlflow."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    bound_retries()


def _answers(uri: str, place: str) -> None:
    """Check quickly, before imports, whether a server answers."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:  # raised for brackets that contain no address
        raise InputError(f"{ENVIRONMENT}={place}: {error}; set http://HOST:PORT") from error
    user, _, host = parts.netloc.rpartition("@")
    if host != urlsplit(place).netloc:
        raise InputError(f"{ENVIRONMENT}={place}: in a user name or password, write / as %2F, ? as %3F and # as %23")
    request = urllib.request.Request(parts._replace(netloc=host, fragment="").geturl())
    if user:
        secret = base64.b64encode(unquote(user).encode()).decode()
        request.add_header("Authorization", f"Basic {secret}")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # the server answers
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError):
            return  # MLflow has its own settings for certificates
        raise RecordUnreachable(
            f"{ENVIRONMENT}={place}: the server does not answer ({error}); start it, or unset {ENVIRONMENT}"
        ) from error


def _first_line(error: BaseException) -> str:
    return without_passwords((str(error).strip().splitlines() or [type(error).__name__])[0])[:200]
