"""The record of runs in MLflow: open, log, find, reuse.

Only `MlflowClient` is used, by run id: there is no active run that tests or threads could share. A run is
FINISHED only when everything is in it, so a reader may trust FINISHED runs and no others.
"""

import base64
import functools
import http.client
import logging
import os
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from clustering.foundation.errors import InputError
from runs.record.code_version import code_version
from runs.record.passwords import without_passwords
from runs.record.patient_client import PatientClient, RecordUnreachable, bound_retries
from runs.record.place import ENVIRONMENT, RecordPlace
from runs.record.tracked_run import TrackedRun
from runs.record.unrecorded import drop_recorded
from runs.storage.locks import Say, locked, silent
from runs.storage.store import Store

T = TypeVar("T")
DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}  # by module
PARENT = "mlflow.parentRunId"  # the tag by which MLflow's interface nests a run below another


class Tracker(RecordPlace):
    """The runs of one store. Nothing is opened before it is needed.

    Args:
        store: the results folder.
        uri: an MLflow tracking URI; None is the environment's MLFLOW_TRACKING_URI, else SQLite in the store.
        say: told what the user should know.
    """

    def __init__(self, store: Store, *, uri: str | None = None, say: Say = silent) -> None:
        super().__init__(store, uri=uri, say=say)
        self._experiments: dict[str, str] = {}

    @functools.cached_property
    def client(self) -> Any:
        """The open `MlflowClient`; of a record that is not a file here, with bounded patience.

        Raises:
            InputError: the server does not answer, the database cannot be written or read, or its driver is missing.
        """
        quiet_mlflow()
        if self.is_server:
            _answers(self.uri, self.place)
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
        from sqlalchemy.exc import ArgumentError, DatabaseError

        logging.getLogger("mlflow").setLevel(logging.ERROR)  # after the import, which sets it to INFO
        logging.getLogger("alembic").setLevel(logging.ERROR)
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # its tracebacks of what it raises
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # its lines on every retry
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
                f"bring it up to date with `mlflow db upgrade {without_passwords(self.uri)}`"
                if "schema" in str(error)
                else "move it away, or give another results folder with results=FOLDER"
                if self.own
                else f"mend {ENVIRONMENT}, or unset it"
            )
            raise InputError(f"{self.place}: no usable MLflow record ({_first_line(error)}); {remedy}") from error

    @contextmanager
    def _creation_lock(self) -> Iterator[None]:
        """Of two processes that make one database at once, MLflow kills one."""
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
        """That a file under the record's name is one: MLflow would make an empty or foreign one into a new record."""
        if self.database and os.path.lexists(self.database):
            with self.opened():
                pass

    def _create(self, client: type, database: Path) -> None:
        """Make an empty database beside its place, then rename it: a kill leaves no half-made one."""
        new = database.with_name(database.name + ".new")
        new.unlink(missing_ok=True)
        new.with_name(new.name + "-journal").unlink(missing_ok=True)
        client(tracking_uri=f"sqlite:///{new}")
        os.replace(new, database)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """As `Store.watched`: a full or read-only disk below MLflow becomes one plain error."""
        with self.store.watched():
            yield

    def experiment(self, name: str) -> str:
        """The id of the experiment of that name, which is made, or restored where it was deleted."""
        if name in self._experiments:
            return self._experiments[name]
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is None:
            # Else MLflow would put the files below whatever folder this process happens to run in.
            place = None if self.is_server else (self.store.artifacts / name).as_uri()
            with self.watched(), suppress(MlflowException):  # another process may have been quicker
                self.client.create_experiment(name, artifact_location=place)
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise InputError(f"{self.place}: cannot make the experiment {name!r}")
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
            self.say(f"the experiment {name} had been deleted: restored")
        self._check_place(name, found.artifact_location)
        self._experiments[name] = found.experiment_id
        return str(found.experiment_id)

    def _check_place(self, name: str, location: str) -> None:
        """A database that was copied without its artefacts would have new ones beside the old ones."""
        if self.own and location.removesuffix("/") != (self.store.artifacts / name).as_uri():
            raise InputError(
                f"{self.store.database}: the artefacts of {name} are in {location} and not in {self.store.artifacts}; "
                "copy that folder here, too, or give another results folder with results=FOLDER"
            )

    def find(
        self, experiment: str, identity: str, *, parent: str | None = None, status: str = "FINISHED"
    ) -> Any | None:
        """The newest not deleted run of that identity and status, as MLflow's `Run`, or None.

        Args:
            parent: id of a run; only its children are looked at.
        """
        known = self.client.get_experiment_by_name(experiment) if self.exists() else None
        if known is None:
            return None
        wanted = [f"tags.identity = '{identity}'", f"attributes.status = '{status}'"]
        wanted += [f"tags.`{PARENT}` = '{parent}'"] if parent else []
        order = ["attributes.start_time DESC"]
        found = self.client.search_runs([known.experiment_id], " and ".join(wanted), max_results=1, order_by=order)
        return found[0] if found else None

    def get(self, run_id: str) -> Any | None:
        """MLflow's `Run` of that id, or None where it does not exist or was deleted."""
        from mlflow.exceptions import MlflowException

        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":  # a server that hiccups has not lost the run
                raise
            return None
        return run if run.info.lifecycle_stage == "active" else None

    def bury(self, prefix: str = "", identity: str | None = None) -> int:
        """Mark RUNNING runs of this store KILLED whose process is gone (their lock is free); gives how many.

        Without arguments, results that are kept for their record are removed, too, where it has them.

        Args:
            prefix: of the experiments to look at.
            identity: only runs of that identity, whose lock the caller holds.
        """
        if not self.exists():
            return 0
        if not prefix and identity is None:
            drop_recorded(self.store, self)
        found = [e.experiment_id for e in self.client.search_experiments() if e.name.startswith(prefix)]
        which = f" and tags.identity = '{identity}'" if identity else ""
        dead = 0
        for run in self.client.search_runs(found, "attributes.status = 'RUNNING'" + which) if found else []:
            tags = run.data.tags
            if tags.get("origin") != self.origin or "identity" not in tags:
                continue  # another machine's, or not ours: nothing is known about its process
            if identity:
                dead += self._kill(run)
                continue
            with self.store.try_lock(tags.get("stage", ""), tags["identity"]) as free:
                # Its owner may have finished it between the search and the lock.
                if free and self.client.get_run(run.info.run_id).info.status == "RUNNING":
                    dead += self._kill(run)
        return dead

    def _kill(self, run: Any) -> int:
        self.tracked(run.info.run_id).stop("KILLED", "its process ended without a word")
        self.say(f"marked as KILLED: {run.info.run_name}, whose process ended before it was done")
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
        """A new RUNNING run with its parameters, its resolved config as `config.yaml`, and its tags."""
        with self.watched():
            known = {"identity": identity, "stage": stage, "origin": self.origin, "code": code_version()}
            created = self.client.create_run(self.experiment(experiment), run_name=name, tags=known)
            run = self.tracked(created.info.run_id)
            with run.guarded():
                run.log(params=params, tags=tags)
                run.text("config.yaml", config)
        return run

    def tracked(self, run_id: str, seen: Mapping[str, int] | None = None) -> TrackedRun:
        """A run that is there, to be written; `seen` as of `TrackedRun`."""
        return TrackedRun(self.client, self.store, run_id, seen)

    def resume(self, run_id: str) -> TrackedRun | None:
        """Go on in a run that was interrupted; None where it was deleted or belongs to another record."""
        run = self.get(run_id)
        if run is None:
            return None
        seen = {}
        for key in run.data.metrics:
            seen[key] = max(point.step for point in self.client.get_metric_history(run_id, key))
        with self.watched():
            self.client.update_run(run_id, status="RUNNING")
            if "ended" in run.data.tags:  # how it was interrupted
                self.client.delete_tag(run_id, "ended")
            times = int(run.data.tags.get("resumed", 0)) + 1
            resumed = self.tracked(run_id, seen)
            resumed.log(tags={"resumed": times, "origin": self.origin})
        return resumed

    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """One artefact of a run, or None where it is gone: in its place where that is known to be on this machine,
        else a copy in `folder`."""
        if artifacts.startswith("file://"):
            path = Path(url2pathname(artifacts.removeprefix("file://"))) / name
            return path if path.is_file() else None
        try:
            return Path(self.client.download_artifacts(run_id, name, str(folder)))
        except RecordUnreachable:
            raise
        except Exception:  # each kind of artefact store raises its own
            return None

    def read(self, run_id: str, name: str, load: Callable[[Path], T], artifacts: str = "") -> T:
        """One artefact of a run, as `load` reads its file.

        Args:
            artifacts: URI of the run's files, where it is known: those of this machine are read in their place.

        Raises:
            ValueError: it is gone or damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.download(run_id, name, Path(folder), artifacts)
            if path is None:
                raise ValueError("missing")
            try:
                return load(path)
            except Exception as error:  # zipfile and numpy each raise their own
                raise ValueError(f"damaged: {error}") from error

    def address(self, run_id: str) -> str:
        """Where a person finds the run: its page on a server, else its artefact folder."""
        info = self.client.get_run(run_id).info
        if self.is_server:
            return f"{self.place.rstrip('/')}/#/experiments/{info.experiment_id}/runs/{run_id}"
        return str(info.artifact_uri)


def quiet_mlflow() -> None:
    """No telemetry, bounded retries, nothing on standard output. Before the first import of mlflow."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    bound_retries()


def _answers(uri: str, place: str) -> None:
    """A quick look, before anything is imported, whether a server is there at all."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:  # of brackets that hold no address
        raise InputError(f"{ENVIRONMENT}={place}: {error}; give http://HOST:PORT") from error
    user, _, host = parts.netloc.rpartition("@")
    if host != urlsplit(place).netloc:
        raise InputError(f"{ENVIRONMENT}={place}: write a / ? or # of a user or password as %2F, %3F or %23")
    request = urllib.request.Request(parts._replace(netloc=host, fragment="").geturl())
    if user:
        secret = base64.b64encode(unquote(user).encode()).decode()
        request.add_header("Authorization", f"Basic {secret}")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # it answers
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError):
            return  # MLflow has settings of its own for certificates
        raise RecordUnreachable(
            f"{ENVIRONMENT}={place}: the server does not answer ({error}); start it, or unset {ENVIRONMENT}"
        ) from error


def _first_line(error: BaseException) -> str:
    return without_passwords((str(error).strip().splitlines() or [type(error).__name__])[0])[:200]
