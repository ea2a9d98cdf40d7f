"""How long the parts of a fit took, with the same boundaries for every method."""

import time
from typing import NamedTuple


class Seconds(NamedTuple):
    """Wall time of a fit, in seconds.

    Attributes:
        graph: the neighbour graph and the bandwidth that comes with it; 0 where it was given.
        seeding: first prototypes or labels of all starts.
        optimise: from there to labels, the spectral decomposition of a spectral method included.
    """

    graph: float
    seeding: float
    optimise: float


class Stopwatch:
    """The time since it was last looked at."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap, or since the watch was started."""
        now = time.perf_counter()
        passed, self._since = now - self._since, now
        return passed
