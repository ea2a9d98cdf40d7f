"""K-means and K-median without fairness, which initialise other methods, and the costs of points at centres."""

from typing import NamedTuple

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray

from clustering.starts import first_lowest
from fairness.objectives import Kind, geometric_median

Floats = NDArray[np.float64]

_SETTLED = 1e-5
"""Relative decrease of the K-median objective below which it stops."""


class Centres(NamedTuple):
    """Result of one start.

    Attributes:
        values: (K, D) centres.
        objective: sum of the costs of the points at their nearest centres.
    """

    values: Floats
    objective: float


def costs(values: Floats, centres: Floats, kind: Kind = "kmeans") -> Floats:
    """(N, K) squared distances, or distances for "kmedian", of points (N, D) to centres (K, D)."""
    origin = values.mean(axis=0)  # centring avoids cancellation in data far from zero
    values, centres = values - origin, centres - origin
    squared = values @ (-2 * centres.T)
    squared += np.einsum("nd,nd->n", values, values)[:, None]
    squared += np.einsum("kd,kd->k", centres, centres)
    np.maximum(squared, 0, out=squared)
    return squared if kind == "kmeans" else np.sqrt(squared, out=squared)


def unfair_centres(kind: Kind, values: Floats, seeds: Floats, max_iter: int) -> list[Centres]:
    """Centres from each of the seeds (T, K, D).

    K-means uses scikit-learn; K-median alternates between assignments to the nearest centre and geometric medians.
    """
    if kind == "kmedian":
        return [_medians(values, seed, max_iter) for seed in seeds]
    centres = []
    for seed in seeds:
        lloyd = sklearn.cluster.KMeans(len(seed), init=seed, n_init=1, max_iter=max_iter).fit(values)
        centres.append(Centres(lloyd.cluster_centers_, float(lloyd.inertia_)))
    return centres


def best_centres(starts: list[Centres]) -> Centres:
    """The start with the lowest objective; the first of equal ones."""
    return starts[int(first_lowest([start.objective for start in starts]))]


def _medians(values: Floats, centres: Floats, max_iter: int) -> Centres:
    centres, lowest = centres.copy(), np.inf
    for _ in range(max_iter):
        paid = costs(values, centres, "kmedian")
        labels, objective = paid.argmin(axis=1), float(paid.min(axis=1).sum())
        if objective >= lowest * (1 - _SETTLED):
            break
        lowest = objective
        for k in np.unique(labels):  # an empty cluster keeps its centre
            centres[k] = geometric_median(values[labels == k], max_iterations=50)[0]
    return Centres(centres, float(costs(values, centres, "kmedian").min(axis=1).sum()))
