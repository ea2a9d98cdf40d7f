"""Numbering of clusters by their first appearance in the data, independent of the start.

Clusters that known labels, `init` or `prior` number keep their numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def numbered(
    estimator: Any, labels: NDArray[np.int64], known: ArrayLike | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Renumber clusters; returns (N,) labels, and (K,) for each new number the old one.

    A cluster keeps its number if the user set it, either by known labels or, for all clusters, by an array `init` or
    `prior`. The others are numbered by their first points; empty clusters come last.

    Args:
        estimator: has n_clusters.
        labels: (N,) 0..K-1.
        known: (N,) known labels, -1 where unknown.
    """
    order, present = np.arange(estimator.n_clusters), np.unique(labels, return_index=True)
    first = np.full(len(order), len(labels), dtype=np.int64)
    first[present[0]] = present[1]
    if all(isinstance(getattr(estimator, name, ""), str) for name in ("init", "prior")):
        free = np.ones(len(order), dtype=bool)
        if known is not None:
            known_labels = np.asarray(known)
            free[known_labels[known_labels >= 0]] = False
        order[free] = order[free][np.argsort(first[free], kind="stable")]
    return np.argsort(order)[labels], order
