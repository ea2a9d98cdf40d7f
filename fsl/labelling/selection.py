"""Which points to label next: strategies of active learning for batches, also before there is any label."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import MiniBatchKMeans

from clustering.foundation.errors import InputError, unknown
from fsl.extra.smoothed_ridge import SmoothedPoints
from fsl.transductive_classifier import TransductiveClassifier

Selection = Literal["variance", "random", "margin", "typicality", "coverage", "gradient"]

_CANDIDATES = 20_000
"""Points among which `variance` chooses a batch: those with the largest gain at its start. The gains of the others
cannot overtake them in one batch, except in rare cases."""

_BLOCK = 8192  # points processed at a time

_CLUSTERS = 500
"""Largest number of clusters of `typicality`, as in its public code."""

_MEMBERS = 5
"""Clusters with fewer points are asked last by `typicality`, as in its public code."""


@dataclass(frozen=True)
class _Pile:
    """What the methods choose from.

    Attributes:
        points: smoothed features and graph of all N points.
        labelled: (S,) indices of the labelled points.
        free: (N,) bool, which points may be chosen.
        distributions: (N, K) class probabilities; None without labels.
        level, penalty: features and penalty of the ridge regression.
        random: source of random numbers.
    """

    points: SmoothedPoints
    labelled: NDArray[np.integer]
    free: NDArray[np.bool_]
    distributions: NDArray[np.floating] | None
    level: int
    penalty: float
    random: np.random.Generator

    @property
    def features(self) -> torch.Tensor:
        """(N, D) smoothed features at the level of the regression."""
        return self.points.levels[self.level][0]


def next_to_label(
    classifier: TransductiveClassifier,
    n: int,
    *,
    method: Selection = "variance",
    exclude: ArrayLike = (),
    random_state: int = 0,
) -> NDArray[np.int64]:
    """Indices of the n unlabelled points that should be labelled next, the most important first; all if they are fewer.

    Before any label is given, call `classifier.prepare(X)` instead of `fit`. `margin` then chooses at random.

    - `variance`: the points whose labels lower the expected variance of the predictions most,

          gain(p) = sum_q u_q (f_q^T C f_p)^2 / (1 + f_p^T C f_p),   C = (A^T A + penalty I)^-1,

      where f are the smoothed features and A those of the labelled points (see `smoothed_ridge`), and
      u_q = 1 - sum_k s_qk^2 is the expected error of a class drawn from the distribution of q; 1 before there are
      labels. Without u it is V-optimality (Ji and Han 2012). A batch is chosen greedily: C is updated for each chosen
      point, since the gain does not depend on its label.
    - `random`: a simple random sample.
    - `margin`: the smallest difference between the two largest probabilities (Scheffer et al. 2001).
    - `typicality`: the point with the nearest neighbours of each of the largest clusters without label (TypiClust,
      Hacohen, Dekel and Weinshall 2022); clusters by K-means on the features.
    - `coverage`: greedily the point with the most neighbours that are not yet covered by a labelled one (ProbCover,
      Yehuda et al. 2022); neighbours are those of the kNN graph within its median distance.
    - `gradient`: k-means++ on the gradients of the log loss of the predicted class in the weights of a linear
      classifier (BADGE, Ash et al. 2020).

    `variance` needed the fewest labels on seven data sets; see docs/how_to/label-a-pile.md.

    Args:
        classifier: after `fit` or `prepare`.
        n: number of points >= 1.
        method: see above.
        exclude: indices of points that are not to be chosen, such as skipped ones.
        random_state: seed.

    Raises:
        InputError: the method is unknown, n is not positive, or an excluded index is out of range.
    """
    if method not in get_args(Selection):
        raise unknown("selection method", str(method), list(get_args(Selection)))
    if not isinstance(n, (int, np.integer)):
        raise InputError(f"n must be an integer, not {n!r}")
    if n < 1:
        raise InputError(f"n must be at least 1, not {n}")
    points = classifier.smoothed()
    count = points.levels[0].shape[1]
    excluded = np.asarray(exclude).ravel()
    if len(excluded) and excluded.dtype.kind not in "iu":
        raise InputError("exclude must be indices of points, integers; of a mask, give np.flatnonzero(mask)")
    excluded = excluded.astype(np.int64)
    if len(excluded) and not 0 <= excluded.min() <= excluded.max() < count:
        raise InputError(f"exclude must be indices of the {count} points, 0 to {count - 1}")
    labelled = getattr(classifier, "labelled_", np.empty(0, np.int64))
    free = np.ones(count, dtype=bool)
    free[labelled] = free[excluded] = False
    distributions = getattr(classifier, "label_distributions_", None)
    level, penalty = classifier.chosen()
    pile = _Pile(points, labelled, free, distributions, level, penalty, np.random.default_rng(random_state))
    n = min(n, int(free.sum()))
    return np.asarray(_METHODS[method](pile, n), dtype=np.int64) if n else np.empty(0, np.int64)


def _random(pile: _Pile, n: int) -> NDArray[np.int64]:
    return pile.random.permutation(np.flatnonzero(pile.free))[:n]


def _margin(pile: _Pile, n: int) -> NDArray[np.int64]:
    if pile.distributions is None or pile.distributions.shape[1] < 2:
        return _random(pile, n)
    best = np.partition(pile.distributions, -2, axis=1)[:, -2:]
    return _first(np.where(pile.free, best[:, 1] - best[:, 0], np.inf), n)


def _variance(pile: _Pile, n: int) -> NDArray[np.int64]:
    features, dtype = pile.features, pile.features.dtype
    weights = torch.ones(len(features), dtype=dtype)
    if pile.distributions is not None:
        uncertain = 1 - np.square(pile.distributions).sum(axis=1)
        if uncertain.max() > 0:
            weights = torch.from_numpy(uncertain).to(dtype)
    weights[torch.from_numpy(pile.labelled)] = 0
    known = features[torch.from_numpy(pile.labelled)].double()
    dimensions = torch.eye(features.shape[1], dtype=torch.float64)
    covariance = torch.linalg.inv(known.T @ known + pile.penalty * dimensions)
    spread, blocks = torch.zeros_like(dimensions), [slice(i, i + _BLOCK) for i in range(0, len(features), _BLOCK)]
    for block in blocks:
        part = features[block].double()
        spread += (part * weights[block, None]).T @ part
    reached, variance = [], []
    inside = (covariance @ spread @ covariance).to(dtype)
    for block in blocks:
        part = features[block]
        reached.append(((part @ inside) * part).sum(dim=1))
        variance.append(((part @ covariance.to(dtype)) * part).sum(dim=1))
    gains = torch.cat(reached) / (1 + torch.cat(variance))
    gains[~torch.from_numpy(pile.free)] = -torch.inf
    places = gains.topk(min(max(_CANDIDATES, n), int(pile.free.sum()))).indices
    rows, reach, own = features[places], torch.cat(reached)[places], torch.cat(variance)[places]
    open_ = torch.ones(len(places), dtype=torch.bool)
    chosen = []
    for _ in range(n):
        best = int(torch.where(open_, reach / (1 + own), -torch.inf).argmax())
        chosen.append(int(places[best]))
        open_[best] = False
        # The update of C for a new row f: C - c c^T / s with c = C f and s = 1 + f^T C f (Sherman and Morrison 1950).
        direction = covariance @ rows[best].double()
        size = 1 + rows[best].double() @ direction
        through = spread @ direction
        back = covariance @ through
        along, across = rows @ direction.to(dtype), rows @ back.to(dtype)
        covariance = covariance - torch.outer(direction, direction) / size
        scale = float(size)
        reach = reach - 2 * along * across / scale + along.square() * float(direction @ through) / scale**2
        own = own - along.square() / scale
    return np.array(chosen)


def _typicality(pile: _Pile, n: int) -> NDArray[np.int64]:
    points = pile.points.levels[0][0].numpy()
    graph = pile.points.graph
    lengths = (-graph.weights.clamp(1e-30, 1).log()).sqrt()  # in units of the median distance of neighbours
    rows = torch.repeat_interleave(graph.pointers.diff())
    degrees = graph.pointers.diff().clamp_min(1)
    mean = (torch.zeros(len(points), dtype=lengths.dtype).index_add_(0, rows, lengths) / degrees).numpy()
    clusters = min(len(pile.labelled) + n, _CLUSTERS, len(points))
    seed = int(pile.random.integers(2**31))
    found = MiniBatchKMeans(clusters, random_state=seed, n_init=1, batch_size=4096, max_iter=5).fit_predict(points)
    sizes = np.bincount(found, minlength=clusters)
    given = np.bincount(found[pile.labelled], minlength=clusters)
    # Each round asks for the most typical free point of every cluster: fewest labels first, then the largest.
    typical = np.lexsort((mean, ~pile.free, found))
    rank = np.empty(len(points), dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank[typical] = np.arange(len(points)) - np.repeat(starts, sizes)
    order = np.lexsort((-sizes[found], rank + given[found], sizes[found] < _MEMBERS))
    return order[pile.free[order]][:n]


def _coverage(pile: _Pile, n: int) -> NDArray[np.int64]:
    graph = pile.points.graph
    near = (graph.weights >= np.exp(-1.0)).numpy()  # within the median distance
    heads, counts = graph.columns.numpy()[near], graph.pointers.diff().numpy()
    rows = np.repeat(np.arange(len(counts)), counts)[near]
    starts = np.searchsorted(rows, np.arange(len(counts) + 1))
    uncovered = np.ones(len(counts), dtype=bool)
    gains = np.bincount(rows, minlength=len(counts)) + 1  # the point itself, too

    def cover(point: int) -> None:
        ball = np.append(heads[starts[point] : starts[point + 1]], point)
        fresh = ball[uncovered[ball]]
        uncovered[fresh] = False
        for other in fresh:
            np.subtract.at(gains, heads[starts[other] : starts[other + 1]], 1)
        gains[fresh] -= 1

    for point in pile.labelled:
        cover(int(point))
    free, chosen = pile.free.copy(), []
    for _ in range(n):
        best = int(np.where(free, gains, -1).argmax())
        chosen.append(best)
        free[best] = False
        cover(best)
    return np.array(chosen)


def _gradient(pile: _Pile, n: int) -> NDArray[np.int64]:
    features = pile.points.levels[0][0]
    gradients = torch.ones(len(features), 1, dtype=features.dtype)
    if pile.distributions is not None and pile.distributions.shape[1] > 1:
        gradients = torch.from_numpy(pile.distributions).to(features.dtype, copy=True)
        gradients[torch.arange(len(gradients)), gradients.argmax(dim=1)] -= 1
    squared = gradients.square().sum(dim=1) * features.square().sum(dim=1)
    distance = torch.where(torch.from_numpy(pile.free), squared, 0.0)
    chosen: list[int] = []
    for _ in range(n):
        free = torch.from_numpy(pile.free).index_fill(0, torch.tensor(chosen, dtype=torch.int64), False)
        weights = torch.where(free, distance.clamp_min(0), 0.0).double().numpy()
        if weights.sum() == 0:  # all gradients are equal
            weights = free.double().numpy()
        place = int(pile.random.choice(len(weights), p=weights / weights.sum()))
        chosen.append(place)
        products = (gradients @ gradients[place]) * (features @ features[place])
        distance = torch.minimum(distance, squared + squared[place] - 2 * products)
    return np.array(chosen)


def _first(values: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """Indices of the n smallest values, ascending; ties to the lowest index."""
    return np.argsort(values, kind="stable")[:n]


_METHODS: dict[str, Callable[[_Pile, int], NDArray[np.int64]]] = {
    "variance": _variance,
    "random": _random,
    "margin": _margin,
    "typicality": _typicality,
    "coverage": _coverage,
    "gradient": _gradient,
}
