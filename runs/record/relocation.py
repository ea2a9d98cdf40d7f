"""Relocation of a results folder that was moved or copied. MLflow stores absolute addresses of artefacts. They are
updated before anything is read: in the database, or in a copy in memory if the database cannot be written."""

import socket
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from urllib.request import url2pathname

from clustering.foundation.errors import InputError
from runs.storage.locks import Say
from runs.storage.store import Store

PATIENCE = 60.0  # seconds of waiting for a process that writes to the database
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)  # CANTOPEN: the journal beside the database


def origin_of(store: Store) -> str:
    """Return the machine and folder whose locks show whether a run of a store is active."""
    return f"{socket.gethostname()}:{store.root}"


def relocate(store: Store, say: Say) -> dict[str, str]:
    """Update the artefact addresses of the record in a results folder if they are those of another folder.

    Addresses of artefacts that remained in the other folder are unchanged.

    Returns:
        Old artefact addresses by experiment, if the record cannot be written and therefore still contains them.

    Raises:
        InputError: a process uses the folder by its other name.
        sqlite3.Error: the file is not a record of runs.
    """
    database, artifacts = store.database, store.artifacts
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", timeout=PATIENCE, uri=True)) as connection:
        moved = _moved(connection, artifacts)
        if not moved:
            return {}
        bases = dict.fromkeys(moved.values())
        message = f"{store.root} was moved or copied from {' and '.join(str(_folder(base).parent) for base in bases)}"
        try:
            with connection:  # one transaction
                connection.execute("begin immediate")
                _rewrite(connection, moved, store)
                for base in bases:
                    _check(connection, base, store)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in UNWRITABLE:
                raise
            say(f"{message}; its record is read-only, so it keeps the old paths")
            return moved
    say(f"{message}; the paths in its record were updated")
    return {}


def relocated(connection: sqlite3.Connection, moved: Mapping[str, str], store: Store) -> sqlite3.Connection:
    """Return a copy in memory of a record that cannot be written, with the updated addresses."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    connection.backup(copy)
    _rewrite(copy, moved, store)
    return copy


def _moved(connection: sqlite3.Connection, artifacts: Path) -> dict[str, str]:
    """Return artefact addresses in other folders, by the names of the experiments that were moved from there."""
    moved = {}
    for name, location in connection.execute("select name, artifact_location from experiments"):
        folder = (artifacts / name).as_uri()
        ending = folder.removeprefix(artifacts.as_uri())
        place = (location or "").removesuffix("/")
        if place != folder and place.startswith("file://") and place.endswith("/artifacts" + ending):
            base = place.removesuffix(ending)
            if (artifacts / name).exists() or not (_folder(base) / name).is_dir():
                moved[name] = base
    return moved


def _check(connection: sqlite3.Connection, base: str, store: Store) -> None:
    """Check that no process uses the folder by its other name."""
    other = _folder(base)
    running = connection.execute(
        "select stage.value, identity.value from runs join tags stage on stage.run_uuid = runs.run_uuid and "
        "stage.key = 'stage' join tags identity on identity.run_uuid = runs.run_uuid and identity.key = 'identity' "
        "where runs.status = 'RUNNING'"
    ).fetchall()
    for stage, identity in running:
        with store.try_lock(stage, identity) as free:
            if not free:
                raise InputError(
                    f"{store.root} is in use by another process as {other.parent}; set results= to that folder, "
                    "or wait until the process ends"
                )


def _rewrite(connection: sqlite3.Connection, moved: Mapping[str, str], store: Store) -> None:
    for name, base in moved.items():
        new = (store.artifacts / name).as_uri()
        old = base + new.removeprefix(store.artifacts.as_uri())
        connection.execute("update experiments set artifact_location = ? where name = ?", (new, name))
        connection.execute(
            "update runs set artifact_uri = ? || substr(artifact_uri, ?) where substr(artifact_uri, 1, ?) = ?",
            (new, len(old) + 1, len(old) + 1, old + "/"),
        )
        # Otherwise runs that were active in the old folder would count as those of another machine, and stay RUNNING.
        folder = f":{_folder(base).parent}"
        connection.execute(
            "update tags set value = ? where key = 'origin' and substr(value, ?) = ?",
            (origin_of(store), -len(folder), folder),
        )


def _folder(address: str) -> Path:
    return Path(url2pathname(address.removeprefix("file://")))
