"""The starts of a fair clustering and the best of them at each weight, on a sample first if there are many points.

Starts, and the rungs that lead to a weight, differ by far more than their last updates, and a sample is enough to
compare them. All of them therefore run on a sample, and the best continues with all points from its prototypes and
prices until the same criterion stops it. The weight is divided by the number of points, so that on a sample it is
scaled by the size of the sample and the prices of the groups stay the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.streams import seed_of, stream
from clustering.starts import rounding
from fairness.optimiser.climb import Course, Stage
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import Rule
from fairness.optimiser.variational import follow, go_on

_SAMPLE, _MEMBERS = 100_000, 256
"""Size of a sample, and minimum number of its points per cluster. No sample is taken of fewer than twice as many
points."""

LOWEST_RUNG = 0.01
"""Weight of the lowest rung, in units of the costs about one prototype, per cluster."""


def sample(cells: NDArray[np.int64], clusters: int, random_state: Any) -> NDArray[np.int64] | None:
    """(n,) ascending indices of a sample with the same share, rounded up, of the points of each cell.

    Args:
        cells: (N,) cells of the points, 0..C-1.
        clusters: K.
        random_state: as in scikit-learn; not used if no sample is taken.

    Returns:
        The indices, or None if there are too few points for a sample.
    """
    points, size = len(cells), max(_SAMPLE, _MEMBERS * clusters)
    if points < 2 * size:
        return None
    seed = seed_of(random_state)
    drawn = stream(seed, "fair sample").permutation(points)
    drawn = drawn[cells[drawn].argsort(kind="stable")]
    sizes = np.bincount(cells)
    rank = np.arange(points) - (sizes.cumsum() - sizes)[cells[drawn]]
    return np.sort(drawn[rank < np.ceil(sizes * (size / points))[cells[drawn]]])


@dataclass(frozen=True)
class Starts:
    """Data and settings shared by the starts of a fit.

    Attributes:
        points: the data. subset: a sample relative to the same origin, if there are many points.
        rule: rule of the prototypes.
        penalty: the fairness term; its own weight is ignored.
        seeds: (T, K, D) initial prototypes, relative to the origin of the points.
        course: settings of the minimisation.
        unit: costs about one prototype, per cluster.
    """

    points: Points
    subset: Points | None
    rule: Rule
    penalty: Penalty
    seeds: Tensor
    course: Course
    unit: float

    def along(self, seed: Tensor, weights: Iterable[float], returning: bool) -> Iterator[Stage]:
        """Yield the result of one start at each of the weights, which are consumed one at a time.

        If there is a sample, the start runs on it first. With `returning`, a weight may be lower than the previous one.
        """
        for stage in self._followed(seed, weights, returning):
            yield stage if self.subset is None else self._with_all(stage)

    def best(
        self, weights: Sequence[float], keep: Callable[[Stage], Stage], done: Callable[[int, int], None] | None = None
    ) -> list[Stage]:
        """For each weight, the stage with the fewest empty clusters and, among those, the lowest E of the labels.

        Args:
            weights: >= 0, rising.
            keep: reduces a stage to what is kept; called at once, because the fit overwrites the assignments.
            done: callback, called with the number of finished stages over all starts and their total number.
        """
        best: dict[float, Stage] = {}
        counted = count(1)
        for seed in self.seeds:
            for weight, stage in zip(weights, self._followed(seed, weights), strict=True):
                if weight not in best or _better(stage, best[weight], self.seeds.dtype):
                    best[weight] = keep(stage) if self.subset is None else stage._replace(logs=[])
                if done is not None:
                    done(next(counted), len(self.seeds) * len(weights))
        if self.subset is None:
            return [best[weight] for weight in weights]
        return [keep(self._with_all(best[weight])) for weight in weights]

    @property
    def _share(self) -> float:
        return 1.0 if self.subset is None else self.subset.count / self.points.count

    def _followed(self, seed: Tensor, weights: Iterable[float], returning: bool = False) -> Iterator[Stage]:
        """Stages of the sample if there is one, otherwise of all points, with the requested weights."""
        points, share = self.subset or self.points, self._share
        requested: list[float] = []

        def scaled() -> Iterator[float]:
            for weight in weights:
                requested.append(weight)
                yield share * weight

        first = share * self.unit * LOWEST_RUNG
        for stage in follow(points, self.rule, self.penalty, seed, scaled(), self.course, first, returning):
            yield stage._replace(weight=requested[-1])

    def _with_all(self, stage: Stage) -> Stage:
        return go_on(self.points, self.rule, self.penalty, stage, stage.weight, self.course)


def _better(stage: Stage, other: Stage, dtype: torch.dtype) -> bool:
    """Whether `stage` has fewer empty clusters than `other`, or as many and a lower E of the labels."""
    if stage.empty != other.empty:
        return stage.empty < other.empty
    return stage.of_labels < other.of_labels - rounding(dtype) * abs(other.of_labels)
