"""Progress that interrupts, as a person does in the middle of a training."""

from collections.abc import Iterator
from contextlib import contextmanager


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
