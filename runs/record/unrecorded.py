"""Results that are computed but not yet in the record. They are kept on disk, so that none is lost or recomputed."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from runs.storage.store import COMPLETE, Store

M = TypeVar("M")


class Runs(Protocol):
    """The method of the record that is needed here."""

    def get(self, run_id: str) -> Any | None:
        """Return MLflow's `Run` of that id; None if there is none."""


class Made(NamedTuple, Generic[M]):
    """The content of a result, and the facts recorded about it."""

    content: M
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Unrecorded:
    """The folder of one result in `results/cache/unrecorded/`, from its computation until its run is finished.

    It remains after a kill, a full disk or the loss of the server, and the next command records the result.
    """

    store: Store
    stage: str
    identity: str

    def keep(self, name: str, save: Callable[[Path], None], run_id: str, **facts: Any) -> Path:
        """Write the result before any part of it is recorded.

        Args:
            name: name of the file.
            save: function that writes it.
            run_id: id of the run to which it belongs.
        """
        partial = self.store.partial("unrecorded", self._key, fresh=True)
        with self.store.watched():
            save(partial / name)
        return self.store.publish("unrecorded", self._key, [name], {"run": run_id, **facts}).path / name

    def pending(self, record: Runs, *, held: bool = False) -> bool:
        """Return whether a result is not recorded yet. A result whose run was finished just before a kill is removed.

        Args:
            held: whether the caller holds the lock of this result.
        """
        entry = self.store.peek("unrecorded", self._key)
        if entry is None:
            return False
        run = record.get(str(entry.facts.get("run", "")))
        if run is None or run.info.status != "FINISHED":
            return True
        with nullcontext(True) if held else self.store.try_lock(self.stage, self.identity) as free:
            if free:
                self.drop()
        return False

    def find(self, name: str, load: Callable[[Path], M], record: Runs, *, force: bool) -> Made[M] | None:
        """Return the result that is not recorded yet; None if there is none. The caller must hold the lock.

        Args:
            force: accept only a result that was computed with `force`.
        """
        entry = self.store.peek("unrecorded", self._key) if self.pending(record, held=True) else None
        if entry is None or (force and not entry.facts.get("forced")):
            return None
        facts = {key: value for key, value in entry.facts.items() if key != "run"}
        return Made(load(entry.path / name), facts)

    def drop(self) -> None:
        """Remove the folder after its run is finished."""
        shutil.rmtree(self.store.cache("unrecorded") / self._key, ignore_errors=True)

    @property
    def _key(self) -> str:
        return f"{self.stage}-{self.identity}"


def drop_recorded(store: Store, record: Runs) -> None:
    """Remove all results that are recorded now, whether or not they are requested again."""
    for path in store.cache("unrecorded").glob(f"*/{COMPLETE}"):
        stage, _, identity = path.parent.name.rpartition("-")
        Unrecorded(store, stage, identity).pending(record)
