"""Mean accuracies and their intervals over tasks, queries and classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NORMAL = 1.96
"""Half-width of the 95 % interval of a normal distribution, in standard errors."""


def half_width(values: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    """Half-width of the 95 % interval of a mean: 1.96 std / sqrt(n), with the population standard deviation, as in
    few-shot papers."""
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
    """Counts of queries by their true class, over all tasks, for the C classes of a split.

    Attributes:
        asked: (C,) int64 number of queries of each class; a query in several tasks counts each time.
        right: (C,) int64 number of correct queries of each class.
    """

    asked: NDArray[np.int64]
    right: NDArray[np.int64]

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """(C,) accuracy of each class, NaN for classes without queries."""
        with np.errstate(invalid="ignore"):
            return self.right / self.asked

    @property
    def mean(self) -> float:
        """Unweighted mean of the classes' accuracies ("Per Class" of thesis Table 4.3)."""
        return float(np.nanmean(self.accuracies))

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % interval of `mean`, if each query occurs once; classes are fixed, queries are random.
        Classes whose queries are all correct, or all wrong, contribute no variance."""
        shares = self.accuracies[self.asked > 0]
        variances = shares * (1 - shares) / self.asked[self.asked > 0]
        return NORMAL * math.sqrt(float(variances.sum())) / len(shares)
