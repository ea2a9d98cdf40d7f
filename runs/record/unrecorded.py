"""Results that are computed and not yet in the record: kept on disk, so that none is lost or computed twice."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from runs.storage.store import COMPLETE, Store

M = TypeVar("M")


class Runs(Protocol):
    """The record, as far as it is asked here."""

    def get(self, run_id: str) -> Any | None:
        """MLflow's `Run` of that id; None where there is none."""


class Made(NamedTuple, Generic[M]):
    """The content of a result, and what is noted about it."""

    content: M
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Unrecorded:
    """The place of one result in `results/cache/unrecorded/`, from its computation until its run is finished.

    It is there after a kill, a full disk or a lost server, and the next command records it.
    """

    store: Store
    stage: str
    identity: str

    def keep(self, name: str, save: Callable[[Path], None], run_id: str, **facts: Any) -> Path:
        """Write the result before any of it goes into the record.

        Args:
            name: of the file. save: writes it.
            run_id: the run that it belongs to.
        """
        partial = self.store.partial("unrecorded", self._key, fresh=True)
        with self.store.watched():
            save(partial / name)
        return self.store.publish("unrecorded", self._key, [name], {"run": run_id, **facts}).path / name

    def pending(self, record: Runs, *, held: bool = False) -> bool:
        """Whether a result waits for its record. One whose run was finished just before a kill does not: it is removed.

        Args:
            held: the caller holds the lock of this result.
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
        """The result that waits for its record; None where there is none. Only for the owner of the lock.

        Args:
            force: only one that was computed by force.
        """
        entry = self.store.peek("unrecorded", self._key) if self.pending(record, held=True) else None
        if entry is None or (force and not entry.facts.get("forced")):
            return None
        facts = {key: value for key, value in entry.facts.items() if key != "run"}
        return Made(load(entry.path / name), facts)

    def drop(self) -> None:
        """Away with it: its run is finished."""
        shutil.rmtree(self.store.cache("unrecorded") / self._key, ignore_errors=True)

    @property
    def _key(self) -> str:
        return f"{self.stage}-{self.identity}"


def drop_recorded(store: Store, record: Runs) -> None:
    """Remove all that waits no longer, whether anybody asks for it again or not."""
    for path in store.cache("unrecorded").glob(f"*/{COMPLETE}"):
        stage, _, identity = path.parent.name.rpartition("-")
        Unrecorded(store, stage, identity).pending(record)
