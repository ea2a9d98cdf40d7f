"""Locks between processes. The operating system frees a lock when its process ends: a free lock has no live owner."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

Say = Callable[[str], None]
PATIENCE = 2.0  # seconds of waiting before a message is printed


def silent(message: str) -> None:
    """A message function that does nothing."""


@contextmanager
def locked(path: Path, what: str, say: Say = silent) -> Iterator[None]:
    """Hold the lock file `path`; print a message if waiting takes longer than two seconds."""
    try:
        held = FileLock(path).acquire(timeout=PATIENCE)
    except Timeout:
        say(f"another process is working on {what}; waiting until it ends")
        held = FileLock(path).acquire()
    with held:
        yield


@contextmanager
def try_locked(path: Path) -> Iterator[bool]:
    """Hold the lock file `path` if it is free; yields whether it was free."""
    try:
        held = FileLock(path).acquire(timeout=0)
    except Timeout:
        yield False
        return
    with held:
        yield True
