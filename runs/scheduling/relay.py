"""Progress bars and notes of other processes, shown on the console of this process."""

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
    from clustering.foundation.progress import Advance, Progress

PAUSE = 0.1  # seconds between two messages about one bar

# Destination of the progress messages of this process, if another process shows them.
CURRENT_PROGRESS: "ContextVar[Progress | None]" = ContextVar("CURRENT_PROGRESS", default=None)


class Sender:
    """A `Progress` that sends its messages to another process; they are lost if that end is closed."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._keys = itertools.count()

    def note(self, text: str) -> None:
        """Send a line for the user."""
        self._send("note", text)

    @contextmanager
    def track(self, description: str, total: int) -> Iterator["Advance"]:
        """Open a progress bar in the other process."""
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
    """A thread that shows the messages of all `Sender`s on a console, each in a lane of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._new: queue.SimpleQueue[Connection[Any, Any] | None] = queue.SimpleQueue()
        self._woken, self._wake = Pipe(duplex=False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def add(self, connection: "Connection[Any, Any]") -> None:
        """Listen to another connection until its other end is closed; this end is closed then."""
        self._new.put(connection)
        self._wake.send(None)

    def close(self) -> None:
        """Wait for the remaining messages; all senders must have ended."""
        self._new.put(None)
        self._wake.send(None)
        self._thread.join()

    def _listen(self) -> None:
        lanes: dict[Connection[Any, Any], _Lane] = {}
        open_connection = True
        while open_connection or lanes:
            for ready in wait([self._woken, *lanes]):
                if ready is self._woken:
                    self._woken.recv()
                    added = self._new.get()
                    if added is None:
                        open_connection = False
                    else:
                        lanes[added] = _Lane(self._console.lane())
                elif isinstance(ready, Connection):
                    try:
                        lanes[ready].show(*ready.recv())
                    except (EOFError, OSError):
                        lanes.pop(ready).close()
                        ready.close()


class _Lane:
    """The bars of one sender on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: dict[int, tuple[AbstractContextManager[Advance], Advance]] = {}

    def show(self, kind: str, *contents: Any) -> None:
        if kind == "note":
            self._console.note(*contents)
        elif kind == "open":
            key, description, total = contents
            bar = self._console.track(description, total)
            self._open[key] = bar, bar.__enter__()
        elif kind == "advance":
            key, n, numbers = contents
            self._open[key][1](n, **numbers)
        else:
            self._open.pop(*contents)[0].__exit__(None, None, None)

    def close(self) -> None:
        """Close the bars that the sender left open."""
        for key in reversed(list(self._open)):
            self.show("close", key)
