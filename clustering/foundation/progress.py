"""Where long computations report to: progress, which the console shows as bars, and learning curves."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Advance(Protocol):
    """Report `n` more completed units; `numbers` (a loss, an accuracy) may be shown beside the bar, text as it is."""

    def __call__(self, n: int = 1, **numbers: float | str) -> None: ...


class Progress(Protocol):
    """Receives progress reports of a long computation."""

    def track(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """Open a bar of `total` units; it closes with the context, finished or not."""
        ...

    def note(self, text: str) -> None:
        """Show the user a message, such as what was resumed, reused or discarded."""
        ...


class Log(Protocol):
    """Receiver of the learning curves during a training."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Record values at a step: an optimiser step for names `step_*`, otherwise an epoch (from 1)."""
        ...


Observe = Callable[["NDArray[np.int64]"], Mapping[str, float]]
"""Takes (N,) the clusters of the points as they were seen in an epoch, -1 for those left out, and gives numbers for the
log. Nothing of it goes back into the training."""


class Quiet:
    """Progress that shows nothing."""

    @contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        yield _ignore

    def note(self, text: str) -> None:
        pass


def _ignore(n: int = 1, **numbers: float | str) -> None:
    pass


quiet: Progress = Quiet()
