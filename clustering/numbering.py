"""The numbers of clusters: in the order in which they first appear in the points, whatever start they came from, except
where known labels, `init` or `prior` number them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def numbered(
    estimator: Any, labels: NDArray[np.int64], known: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same clusters by other numbers: (N,) labels, and (K,) for each number the cluster that gets it.

    A cluster keeps its number where the user chose it: by known labels, or all of them by an array as `init` or
    `prior`. The others are numbered by their first points, those without points come last.

    Args:
        estimator: with n_clusters.
        labels: (N,) 0..K-1.
        known: (N,) known labels, -1 where unknown.
    """
    order = order_of(estimator, first_points(labels, estimator.n_clusters), known)
    return np.argsort(order)[labels], order


def order_of(estimator: Any, first: NDArray[np.int64], known: ArrayLike | None = None) -> NDArray[np.int64]:
    """(K,) as `numbered`, of clusters whose first points are `first` (K,), N where they have none."""
    order = np.arange(len(first))
    if any(not isinstance(getattr(estimator, name, ""), str) for name in ("init", "prior")):
        return order
    free = np.ones(len(first), dtype=bool)
    if known is not None:
        given = np.asarray(known)
        free[given[given >= 0]] = False
    order[free] = order[free][np.argsort(first[free], kind="stable")]
    return order


def first_points(labels: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    """(K,) the first of the points with each of the labels (N,) 0..K-1, N where there is none."""
    first = np.full(clusters, len(labels), dtype=np.int64)
    some, at = np.unique(labels, return_index=True)
    first[some] = at
    return first
