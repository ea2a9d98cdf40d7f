"""The number of clusters, by how hard it is to cut clusters of the neighbour graph compared with separating them.

Good clusters have few arcs to other points, while any cut inside of them would cut many (partitioning into expanders,
Oveis Gharan and Trevisan 2014). The points are therefore divided step by step, and each number K is judged by its

    contrast(K) = sum_k (n_k / N) (inside_k - 2 outside_k).

Here outside_k is the share of arcs of cluster k that lead to other clusters, and inside_k is the conductance of its
best bisection: the cut arcs as a share of the arcs of one side. A side has half of the arcs of the cluster, so
inside_k = 2 outside_k says that halving the cluster cuts as many arcs as separated it. Points without clusters have a
contrast below 0, the one that K = 1 has by definition.
"""

import copy
import warnings
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from torch import Tensor

from clustering.estimator_input import checked_rows
from clustering.foundation.errors import InputError
from clustering.foundation.streams import seed_of, stream
from clustering.graphs.neighbours import neighbours
from clustering.graphs.spectrum import leading_eigenvectors

_NEIGHBOURS = 15
"""Neighbours of a point; arcs link only mutual ones, and each point with its nearest. With the arcs of all neighbours,
the hubs of high-dimensional noise look like clusters."""
_SAMPLE, _MOST, _SMALLEST = 4000, 100, 20
"""Number of points used, largest number of clusters, and size below which clusters are not made."""
_REGULARIZATION, _LEAST = 0.01, 0.1
"""Weight of arcs between all pairs, and least share of a side of a bisection: a few loose points are no cluster."""
_SWEEPS = 8
"""Maximum number of times that points move to the cluster of most of their neighbours after a bisection."""
_NEARLY = 0.01
"""Difference from the highest contrast up to which other numbers of clusters are nearly as good."""

Estimator = TypeVar("Estimator")


class NumberOfClusters(NamedTuple):
    """The number of clusters with the highest contrast.

    Attributes:
        n_clusters: K.
        contrasts: (M,) contrast of 1..M clusters, at most 1.
    """

    n_clusters: int
    contrasts: NDArray[np.float64]

    @property
    def nearly(self) -> tuple[int, int]:
        """The smallest and the largest number of clusters that are nearly as good."""
        numbers = 1 + np.flatnonzero(self.contrasts >= self.contrasts.max() - _NEARLY)
        return int(numbers[0]), int(numbers[-1])

    @property
    def curve(self) -> str:
        """The highest contrasts by number of clusters, in words."""
        highest = np.argsort(-self.contrasts, kind="stable")[:8]
        return ", ".join(f"{k + 1} ({self.contrasts[k]:.3f})" for k in highest.tolist())

    @property
    def doubts(self) -> str:
        """A sentence if the curve is flat, so that the number is uncertain; otherwise empty."""
        low, high = self.nearly
        if high == 1:
            return "no clusters stand out: n_clusters is 1"
        if high < 2 * low:
            return ""
        return f"no number of clusters stands out: {low} to {high} are nearly as good as {self.n_clusters}"


def number_of_clusters(rows: Tensor, random_state: Any = None) -> NumberOfClusters:
    """Find the number of clusters of rows (N, D), of at most 100, in a sample of 4,000 of them.

    Raises:
        InputError: there are fewer than 40 points.
    """
    generator = stream(seed_of(random_state), "number of clusters")
    if len(rows) > _SAMPLE:
        rows = rows[np.sort(generator.choice(len(rows), _SAMPLE, replace=False))]
    if len(rows) < 2 * _SMALLEST:
        raise InputError(f"n_clusters='auto' needs {2 * _SMALLEST} points or more, not {len(rows)}; give a number")
    distinct = len(np.unique(rows.cpu().numpy(), axis=0))
    mutual = neighbours(rows, min(_NEIGHBOURS, len(rows) - 1), symmetry="mutual").graph.matrix()
    graph = csr_array(mutual.maximum(neighbours(rows, 1, symmetry="union").graph.matrix()), dtype=np.float64)
    labels = np.zeros(len(rows), dtype=np.int64)
    contrasts, cuts = [0.0], [_bisection(graph, generator)]
    while len(cuts) < min(_MOST, distinct):
        weakest = min(range(len(cuts)), key=lambda k: cuts[k][0] if cuts[k][1].any() else np.inf)
        if not cuts[weakest][1].any():
            break
        before, members = labels, np.flatnonzero(labels == weakest)
        labels = labels.copy()
        labels[members[cuts[weakest][1]]] = len(cuts)
        labels = _settled(graph, labels, len(cuts) + 1)
        cuts.append(cuts[weakest])
        for k in range(len(cuts)):
            members = np.flatnonzero(labels == k)
            if not np.array_equal(members, np.flatnonzero(before == k)):
                cuts[k] = _bisection(graph[members][:, members], generator)
        one_hot = np.eye(len(cuts))[labels]
        kept, arcs = ((graph @ one_hot) * one_hot).sum(axis=0), graph.sum(axis=1) @ one_hot
        inside, share = np.array([cut for cut, _ in cuts]), one_hot.mean(axis=0)
        contrasts.append(float(share @ (inside - 2 * (1 - kept / arcs))))
    return NumberOfClusters(int(np.argmax(contrasts)) + 1, np.array(contrasts))


