"""Description of the clusters of a table in the units of the table, for users who look at rows rather than methods."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.table_columns import spreads


@dataclass(frozen=True)
class Trait:
    """Difference between the rows of a cluster and all other rows in one column.

    Attributes:
        column: its name.
        inside, outside: mean over the rows of the cluster, and over all others.
        difference: inside - outside, in units of the column's standard deviation over all rows; 0 if it is constant.
    """

    column: str
    inside: float
    outside: float
    difference: float


@dataclass(frozen=True)
class Profile:
    """Description of one cluster.

    Attributes:
        cluster: its label.
        rows: number of rows, at least one.
        share: share of all rows, in (0, 1].
        traits: one for each column, by descending difference.
        typical: rows nearest to the mean of the cluster in standardised columns, nearest first.
    """

    cluster: int
    rows: int
    share: float
    traits: tuple[Trait, ...]
    typical: tuple[int, ...]


def profiles(
    values: NDArray[np.floating],
    labels: NDArray[np.integer],
    columns: Sequence[str],
    *,
    column_of: NDArray[np.intp] | None = None,
    typical: int = 3,
) -> list[Profile]:
    """Profiles of the non-empty clusters, by descending size.

    Args:
        values: (N, D) in original units, finite.
        labels: (N,) clusters.
        columns: D names.
        column_of: (D,) as in `spreads`; None means one column per feature.
        typical: maximum number of typical rows per cluster.
    """
    table = values.astype(np.float64, copy=False)
    mean, spread = table.mean(axis=0), table.std(axis=0)
    constant = spread <= 1e-12 * np.abs(mean)
    unit = np.where(constant, 1.0, spread)
    total, points = table.sum(axis=0), len(table)
    together = unit if column_of is None else np.where(constant, 1.0, spreads(table, column_of))
    results = []
    for cluster, count in zip(*np.unique(labels, return_counts=True), strict=True):
        members = np.flatnonzero(labels == cluster)
        inside = table[members].mean(axis=0)
        outside = (total - count * inside) / (points - count) if count < points else inside
        difference = np.where(constant, 0.0, (inside - outside) / unit)
        traits = tuple(
            Trait(columns[j], float(inside[j]), float(outside[j]), float(difference[j]))
            for j in np.argsort(-np.abs(difference), kind="stable")
        )
        distances = np.square((table[members] - inside) / together).sum(axis=1)
        nearest = members[np.argsort(distances, kind="stable")[:typical]]
        results.append(Profile(int(cluster), int(count), float(count / points), traits, tuple(nearest.tolist())))
    return sorted(results, key=lambda profile: -profile.rows)


def agreement(labels: NDArray[np.integer], others: Sequence[NDArray[np.integer]]) -> NDArray[np.float64]:
    """(N,) share of the other clusterings of the same rows, in [0, 1], in which a row has the same cluster.

    The clusters of another clustering are first matched one-to-one with those here by their common rows.

    Args:
        labels: (N,) clusters of any name.
        others: at least one other clustering.
    """
    names, numbers = np.unique(labels, return_inverse=True)
    matches = []
    for other in others:
        other_names, other_numbers = np.unique(other, return_inverse=True)
        matches.append(relabelled_like(numbers, other_numbers, max(len(names), len(other_names))) == numbers)
    return np.asarray(np.mean(matches, axis=0))


def relabelled_like(labels: NDArray[np.integer], other: NDArray[np.integer], clusters: int) -> NDArray[np.int64]:
    """(N,) another clustering of the same rows, relabelled to match the clusters here by their common rows.

    Args:
        labels, other: (N,) 0..K-1.
        clusters: K; the matching is one-to-one, so that an empty cluster here may be matched with a non-empty one
            there.
    """
    from scipy.optimize import linear_sum_assignment

    table = np.bincount(labels.astype(np.int64) * clusters + other, minlength=clusters**2).reshape(clusters, clusters)
    called = np.argsort(linear_sum_assignment(table, maximize=True)[1])
    return np.asarray(called[other], dtype=np.int64)


def principal_plane(
    values: NDArray[np.floating], column_of: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.float64], float]:
    """The rows projected to the plane that preserves most of their variance, with standardised columns.

    Args:
        values: (N, D), finite.
        column_of: (D,) as in `spreads`; None means one column per feature.

    Returns:
        (N, 2) coordinates, 0 in a missing direction; and the share of the variance that they preserve, in [0, 1].
    """
    from sklearn.decomposition import PCA

    centred = np.asarray(values, dtype=np.float64) - values.mean(axis=0, dtype=np.float64)
    spread = centred.std(axis=0) if column_of is None else spreads(centred, column_of)
    centred /= np.where(spread > 0, spread, 1.0)
    if not centred.any():
        return np.zeros((len(values), 2)), 1.0
    model = PCA(min(2, *centred.shape), svd_solver="full").fit(centred)
    plane = centred @ model.components_.T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))), float(model.explained_variance_ratio_.sum())
