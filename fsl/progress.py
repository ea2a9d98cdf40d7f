"""Progress of long computations: a protocol, which the console implements with progress bars."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Report `n` more completed units; `numbers` (a loss, an accuracy) may be shown beside the bar."""

    def __call__(self, n: int = 1, **numbers: float) -> None: ...


class Progress(Protocol):
    """Receives progress reports of a long computation."""

    def track(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Open a bar of `total` units; it closes with the context, finished or not."""
        ...

    def note(self, text: str) -> None:
        """Show the user a message, such as what was resumed, reused or discarded."""
        ...


class Quiet:
    """Progress that shows nothing."""

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        yield _ignore

    def note(self, text: str) -> None:
        pass


def _ignore(n: int = 1, **numbers: float) -> None:
    pass


quiet: Progress = Quiet()
