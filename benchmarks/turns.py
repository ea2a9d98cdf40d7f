"""Sides that take turns, so that a slow drift of the machine favours none."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

Clock = Callable[[], float]


def timed(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds that the work takes."""
    began = clock()
    work()
    return clock() - began


def take_turns(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each side reports, round by round."""
    reported: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            reported[name].append(side())
    return reported


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch limited to so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
