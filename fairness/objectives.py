"""Clustering objectives of hard labels, the same for all methods, so that one table can compare them.

Each is a sum over points, measured from the best prototypes of the labels rather than those that a method ended with.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

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
    return sum(float(squares.sum()) for squares in _squares_about_means(X, labels))


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
        members = torch.from_numpy(values[rows].astype(np.float64))
        members -= members.mean(dim=0)
        if len(rows) <= _EXACT:
            tried = torch.arange(len(rows))
            bound = None
        else:
            middle, bound = geometric_median(members.numpy())
            tried = (
                (members - torch.from_numpy(middle)).norm(dim=1).topk(_CANDIDATES, largest=False).indices.sort().values
            )
        at_once = max(1, _PAIRS // len(rows))
        sums = torch.cat([_distances(members[block], members).sum(dim=1) for block in torch.split(tried, at_once)])
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
    nearest = points[_lengths(points - median).argmin()]  # the steps converge to a point but never reach it
    _, at_point, bound_there = _weiszfeld_step(points, nearest)
    return (nearest, bound_there) if at_point <= total else (median, max(bound, bound_there))


def _weiszfeld_step(
    points: NDArray[np.float64], median: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, float]:
    """The step from a median (D,), the sum f of the distances to it, and a lower bound on f at any point."""
    distances = _lengths(points - median)
    total, coincident = float(distances.sum()), distances <= 1e-12 * distances.max()
    weights = np.where(coincident, 0.0, 1 / np.maximum(distances, 1e-300))
    mass = float(weights.sum())
    towards = weights @ points / max(mass, 1e-300) - median
    pull = mass * float(np.linalg.norm(towards))
    slope = max(0.0, pull - float(coincident.sum()))
    step = towards * (slope / pull if pull else 0.0)
    return step, total, total * max(0.0, 1 - 2 * slope / len(points))


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    squared: NDArray[np.float64] = np.einsum("nd,nd->n", rows, rows)
    return np.sqrt(squared)


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


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _checked(X: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    values, codes = np.asarray(X), np.asarray(labels)
    if values.ndim != 2 or codes.shape != values.shape[:1] or not len(codes):
        raise InputError(f"rows must have shape (N, D) and labels (N,), not {values.shape} and {codes.shape}")
    if not np.issubdtype(codes.dtype, np.integer) or codes.min() < 0:
        raise InputError("labels must be integers 0..K-1; remove points that are in no cluster")
    return values, codes.astype(np.int64)


def _squares_about_means(X: ArrayLike, labels: ArrayLike) -> Iterator[NDArray[np.float64]]:
    """(n, D) squared differences between rows and the mean of their cluster, a block of rows at a time."""
    values, codes = _checked(X, labels)
    clusters = int(codes.max()) + 1
    origin = values.mean(axis=0, dtype=np.float64)  # centring avoids cancellation in data far from zero
    sizes = np.maximum(np.bincount(codes, minlength=clusters), 1)
    means = np.stack([np.bincount(codes, values[:, d] - origin[d], clusters) / sizes for d in range(values.shape[1])])
    rows = max(1, _PAIRS // max(1, values.shape[1]))
    for first in range(0, len(values), rows):
        block = slice(first, first + rows)
        yield np.square(values[block] - origin - means.T[codes[block]])
