"""Description of the clusters of a table in the units of the table, for users who look at rows rather than methods."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.table_columns import spreads


class Profile(NamedTuple):
    """Description of one cluster.

    Attributes:
        cluster: its label.
        rows: number of rows, at least one.
        share: share of all rows, in (0, 1].
        means: (D,) mean of each column over the rows of the cluster.
        differences: (D,) from the means over all other rows, in standard deviations over all rows; 0 if constant.
        typical: rows nearest to the mean of the cluster in standardised columns, nearest first.
    """

    cluster: int
    rows: int
    share: float
    means: NDArray[np.float64]
    differences: NDArray[np.float64]
    typical: list[int]


def profiles(
    values: NDArray[np.floating],
    labels: NDArray[np.integer],
    *,
    column_of: NDArray[np.intp] | None = None,
    typical: int = 3,
) -> list[Profile]:
    """Profiles of the non-empty clusters, by descending size.

    Args:
        values: (N, D) in original units, finite.
        labels: (N,) clusters.
        column_of: (D,) as in `spreads`; None means one column per feature.
        typical: maximum number of typical rows per cluster.
    """
    table = values.astype(np.float64, copy=False)
    spread, points, total = table.std(axis=0), len(table), table.sum(axis=0)
    constant = spread <= 1e-12 * np.abs(table.mean(axis=0))
    unit = np.where(constant, 1.0, spread)
    together = unit if column_of is None else np.where(constant, 1.0, spreads(table, column_of))
    results = []
    for cluster, count in zip(*np.unique(labels, return_counts=True), strict=True):
        members = np.flatnonzero(labels == cluster)
        inside = table[members].mean(axis=0)
        outside = (total - count * inside) / (points - count) if count < points else inside
        differences = np.where(constant, 0.0, (inside - outside) / unit)
        distances = np.square((table[members] - inside) / together).sum(axis=1)
        nearest = members[np.argsort(distances, kind="stable")[:typical]].tolist()
        results.append(Profile(int(cluster), int(count), float(count / points), inside, differences, nearest))
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
