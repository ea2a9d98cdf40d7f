"""The location of the record of runs: a database in the results folder, another database, or a server."""

import functools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from clustering.foundation.errors import InputError
from runs.record.passwords import without_passwords
from runs.record.relocation import origin_of, relocate, relocated
from runs.storage.locks import Say, silent
from runs.storage.store import Store

ENVIRONMENT = "MLFLOW_TRACKING_URI"
PATIENCE = 60.0  # seconds of waiting for a process that writes to the database
SILENCE = 5.0  # seconds of waiting before a message is printed


class RecordPlace:
    """The location of the runs of one store. Nothing is opened before it is needed.

    Args:
        store: the results folder.
        uri: an MLflow tracking URI; None: the environment variable MLFLOW_TRACKING_URI, else SQLite in the store.
        say: function that prints messages for the user.
    """

    def __init__(self, store: Store, *, uri: str | None = None, say: Say = silent) -> None:
        address = uri or os.environ.get(ENVIRONMENT)
        self.store = store
        self.own = address is None
        self.uri = address or f"sqlite:///{store.database}"
        self.say = say
        if address and (address.startswith("file:") or "://" not in address) and not address.startswith("databricks"):
            raise InputError(
                f"{ENVIRONMENT}={self.place}: MLflow no longer stores runs in a plain folder; "
                "set sqlite:////absolute/path.db or the address of a server, or unset it"
            )
        if address and address.partition("?")[0] in ("sqlite://", "sqlite:///", "sqlite:///:memory:"):
            raise InputError(
                f"{ENVIRONMENT}={self.place}: a record in memory is lost when the command ends; "
                "set sqlite:////absolute/path.db, or unset it"
            )
        if self.database and not self.own and not self.database.parent.is_dir():
            raise InputError(
                f"{ENVIRONMENT}={self.place}: there is no folder {self.database.parent}; create it, or correct the path"
            )

    @functools.cached_property
    def database(self) -> Path | None:
        """The file of a record in SQLite, whether it exists or not; None for a record elsewhere."""
        if self.own:
            return self.store.database
        if not self.uri.startswith("sqlite:///") or self.uri.startswith("sqlite:///file:"):
            return None
        return Path(self.uri.removeprefix("sqlite:///").partition("?")[0]).absolute()

    @property
    def place(self) -> str:
        """The address of the record without passwords."""
        return str(self.store.database) if self.own else without_passwords(self.uri)

    @property
    def is_server(self) -> bool:
        return self.uri.startswith(("http://", "https://"))

    @property
    def origin(self) -> str:
        """The machine and folder whose locks show whether a run of this store is active."""
        return origin_of(self.store)

    @functools.cached_property
    def moved(self) -> dict[str, str]:
        """Old addresses of artefacts in a record that cannot be written and therefore still contains them; see
        `runs.record.relocation`."""
        return relocate(self.store, self.say) if self.own else {}

    def exists(self) -> bool:
        """Return whether there is a record to read. False means that no run was ever made; nothing is created."""
        return self.database is None or self.database.exists()

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Yield the database of the record, opened for reading only.

        Raises:
            InputError: the file is not a database, is damaged, or a process writes to it for over a minute; also if
                the error occurs within the block.
        """
        database = self.database
        assert database is not None, "a server has no file"
        other = "another results folder with results=FOLDER" if self.own else "another MLFLOW_TRACKING_URI"
        if not database.is_file():
            raise InputError(f"{database}: not a file, so not an MLflow record; move it elsewhere, or use {other}")
        try:
            # Not mode=ro: SQLite could then not roll back the transaction of a killed process; every query would fail.
            address, silence = f"{database.as_uri()}?mode=rw", min(SILENCE, PATIENCE)
            with closing(sqlite3.connect(address, timeout=silence, isolation_level=None, uri=True)) as connection:
                connection.execute("pragma query_only = on")
                try:
                    connection.execute("select version_num from alembic_version").fetchone()
                except sqlite3.OperationalError as error:
                    if not _is_busy(error):
                        raise
                    self.say(f"{database}: another process is writing to it; waiting up to {PATIENCE:.0f} s")
                connection.execute(f"pragma busy_timeout = {1000 * PATIENCE:.0f}")
                connection.execute("select version_num from alembic_version").fetchone()
                if not self.moved:
                    yield connection
                    return
                with closing(relocated(connection, self.moved, self.store)) as copy:
                    yield copy
        except sqlite3.Error as error:
            if _is_busy(error):
                raise InputError(
                    f"{database}: another process is writing to it ({error}); rerun the command later"
                ) from error
            is_other = str(error).startswith("no such") and "alembic_version" not in str(error)
            remedy = (
                f"update it with `mlflow db upgrade {without_passwords(self.uri)}`" if is_other else "move it elsewhere"
            )
            raise InputError(f"{database}: no usable MLflow record ({error}); {remedy}, or use {other}") from error


def _is_busy(error: sqlite3.Error) -> bool:
    return bool(getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY)