def with_found_number(estimator: Estimator, X: ArrayLike, **given: Any) -> Estimator:
    """Fit an estimator with `n_clusters="auto"`: find K of its rows, and fit with K.

    Sets `n_clusters_`, and `contrasts_` of 1..M clusters. A warning says so if the number is uncertain.

    Args:
        estimator: has n_clusters, random_state, and perhaps normalize.
        X: (N, D).
        given: other arguments of `fit`; K is at least the number of classes among the `partial_labels`.
    """
    fitted: Any = copy.copy(estimator)
    fitted.n_clusters = 1
    rows = checked_rows(fitted, X, reset=True, normalize=getattr(fitted, "normalize", None))
    found = number_of_clusters(rows, fitted.random_state)
    known = np.asarray([-1] if given.get("partial_labels") is None else given["partial_labels"])
    classes = int(known.max(initial=-1)) + 1 if known.dtype.kind in "iu" else 0
    fitted.n_clusters = max(found.n_clusters, classes)
    if found.doubts:
        warnings.warn(f"{found.doubts}; set n_clusters if it is known", stacklevel=4)
    fitted.fit(X, **given)
    vars(estimator).update(vars(fitted) | {"n_clusters": "auto", "contrasts_": found.contrasts})
    return estimator


def _bisection(graph: csr_array, generator: np.random.Generator) -> tuple[float, NDArray[np.bool_]]:
    """Conductance of the best cut along the second eigenvector, and one side (n,); an empty side if the sides would be
    too small."""
    points, arcs = graph.shape[0], graph.sum()
    if points < 2 or not arcs:
        return 0.0, np.zeros(points, dtype=bool)
    spread = _REGULARIZATION * arcs / points
    degrees = graph.sum(axis=1) + spread
    second = leading_eigenvectors(graph, 2, _REGULARIZATION, generator)[:, 1] / np.sqrt(degrees)
    order = np.argsort(second, kind="stable")
    place = np.argsort(order)
    ends = graph.tocoo()
    later = place[ends.row] < place[ends.col]
    first, last = place[ends.row][later], place[ends.col][later]
    crossing = np.bincount(first, ends.data[later], points) - np.bincount(last, ends.data[later], points)
    count = np.arange(1, points)
    cut = crossing.cumsum()[:-1] + spread * count * (points - count) / points
    arcs_before = degrees[order].cumsum()
    conductance = cut / np.minimum(arcs_before[:-1], arcs_before[-1] - arcs_before[:-1])
    least = max(1, int(np.ceil(_LEAST * points)))
    best = least - 1 + int(np.argmin(conductance[least - 1 : points - least]))
    side = place <= best
    return float(conductance[best]), side & (points >= 2 * _SMALLEST)


def _settled(graph: csr_array, labels: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    """Labels after points have moved to the cluster of most of their neighbours, as long as none becomes empty."""
    for _ in range(_SWEEPS):
        one_hot = np.eye(clusters)[labels]
        moved = (graph @ one_hot + 1e-6 * one_hot).argmax(axis=1)
        if np.array_equal(moved, labels) or len(np.unique(moved)) < clusters:
            break
        labels = moved
    return labels
