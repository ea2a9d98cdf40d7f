"""Strategies compared on the same tasks: what counts is the difference within each task, not the spread between tasks.

Tasks differ far more from each other than strategies do on one of them, so that two intervals of two means overlap long
before the difference is in doubt. Here all strategies are resampled together: each bootstrap sample of tasks gives the
mean of every strategy, and a difference of two strategies is the difference of their means on the same sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.evaluation.scores import half_width_over_seeds

RESAMPLES = 9_999
_FEWEST = 999
_DRAWS = 200_000_000  # above which fewer resamples are taken: an interval over so many tasks moves little with them
_AT_ONCE = 1 << 17  # draws counted at once: 1 MiB, which stays in the cache

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How much better one strategy is than another. Fractions; below 0 it is worse.

    Attributes:
        mean: mean over seeds of the mean difference over the units (tasks, or the queries of the only one).
        low, high: 95 % interval of `mean`, from resampling the units of each seed: the trained networks are given.
        better, equal, worse: shares of the units in which it is.
        seed_means: mean difference of each seed.
    """

    mean: float
    low: float
    high: float
    better: float
    equal: float
    worse: float
    seed_means: tuple[float, ...]

    @property
    def seeds_half_width(self) -> float:
        """Half-width of the 95 % interval over seeds (Student's t), which holds for networks trained anew; NaN for
        one seed."""
        return half_width_over_seeds(self.seed_means)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval over the units excludes 0, and the one over seeds too where there are several."""
        over_units = self.low > 0 or self.high < 0
        return over_units and (len(self.seed_means) < 2 or abs(self.mean) > self.seeds_half_width)


@dataclass(frozen=True, eq=False)
class Paired:
    """Accuracies of S strategies on the same units.

    Attributes:
        accuracies: for each seed (U, S): the accuracy of every strategy on every task; where there is one task, 1 for
            the queries that it got right and 0 for the others.
        resamples: bootstrap samples.

    Raises:
        InputError: no seed, no units, or seeds with different numbers of strategies.
    """

    accuracies: Sequence[Matrix]
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        shapes = [values.shape for values in self.accuracies]
        if not shapes or any(len(shape) != 2 or 0 in shape for shape in shapes) or len({s[1] for s in shapes}) > 1:
            raise InputError(f"paired accuracies must be (units, strategies), alike in strategies, not {shapes}")

    def difference(self, first: int, second: int) -> Difference:
        """Of strategy `first` less strategy `second`, by their columns."""
        by_unit = [values[:, first] - values[:, second] for values in self.accuracies]
        units = np.concatenate(by_unit)
        equal = float((np.abs(units) < 1e-9).mean())  # accuracies are counts over counts: rounding only
        better, worse = float((units >= 1e-9).mean()), float((units <= -1e-9).mean())
        sampled = self.resampled_means[:, first] - self.resampled_means[:, second]
        low, high = np.quantile(sampled, (0.025, 0.975))
        seed_means = tuple(float(values.mean()) for values in by_unit)
        mean = float(np.mean(seed_means))
        return Difference(mean, float(low), float(high), better, equal, worse, seed_means)

    @cached_property
    def resampled_means(self) -> Matrix:
        """(R, S) mean over seeds of the strategies' means on each bootstrap sample of units, the same for all of them
        (percentile bootstrap, Efron and Tibshirani 1993, section 13.3)."""
        largest = max(len(values) for values in self.accuracies)
        resamples = min(self.resamples, max(_FEWEST, _DRAWS // largest))
        means = [
            _resampled(values, resamples, stream(seed, "bootstrap", len(values)))
            for seed, values in enumerate(self.accuracies)
        ]
        return np.asarray(np.mean(means, axis=0))


def _resampled(values: Matrix, resamples: int, random: np.random.Generator) -> Matrix:
    """(R, S) means of R samples of U rows with replacement. A sample is how often each row was drawn, so that its
    means for all columns are one product, and no sample is ever laid out."""
    units = len(values)
    found = np.empty((resamples, values.shape[1]))
    at_once = max(1, _AT_ONCE // units)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = random.integers(0, units, (rows, units)) + np.arange(rows)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        found[start : start + rows] = counts @ values / units
    return found
