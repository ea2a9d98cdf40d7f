"""The starts of a fair clustering, and the best of them at each weight: on a sample first, where points are many.

Starts, and the rungs that lead to a weight, differ by far more than their last updates do, and as many points as these
tell them apart. So all of them run on a sample of the points, and the best goes on with all points from its prototypes
and prices, until it ends by the same rule. Weights count per point: on a sample they are its share of them, and the
prices of the groups stay what they are.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from clustering.streams import stream
from fairness.penalty import Penalty
from fairness.prototypes import Rule
from fairness.store import Store
from fairness.variational import Course, Stage, follow, go_on

_SAMPLE, _MEMBERS = 100_000, 256
"""Points of a sample, and for each cluster at least. Fewer than twice as many are not worth one."""

_LOWEST_RUNG = 0.01
"""Weight of the lowest rung, in units of the costs about one prototype, per cluster."""

_ROUNDING = 1e-9
"""Of E: of starts that differ by no more, the first counts."""


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


def best_of(
    points: Store,
    rule: Rule,
    penalty: Penalty,
    seeds: Tensor,
    weights: Sequence[float],
    course: Course,
    unit: float,
    keep: Callable[[Stage], Stage],
) -> list[Stage]:
    """Of all starts the stage of lowest E at each weight.

    Args:
        points: the data.
        rule: how prototypes follow.
        penalty: the fairness term, its weight ignored.
        seeds: (T, K, D) first prototypes, from the origin of the points.
        weights: >= 0, rising.
        course: how.
        unit: costs about one prototype, per cluster.
        keep: what is kept of a stage, at once: the fit goes on and overwrites its assignments.
    """
    best: dict[float, Stage] = {}
    for start in seeds:
        for stage in follow(points, rule, penalty, start, weights, course, unit * _LOWEST_RUNG):
            lowest = best[stage.weight].objective if stage.weight in best else math.inf
            if stage.objective < lowest - _ROUNDING * abs(stage.objective):
                best[stage.weight] = keep(stage)
    return [best[weight] for weight in weights]


def best_of_sample(
    points: Store,
    some: Store,
    rule: Rule,
    penalty: Penalty,
    seeds: Tensor,
    weights: Sequence[float],
    course: Course,
    unit: float,
    keep: Callable[[Stage], Stage],
) -> list[Stage]:
    """Where all points end, at each weight, from the best of the starts of some of them: `best_of` with besides

    Args:
        some: a sample of the points, from the same origin.
    """
    share = some.count / points.count
    scaled = [share * weight for weight in weights]
    begun = best_of(some, rule, penalty, seeds, scaled, course, share * unit, lambda stage: stage._replace(logs=[]))
    return [
        keep(go_on(points, rule, penalty, stage, weight, course)) for stage, weight in zip(begun, weights, strict=True)
    ]
