"""Bars and notes of work in other processes, shown on this one's console."""

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.progress import Advance, Progress

PAUSE = 0.1  # seconds between two messages about one bar

# What the work of this process reports to, where another process shows it.
HERE: "ContextVar[Progress | None]" = ContextVar("HERE", default=None)


class Sender:
    """A `fsl.progress.Progress` that sends what it is told; where nobody listens any more it is lost."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._keys = itertools.count()

    def note(self, text: str) -> None:
        """A line for the user."""
        self._send("note", text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator["Advance"]:
        """A bar over there."""
        key, done, sent = next(self._keys), 0, time.monotonic()
        latest: dict[str, float] = {}
        self._send("open", key, description, total)

        def advance(n: int = 1, **numbers: float) -> None:
            nonlocal done, latest, sent
            done, latest = done + n, {**latest, **numbers}
            if time.monotonic() - sent >= PAUSE:
                self._send("advance", key, done, latest)
                done, latest, sent = 0, {}, time.monotonic()

        try:
            yield advance
        finally:
            self._send("advance", key, done, latest)
            self._send("close", key)

    def _send(self, *message: object) -> None:
        with self._lock, suppress(OSError):
            self._connection.send(message)


class Relay:
    """A thread that shows on a console what `Sender`s send, each of them on a lane of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._new: queue.SimpleQueue[Connection[Any, Any] | None] = queue.SimpleQueue()
        self._woken, self._wake = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def add(self, connection: "Connection[Any, Any]") -> None:
        """Listen to one more, until its other end is closed; it is closed here then."""
        self._new.put(connection)
        self._wake.send(None)

    def close(self) -> None:
        """Wait for what is still on its way; all senders must have ended."""
        self._new.put(None)
        self._wake.send(None)
        self._thread.join()

    def _listen(self) -> None:
        lanes: dict[Connection[Any, Any], _Lane] = {}
        more = True
        while more or lanes:
            for ready in wait([self._woken, *lanes]):
                if ready is self._woken:
                    self._woken.recv()
                    added = self._new.get()
                    if added is None:
                        more = False
                    else:
                        lanes[added] = _Lane(self._console.lane())
                elif isinstance(ready, Connection):
                    try:
                        lanes[ready].show(*ready.recv())
                    except (EOFError, OSError):
                        lanes.pop(ready).close()
                        ready.close()


class _Lane:
    """What one sender has on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: dict[int, tuple[AbstractContextManager[Advance], Advance]] = {}

    def show(self, what: str, *given: Any) -> None:
        if what == "note":
            self._console.note(*given)
        elif what == "open":
            key, description, total = given
            bar = self._console.track(description, total)
            self._open[key] = bar, bar.__enter__()
        elif what == "advance":
            key, n, numbers = given
            self._open[key][1](n, **numbers)
        else:
            self._open.pop(*given)[0].__exit__(None, None, None)

    def close(self) -> None:
        """The bars that its end left open."""
        for key in reversed(list(self._open)):
            self.show("close", key)
