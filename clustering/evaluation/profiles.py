"""What tells the clusters of a table apart, in the table's own units: for people who look at rows, not at methods."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 22  # numbers of a block of distances


@dataclass(frozen=True)
class Trait:
    """How the rows of a cluster differ from all other rows in one column.

    Attributes:
        column: its name.
        inside, outside: mean over the cluster's rows, and over all others.
        difference: inside - outside, in standard deviations of the column over all rows; 0 where it is constant.
    """

    column: str
    inside: float
    outside: float
    difference: float


@dataclass(frozen=True)
class Profile:
    """One cluster.

    Attributes:
        cluster: its label.
        rows: how many it has, at least one.
        share: of all rows, in (0, 1].
        traits: one for each column, the largest difference first.
        typical: rows nearest to the cluster's mean over the columns in their standard deviations, nearest first.
    """

    cluster: int
    rows: int
    share: float
    traits: tuple[Trait, ...]
    typical: tuple[int, ...]


def spreads(values: NDArray[np.floating], column_of: NDArray[np.intp]) -> NDArray[np.float64]:
    """(D,) standard deviations of features; of those that are categories of one column the root of their variances'
    sum, so that the column spreads as much as one of numbers.

    Args:
        values: (N, D), finite.
        column_of: (D,) which column each feature is of, 0..C-1.
    """
    alone: NDArray[np.float64] = values.std(axis=0)
    several = np.bincount(column_of)[column_of] > 1
    return np.where(several, np.sqrt(np.bincount(column_of, alone**2))[column_of], alone)


def profiles(
    values: NDArray[np.floating],
    labels: NDArray[np.integer],
    columns: Sequence[str],
    *,
    column_of: NDArray[np.intp] | None = None,
    typical: int = 3,
) -> list[Profile]:
    """The clusters that have rows, the largest first.

    Args:
        values: (N, D) in the columns' own units, finite.
        labels: (N,) clusters.
        columns: D names.
        column_of: (D,) as of `spreads`; None: each is a column of its own.
        typical: rows shown of each cluster, at most.
    """
    table = values.astype(np.float64, copy=False)
    mean, spread = table.mean(axis=0), table.std(axis=0)
    constant = spread <= 1e-12 * np.abs(mean)
    unit = np.where(constant, 1.0, spread)
    total, points = table.sum(axis=0), len(table)
    together = unit if column_of is None else np.where(constant, 1.0, spreads(table, column_of))
    found = []
    for cluster, count in zip(*np.unique(labels, return_counts=True), strict=True):
        members = np.flatnonzero(labels == cluster)
        inside = table[members].mean(axis=0)
        outside = (total - count * inside) / (points - count) if count < points else inside
        difference = np.where(constant, 0.0, (inside - outside) / unit)
        traits = tuple(
            Trait(columns[j], float(inside[j]), float(outside[j]), float(difference[j]))
            for j in np.argsort(-np.abs(difference), kind="stable")
        )
        near = _nearest(table, members, inside, together, typical)
        found.append(Profile(int(cluster), int(count), float(count / points), traits, near))
    return sorted(found, key=lambda profile: -profile.rows)


def _nearest(
    values: NDArray[np.float64],
    members: NDArray[np.intp],
    centre: NDArray[np.float64],
    unit: NDArray[np.float64],
    count: int,
) -> tuple[int, ...]:
    """The members nearest to the centre, ties to the first row."""
    block = max(1, _AT_ONCE // values.shape[1])
    distances = np.concatenate(
        [np.square((values[members[i : i + block]] - centre) / unit).sum(axis=1) for i in range(0, len(members), block)]
    )
    return tuple(int(row) for row in members[np.argsort(distances, kind="stable")[:count]])


def agreement(labels: NDArray[np.integer], others: Sequence[NDArray[np.integer]]) -> NDArray[np.float64]:
    """(N,) in how many of other clusterings of the same rows a row has the same cluster, as a share in [0, 1].

    The clusters of another clustering are first called like those here that they share most rows with, one to one.

    Args:
        labels: (N,) clusters, whatever they are called.
        others: at least one.
    """
    same = np.zeros(len(labels))
    names, here = np.unique(labels, return_inverse=True)
    for other in others:
        other_names, there = np.unique(other, return_inverse=True)
        same += called_alike(here, there, max(len(names), len(other_names))) == here
    return same / len(others)


def called_alike(labels: NDArray[np.integer], other: NDArray[np.integer], clusters: int) -> NDArray[np.int64]:
    """(N,) another clustering of the same rows, its clusters called like those here that they share most rows with.

    Args:
        labels, other: (N,) 0..K-1.
        clusters: K; one to one, so that a cluster without rows here may be the name of one that has some there.
    """
    from scipy.optimize import linear_sum_assignment

    table = np.bincount(labels.astype(np.int64) * clusters + other, minlength=clusters**2).reshape(clusters, clusters)
    mine, theirs = linear_sum_assignment(-table)
    called = np.empty(clusters, dtype=np.int64)
    called[theirs] = mine
    found: NDArray[np.int64] = called[other]
    return found


def principal_plane(
    values: NDArray[np.floating], column_of: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.float64], float]:
    """The rows in the plane that keeps most of their spread, columns in their standard deviations.

    Args:
        values: (N, D), finite.
        column_of: (D,) as of `spreads`; None: each is a column of its own.

    Returns:
        (N, 2) coordinates, 0 in a direction that is not there; the share of the spread that they keep, in [0, 1].
    """
    centred = np.asarray(values, dtype=np.float64) - values.mean(axis=0, dtype=np.float64)
    spread = centred.std(axis=0) if column_of is None else spreads(centred, column_of)
    centred /= np.where(spread > 0, spread, 1.0)
    if values.shape[1] <= max(values.shape[0], 2):
        strength, directions = np.linalg.eigh(centred.T @ centred)
        best = directions[:, ::-1][:, :2]
    else:  # products of the rows, of which there are fewer
        strength, coordinates = np.linalg.eigh(centred @ centred.T)
        best = centred.T @ coordinates[:, ::-1][:, :2]
        best /= np.maximum(np.linalg.norm(best, axis=0), np.finfo(np.float64).tiny)
    best = best * np.where(best[np.abs(best).argmax(axis=0), np.arange(best.shape[1])] < 0, -1.0, 1.0)
    plane = centred @ best
    kept = float(strength[::-1][:2].sum() / strength.sum()) if strength.sum() > 0 else 1.0
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))), kept
