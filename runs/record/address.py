"""The address of the record of runs, and MLflow's client for it.

The record is SQLite in the results folder, or what MLFLOW_TRACKING_URI names: a server, or another database.
"""

import functools
import glob
import logging
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record.passwords import without_passwords
from runs.storage.disk import is_full
from runs.storage.locks import Say, locked

ENVIRONMENT = "MLFLOW_TRACKING_URI"
ROOT = "MLFLOW_DEFAULT_ARTIFACT_ROOT"  # as of `mlflow server`
DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}  # by module
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    # MLflow's defaults retry a request for eight minutes or longer.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
}
LOGGERS = ("mlflow", "alembic", "mlflow.store.db.utils", "urllib3.connectionpool")  # repeat what errors say
CALLERS = ("RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_PARAMETER_VALUE")  # errors callers handle


class RecordUnreachable(InputError):
    """The server or database with the record does not answer. Finished results are kept in the results folder."""


def quiet_mlflow() -> None:
    """Disable MLflow's telemetry and output, and bound its retries. Call before the first import of mlflow."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def sqlite_uri(path: Path) -> str:
    """The address of an SQLite file, whose signs % and ? SQLAlchemy would interpret."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


class Address:
    """The address of the record of one results folder. Nothing is opened before it is needed.

    Args:
        store: the results folder.
        uri: an MLflow tracking URI; None: the environment variable MLFLOW_TRACKING_URI; if empty, SQLite in the store.
        say: receives messages for the user.

    Attributes:
        own: whether the record is in the store.
        database: the file of a record in SQLite, whether it exists or not; None for a record elsewhere.

    Raises:
        InputError: MLflow cannot keep runs there.
    """

    def __init__(self, store: Store, uri: str | None, say: Say) -> None:
        self.store, self.say = store, say
        self.uri = os.environ.get(ENVIRONMENT, "").strip() if uri is None else uri
        self.own = not self.uri
        self.database: Path | None = store.database if self.own else None
        path, mark, options = self.uri.removeprefix("sqlite:///").partition("?")
        if self.uri.startswith("sqlite:"):
            if path in ("", "sqlite://", ":memory:") or path.startswith("file:"):
                raise self._refused("a record in memory is lost when the command ends")
            self.database = Path(unquote(path)).absolute()  # the working folder may change
            if not self.database.parent.is_dir():
                raise self._refused(f"there is no folder {self.database.parent}")
        elif not self.own and ("://" not in self.uri or self.uri.startswith("file:")) and self.uri != "databricks":
            raise self._refused("MLflow no longer stores runs in a plain folder")
        elif self.is_server and re.search(r"://[^/?#@]*[/?#].*@", self.uri):
            raise self._refused("in a user name or password, write / as %2F, ? as %3F and # as %23")
        if self.database is not None:
            self.uri = sqlite_uri(self.database) + mark + options

    def _refused(self, reason: str) -> InputError:
        remedy = "set sqlite:////absolute/path.db or the address of a server, or unset it"
        return InputError(f"{ENVIRONMENT}={self.place}: {reason}; {remedy}")

    @property
    def place(self) -> str:
        """The address without passwords."""
        return str(self.store.database) if self.own else without_passwords(self.uri)

    @property
    def is_server(self) -> bool:
        return self.uri.startswith(("http://", "https://", "databricks"))

    def exists(self) -> bool:
        """Return whether there is a record to read. False means that no run was ever made; nothing is created."""
        return self.database is None or os.path.lexists(self.database)

    @property
    def state(self) -> str:
        """Size, time and inode of the record's file, which each change of a run changes; empty for other records."""
        if self.database is not None and not os.path.lexists(f"{self.database}-wal"):
            with suppress(OSError):
                found = self.database.stat()
                return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
        return ""

    @property
    def is_open(self) -> bool:
        return "client" in vars(self)

    def artifact_location(self, experiment: str) -> str | None:
        """Return the place of a new experiment's artifacts; None: the server chooses it.

        Raises:
            InputError: the record is a database that several machines may use, and no place of artifacts is set.
        """
        if self.is_server:
            return None
        if self.database is not None:
            return (self.store.artifacts / experiment).as_uri()
        if root := os.environ.get(ROOT, "").rstrip("/"):
            return f"{root}/{experiment}"
        raise InputError(
            f"{ENVIRONMENT}={self.place}: a database does not say where files of runs are stored; set {ROOT} to a "
            "place that every machine reaches (s3://..., or a shared folder), or start an MLflow server on this "
            "database and give its address"
        )

    @functools.cached_property
    def client(self) -> Any:
        """The open `MlflowClient`; its calls raise plain errors.

        Raises:
            InputError: the server does not answer, the database cannot be written or read, or its driver is missing.
        """
        quiet_mlflow()
        try:
            self._check_file()
            from mlflow.tracking import MlflowClient

            for name in LOGGERS:  # after the import, which sets the levels
                logging.getLogger(name).setLevel(logging.CRITICAL)
            return _Client(self._open(MlflowClient), self.failure)
        except ModuleNotFoundError as error:
            package = DRIVERS.get(error.name or "", error.name)
            remedy = f"the driver of this database is not installed; pip install {package}"
            raise InputError(f"{ENVIRONMENT}={self.place}: {remedy}") from error
        except (InputError, OSError):
            raise
        except Exception as error:  # MLflow and SQLAlchemy raise errors of many kinds
            if is_full(error):
                raise
            raise self.failure(error) or self._unusable(error) from error

    def _check_file(self) -> None:
        """Check that a database file is one of MLflow, which would turn an empty or other file into a new record."""
        if self.database is None or not os.path.lexists(self.database):
            return
        try:
            with open_regular(self.database) as file:
                if not file.read(16).startswith(b"SQLite format 3"):
                    raise self._unusable("it is not an SQLite database")
        except OSError as error:
            raise self._unusable(error.strerror or error) from error
        from sqlalchemy import create_engine, inspect

        engine = create_engine(self.uri)
        try:
            if not inspect(engine).has_table("alembic_version"):
                raise self._unusable("it is the database of another program")
        finally:
            engine.dispose()

    def _open(self, client: Callable[..., Any]) -> Any:
        if not self.exists():
            self.store.prepare()
            # If two processes create the same database, MLflow ends one of them; a kill leaves no half-made one.
            with locked(self.store.locks / "mlflow.db.lock", "the new record of runs", self.say):
                if self.database is not None and not self.database.exists():
                    name = self.database.name
                    for left in self.database.parent.glob(f"{glob.escape(name)}*.new*"):
                        left.unlink(missing_ok=True)
                    # A name of its own each time: MLflow keeps connections by address.
                    new = self.database.with_name(f"{name}-{secrets.token_hex(4)}.new")
                    client(tracking_uri=sqlite_uri(new))
                    os.replace(new, self.database)
        opened = client(tracking_uri=self.uri)
        if self.database is not None:
            with suppress(OSError):  # it is not empty, unless it is the one that MLflow makes of a quoted % or ?
                Path(self.uri.removeprefix("sqlite:///").partition("?")[0]).parent.rmdir()
        return opened

    def _unusable(self, reason: object) -> InputError:
        text = str(reason)
        if "database is locked" in text or "table is locked" in text:
            return InputError(f"{self.place}: another process is writing to it; rerun the command later")
        if "schema" in text:
            remedy = f"update it with `mlflow db upgrade {without_passwords(self.uri)}`"
        elif self.own:
            remedy = "move it elsewhere, or use another results folder with results=FOLDER"
        else:
            remedy = f"correct {ENVIRONMENT}, or unset it"
        return InputError(f"{self.place}: no usable MLflow record ({_first_line(reason)}); {remedy}")

    def failure(self, error: Exception) -> Exception | None:
        """Return the plain error for an error of MLflow's client; None for errors that callers handle."""
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        if not isinstance(error, MlflowException | RequestException | SQLAlchemyError | UnicodeError):
            return None
        if is_full(error) or getattr(error, "error_code", "") in CALLERS:
            return None
        if self.database is not None:
            return self._unusable(error)
        reason = _first_line(error)
        if getattr(error, "get_http_status_code", lambda: 0)() in (401, 403) or "error code 40" in str(error):
            reason = "it rejects the user or the password"
        return RecordUnreachable(
            f"{self.place}: the record of runs cannot be reached ({reason}). Finished results are kept in the results "
            "folder; when the record can be reached again, rerun the same command to continue"
        )


class _Client:
    """An `MlflowClient` whose calls raise plain errors. After the record was unreachable once, calls fail at once."""

    def __init__(self, client: Any, failure: Callable[[Exception], Exception | None]) -> None:
        self._client, self._failure = client, failure
        self._gone: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._gone is not None:
                raise self._gone
            try:
                return method(*args, **kwargs)
            except Exception as error:
                plain = self._failure(error)
                if plain is None:
                    raise
                if isinstance(plain, RecordUnreachable):
                    self._gone = plain
                raise plain from error

        return call


def _first_line(reason: object) -> str:
    return without_passwords((str(reason).strip().splitlines() or [type(reason).__name__])[0])[:200]
