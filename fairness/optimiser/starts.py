"""The starts of a fair clustering, and the best of them at each weight: on a sample first, where points are many.

Starts, and the rungs that lead to a weight, differ by far more than their last updates do, and as many points as these
tell them apart. So all of them run on a sample of the points, and the best goes on with all points from its prototypes
and prices, until it ends by the same rule. Weights count per point: on a sample they are its share of them, and the
prices of the groups stay what they are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.foundation.streams import stream
from clustering.starts import rounding
from fairness.optimiser.climb import Course, Stage
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.prototypes import Rule
from fairness.optimiser.store import Store
from fairness.optimiser.variational import follow, go_on

_SAMPLE, _MEMBERS = 100_000, 256
"""Points of a sample, and for each cluster at least. Fewer than twice as many are not worth one."""

LOWEST_RUNG = 0.01
"""Weight of the lowest rung, in units of the costs about one prototype, per cluster."""


def sample(cells: NDArray[np.int64], clusters: int, random_state: Any) -> NDArray[np.int64] | None:
    """(n,) indices, ascending, of points that stand for all: of every cell the same share of its points, rounded up.
    None where all are as few.

    Args:
        cells: (N,) of the points, 0..C-1.
        clusters: K.
        random_state: of scikit-learn; not touched where all are as few.
    """
    points, size = len(cells), max(_SAMPLE, _MEMBERS * clusters)
    if points < 2 * size:
        return None
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    drawn = stream(seed, "fair sample").permutation(points)
    drawn = drawn[cells[drawn].argsort(kind="stable")]
    sizes = np.bincount(cells)
    rank = np.arange(points) - (sizes.cumsum() - sizes)[cells[drawn]]
    return np.sort(drawn[rank < np.ceil(sizes * (size / points))[cells[drawn]]])


@dataclass(frozen=True)
class Starts:
    """What the starts of a fit have in common.

    Attributes:
        points: the data. some: a sample of them, from the same origin, where they are many.
        rule: how prototypes follow.
        penalty: the fairness term, its weight ignored.
        seeds: (T, K, D) first prototypes, from the origin of the points.
        course: how E is lowered.
        unit: costs about one prototype, per cluster.
    """

    points: Store
    some: Store | None
    rule: Rule
    penalty: Penalty
    seeds: Tensor
    course: Course
    unit: float

    def along(self, seed: Tensor, weights: Iterable[float], returning: bool) -> Iterator[Stage]:
        """Where one start leads, at each of the weights, which are asked for one by one; by way of the sample. A lower
        weight than the last may follow, if that is said."""
        for stage in self._followed(seed, weights, returning):
            yield stage if self.some is None else self._with_all(stage)

    def best(
        self, weights: Sequence[float], keep: Callable[[Stage], Stage], done: Callable[[int, int], None] | None = None
    ) -> list[Stage]:
        """Of all starts the stage of fewest empty clusters, and of those the one whose labels have the lowest E, for
        each weight.

        Args:
            weights: >= 0, rising.
            keep: what is kept of a stage, at once: the fit goes on and overwrites its assignments.
            done: told how many stages of all starts are finished, and how many there are.
        """
        best: dict[float, Stage] = {}
        counted = count(1)
        for seed in self.seeds:
            for weight, stage in zip(weights, self._followed(seed, weights), strict=True):
                if weight not in best or _better(stage, best[weight], self.seeds.dtype):
                    best[weight] = keep(stage) if self.some is None else stage._replace(logs=[])
                if done is not None:
                    done(next(counted), len(self.seeds) * len(weights))
        if self.some is None:
            return [best[weight] for weight in weights]
        return [keep(self._with_all(best[weight])) for weight in weights]

    @property
    def _share(self) -> float:
        return 1.0 if self.some is None else self.some.count / self.points.count

    def _followed(self, seed: Tensor, weights: Iterable[float], returning: bool = False) -> Iterator[Stage]:
        """Stages of the sample, where there is one; their weights are those that were asked for."""
        points, share = self.some or self.points, self._share
        asked: list[float] = []

        def scaled() -> Iterator[float]:
            for weight in weights:
                asked.append(weight)
                yield share * weight

        first = share * self.unit * LOWEST_RUNG
        for stage in follow(points, self.rule, self.penalty, seed, scaled(), self.course, first, returning):
            yield stage._replace(weight=asked[-1])

    def _with_all(self, begun: Stage) -> Stage:
        return go_on(self.points, self.rule, self.penalty, begun, begun.weight, self.course)


def _better(one: Stage, other: Stage, dtype: torch.dtype) -> bool:
    """Whether one stage has fewer empty clusters than another, or as many and labels of lower E."""
    if one.empty != other.empty:
        return one.empty < other.empty
    return one.of_labels < other.of_labels - rounding(dtype) * abs(other.of_labels)
