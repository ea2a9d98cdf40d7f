"""Differences of means over the same tasks, with the normal interval of the mean (10,000 tasks need no bootstrap)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fsl.evaluation.scores import Evaluation
from runs.tables.verdicts import ClaimStatus

BySeed = Mapping[int, Evaluation]
"""The tracked runs of a cell, task by task."""
Z = 1.96


@dataclass(frozen=True)
class Gain:
    """A mean, or the difference of two, with its standard error. Fractions."""

    value: float
    error: float

    def __sub__(self, other: "Gain") -> "Gain":
        """The difference of two independent ones."""
        return Gain(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.value - Z * self.error, self.value + Z * self.error

    def above(self, bound: float = 0.0) -> ClaimStatus:
        """Whether it lies above `bound`: holds, fails, or a tie where the interval holds the bound."""
        low, high = self.interval
        if low > bound:
            return "holds"
        return "fails" if high < bound else "tie"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def gain(better: BySeed, than: BySeed | None = None) -> Gain | None:
    """Mean over the seeds that both have, of the mean over tasks of the one's accuracy less the other's, which were
    given the same tasks; without another, of the one's accuracy. None where they have no seed in common, or other
    tasks."""
    seeds = sorted(better.keys() & (better if than is None else than).keys())
    values = []
    for seed in seeds:
        units = better[seed].by_unit
        other = np.zeros_like(units) if than is None else than[seed].by_unit
        if units.shape != other.shape:
            return None
        values.append(units - other)
    if not values:
        return None
    variances = [float(units.var()) / len(units) for units in values]
    return Gain(float(np.mean([units.mean() for units in values])), math.sqrt(sum(variances)) / len(values))
