"""Clustering objectives of hard labels, the same for all methods, so that one table can compare them.

Each is a sum over points, measured from the best prototypes of the labels rather than those that a method ended with.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from clustering.foundation.errors import InputError

Kind = Literal["kmeans", "kmedian"]
"""Sum of squared distances to means, or of distances to medoids."""

_EXACT = 4096
"""Cluster size up to which the medoid is searched among all members."""

_CANDIDATES = 64
"""Number of medoid candidates in a larger cluster, the members nearest to the geometric median."""

_PAIRS = 1 << 22
"""Number of distances computed at a time: 32 MiB in float64."""


class Medoids(NamedTuple):
    """Medoids of clusters.

    Attributes:
        indices: (K,) rows of X; -1 for an empty cluster.
        costs: (K,) sum of the Euclidean distances of a cluster's points to its medoid.
        excess: bound on the relative excess of the summed costs over those of the exact medoids; 0 if these are exact.
    """

    indices: NDArray[np.int64]
    costs: NDArray[np.float64]
    excess: float


def objective_of(kind: Kind, X: ArrayLike, labels: ArrayLike) -> float:
    """Objective of labels (N,) of rows (N, D), measured from the means or medoids of the clusters."""
    return kmeans_objective(X, labels) if kind == "kmeans" else kmedian_objective(X, labels)


def kmeans_objective(X: ArrayLike, labels: ArrayLike) -> float:
    """sum_p ||x_p - mean of its cluster||^2 for rows (N, D) and labels (N,) 0..K-1."""
    values, codes = _checked(X, labels)
    clusters = int(codes.max()) + 1
    sizes, total = np.maximum(np.bincount(codes, minlength=clusters), 1), 0.0
    for column in values.T:  # about the mean of all, which avoids cancellation in data far from zero
        column = column - column.mean(dtype=np.float64)
        total += float(np.square(column - (np.bincount(codes, column, clusters) / sizes)[codes]).sum())
    return total


def kmedian_objective(X: ArrayLike, labels: ArrayLike) -> float:
    """sum_p ||x_p - medoid of its cluster||, not squared, for rows (N, D) and labels (N,) 0..K-1; see `medoids`."""
    return float(medoids(X, labels).costs.sum())


def medoids(X: ArrayLike, labels: ArrayLike) -> Medoids:
    """Medoids of clusters: exact up to 4,096 members, otherwise the best of the 64 members nearest to the geometric
    median.

    Args:
        X: (N, D).
        labels: (N,) 0..K-1.
    """
    values, codes = _checked(X, labels)
    clusters = int(codes.max()) + 1
    indices, costs, bounds = np.full(clusters, -1), np.zeros(clusters), np.zeros(clusters)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=clusters))
    for cluster, rows in enumerate(np.split(order, ends[:-1])):
        if not len(rows):
            continue
        members = values[rows].astype(np.float64)
        members -= members.mean(axis=0)
        tried, bound = np.arange(len(rows)), None
        if len(rows) > _EXACT:
            middle, bound = geometric_median(members)
            tried = np.sort(np.argsort(np.linalg.norm(members - middle, axis=1), kind="stable")[:_CANDIDATES])
        blocks = np.array_split(tried, -(-len(tried) * len(rows) // _PAIRS))
        sums = np.concatenate([cdist(members[block], members).sum(axis=1) for block in blocks])
        best = int(sums.argmin())
        indices[cluster], costs[cluster] = rows[int(tried[best])], float(sums[best])
        bounds[cluster] = costs[cluster] if bound is None else bound
    total = float(bounds.sum())
    return Medoids(indices, costs, float(costs.sum()) / total - 1 if total else 0.0)


def geometric_median(
    points: NDArray[np.float64], *, tolerance: float = 1e-6, max_iterations: int = 200
) -> tuple[NDArray[np.float64], float]:
    """Approximate geometric median (D,) of points (n, D), and a lower bound on the sum of distances.

    Uses Weiszfeld's steps with the correction of Vardi and Zhang (2000) for an iterate at a point. The sum f of the
    Euclidean distances is convex, so f(y) - min f <= |f'(y)| |y - y*|, and |y - y*| <= 2 f(y) / n.

    Args:
        points: (n, D).
        tolerance: length of a step, relative to the mean distance, below which the iteration stops.
        max_iterations: maximum number of steps.
    """
    median = points.mean(axis=0)
    for _ in range(max_iterations):
        step, total, bound = _weiszfeld_step(points, median)
        if np.linalg.norm(step) <= tolerance * total / len(points):
            break
        median = median + step
    nearest = points[
        np.linalg.norm(points - median, axis=1).argmin()
    ]  # the steps converge to a point but never reach it
    _, at_point, bound_there = _weiszfeld_step(points, nearest)
    return (nearest, bound_there) if at_point <= total else (median, max(bound, bound_there))


def _weiszfeld_step(
    points: NDArray[np.float64], median: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, float]:
    """The step from a median (D,), the sum f of the distances to it, and a lower bound on f at any point."""
    distances = np.linalg.norm(points - median, axis=1)
    total, coincident = float(distances.sum()), distances <= 1e-12 * distances.max()
    weights = np.where(coincident, 0.0, 1 / np.maximum(distances, 1e-300))
    mass = float(weights.sum())
    towards = weights @ points / max(mass, 1e-300) - median
    pull = mass * float(np.linalg.norm(towards))
    slope = max(0.0, pull - float(coincident.sum()))
    step = towards * (slope / pull if pull else 0.0)
    return step, total, total * max(0.0, 1 - 2 * slope / len(points))


def distances(
    values: NDArray[np.float64], prototypes: NDArray[np.float64], kind: Kind, norms: Any = None
) -> NDArray[np.float64]:
    """(n, K) squared distances, or distances for "kmedian", of rows (n, D) to prototypes (K, D), both near zero.

    The squared norms of the rows (n,) are computed if they are not given.
    """
    found: NDArray[np.float64] = values @ (-2 * prototypes.T)
    found += (np.einsum("nd,nd->n", values, values) if norms is None else norms)[:, None]
    found += np.einsum("kd,kd->k", prototypes, prototypes)
    np.maximum(found, 0, out=found)
    return found if kind == "kmeans" else np.sqrt(found, out=found)


def _checked(X: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    values, codes = np.asarray(X), np.asarray(labels)
    if values.ndim != 2 or codes.shape != values.shape[:1] or not len(codes):
        raise InputError(f"rows must have shape (N, D) and labels (N,), not {values.shape} and {codes.shape}")
    if not np.issubdtype(codes.dtype, np.integer) or codes.min() < 0:
        raise InputError("labels must be integers 0..K-1; remove points that are in no cluster")
    return values, codes.astype(np.int64)
