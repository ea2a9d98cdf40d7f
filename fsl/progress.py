"""How long work reports how far it is: a protocol that the experiment layer fills with a bar; else silent."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Count `n` more finished units; `numbers` (a loss, an accuracy) may be shown beside the bar."""

    def __call__(self, n: int = 1, **numbers: float) -> None: ...


class Progress(Protocol):
    """What a long computation is handed to report to."""

    def track(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Open a bar of `total` units; it closes with the context, finished or not."""
        ...

    def note(self, text: str) -> None:
        """One line for the user about something that happened: what was resumed, reused or discarded."""
        ...


class Quiet:
    """Reports nothing."""

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        yield _ignore

    def note(self, text: str) -> None:
        pass


def _ignore(n: int = 1, **numbers: float) -> None:
    pass


quiet: Progress = Quiet()
