"""Interruptions: of a progress, as a person does in the middle of a training, and at a place of the program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class Stopping:
    """Progress that interrupts after so many points or steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[object]:
        def advance(n: int = 1, **numbers: float) -> None:
            self.left -= n
            if self.left <= 0:
                raise KeyboardInterrupt

        yield advance

    def note(self, text: str) -> None:
        pass


def interrupt(*_: object, **__: object) -> NoReturn:
    """What a function becomes at which a person presses Ctrl-C."""
    raise KeyboardInterrupt
