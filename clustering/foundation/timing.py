"""Timing of the parts of a fit, with the same parts for all methods."""

import time
from typing import NamedTuple


class Seconds(NamedTuple):
    """Wall time of a fit, in seconds.

    Attributes:
        graph: time of the neighbour graph and its bandwidth; 0 if the graph was given.
        seeding: time of the initial prototypes or labels of all starts.
        optimise: time from there to the labels, including the spectral decomposition of a spectral method.
    """

    graph: float
    seeding: float
    optimise: float


class Stopwatch:
    """Measures the time between laps."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap or the start."""
        now = time.perf_counter()
        passed, self._since = now - self._since, now
        return passed
