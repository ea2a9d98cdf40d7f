"""Paired comparison of strategies on the same tasks.

Accuracies vary much more between tasks than between strategies on the same task, so the intervals of two means may
overlap although their difference is significant. Here strategies are resampled together: each bootstrap sample of tasks
gives the mean of each strategy, and the difference of two strategies is computed on the same sample.
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
_DRAWS = 200_000_000  # limit on random draws; above it, fewer resamples are used, which hardly changes the interval
_AT_ONCE = 1 << 17  # draws counted at once: 1 MiB, which fits in the cache

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The difference in accuracy between two strategies, as a fraction; positive if the first is better.

    Attributes:
        mean: mean over seeds of the mean difference over the units (tasks, or the queries of a single task).
        low, high: 95 % interval of `mean`, from resampling the units of each seed, for fixed trained networks.
        better, equal, worse: fractions of the units in which the first strategy is better, equal or worse.
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
        """Half-width of the 95 % interval over seeds (Student's t), which includes the variation between trained
        networks; NaN for one seed."""
        return half_width_over_seeds(self.seed_means)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval over units excludes 0, and with several seeds the interval over seeds as well."""
        over_units = self.low > 0 or self.high < 0
        return over_units and (len(self.seed_means) < 2 or abs(self.mean) > self.seeds_half_width)


@dataclass(frozen=True, eq=False)
class Paired:
    """Accuracies of S strategies on the same units.

    Attributes:
        accuracies: for each seed, (U, S) accuracy of each strategy on each task; for a single task, 1 for correct
            queries and 0 for the others.
        resamples: number of bootstrap samples.

    Raises:
        InputError: there are no seeds or no units, or the seeds have different numbers of strategies.
    """

    accuracies: Sequence[Matrix]
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        shapes = [values.shape for values in self.accuracies]
        if not shapes or any(len(shape) != 2 or 0 in shape for shape in shapes) or len({s[1] for s in shapes}) > 1:
            raise InputError(
                f"paired accuracies must be of shape (units, strategies) with the same strategies, not {shapes}"
            )

    def difference(self, first: int, second: int) -> Difference:
        """The difference of strategy `first` minus strategy `second`, given by their columns."""
        by_unit = [values[:, first] - values[:, second] for values in self.accuracies]
        units = np.concatenate(by_unit)
        equal = float(
            (np.abs(units) < 1e-9).mean()
        )  # accuracies are ratios of counts: smaller differences are rounding
        better, worse = float((units >= 1e-9).mean()), float((units <= -1e-9).mean())
        sampled = self.resampled_means[:, first] - self.resampled_means[:, second]
        low, high = np.quantile(sampled, (0.025, 0.975))
        seed_means = tuple(float(values.mean()) for values in by_unit)
        mean = float(np.mean(seed_means))
        return Difference(mean, float(low), float(high), better, equal, worse, seed_means)

    @cached_property
    def resampled_means(self) -> Matrix:
        """(R, S) mean over seeds of each strategy's mean on each bootstrap sample; all strategies use the same samples
        (percentile bootstrap, Efron and Tibshirani 1993, section 13.3)."""
        largest = max(len(values) for values in self.accuracies)
        resamples = min(self.resamples, max(_FEWEST, _DRAWS // largest))
        means = [
            _resampled(values, resamples, stream(seed, "bootstrap", len(values)))
            for seed, values in enumerate(self.accuracies)
        ]
        return np.asarray(np.mean(means, axis=0))


def _resampled(values: Matrix, resamples: int, random: np.random.Generator) -> Matrix:
    """(R, S) means of R samples of U rows with replacement. A sample is represented by the counts of its rows, so that
    its means are a matrix product."""
    units = len(values)
    means = np.empty((resamples, values.shape[1]))
    at_once = max(1, _AT_ONCE // units)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = random.integers(0, units, (rows, units)) + np.arange(rows)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        means[start : start + rows] = counts @ values / units
    return means
