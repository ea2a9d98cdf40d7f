"""Right and wrong answers counted: mean accuracies and their intervals, over tasks, queries and classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NORMAL = 1.96
"""Standard errors on each side of a mean that hold 95 % of a normal distribution."""


def half_width(values: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    """Half-width of the 95 % interval of a mean: 1.96 std / sqrt(n), with the population's std (fewshot tables)."""
    return NORMAL * float(values.std(dtype=np.float64)) / math.sqrt(len(values))


def half_width_over_seeds(means: Sequence[float]) -> float:
    """Half-width of the 95 % interval of the mean over seeds (Student's t); NaN for one seed."""
    n = len(means)
    if n < 2:
        return math.nan
    from scipy.stats import t

    return float(t.ppf(0.975, n - 1)) * float(np.std(means, ddof=1)) / math.sqrt(n)


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Queries by their true class, over all tasks. C classes of a split.

    Attributes:
        asked: (C,) int64, how many queries of each class there were; one that is in several tasks counts in each.
        right: (C,) int64, how many of them got their true class.
    """

    asked: NDArray[np.int64]
    right: NDArray[np.int64]

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """(C,) accuracy of each class, NaN where nothing was asked."""
        with np.errstate(invalid="ignore"):
            return self.right / self.asked

    @property
    def mean(self) -> float:
        """Mean of the classes' accuracies, each class counting alike ("Per Class" of thesis Table 4.3)."""
        return float(np.nanmean(self.accuracies))

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % interval of `mean`, where each query was asked once: the classes are given, their
        queries drawn. A class whose queries are all right, or all wrong, adds nothing to it."""
        shares = self.accuracies[self.asked > 0]
        variances = shares * (1 - shares) / self.asked[self.asked > 0]
        return NORMAL * math.sqrt(float(variances.sum())) / len(shares)
