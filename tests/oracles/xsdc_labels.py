"""Labels that XSDC is compared with, as the paper describes them: the rows on which K-means works, and the partition of
lowest cost among all partitions. Shares no line with what it judges."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.oracles.parts import unit
from tests.oracles.xsdc_dense import dissimilarity

Array = NDArray[np.float64]


def eigenvector_rows(features: Array, penalty: float, clusters: int) -> Array:
    """Rows of U diag(sqrt(eigenvalue)) of the relaxation: the eigenvectors of A with the lowest eigenvalues.

    The eigenvalues of M are n - (K - 1) l n, l n, ..., l n with l = min(0.1, 1 / K).
    """
    n = len(features)
    least = min(0.1, 1 / clusters) * n
    vectors = np.linalg.eigh(dissimilarity(features, penalty))[1]
    rows = np.zeros((n, clusters))
    for k in range(clusters):
        rows[:, k] = vectors[:, k] * np.sqrt(n - (clusters - 1) * least if k == 0 else least)
    return unit(rows)


def deep_rows(features: Array, share: float = 0.95) -> Array:
    """The principal components that have 95 % of the variance, each divided by its standard deviation."""
    columns: list[Array] = []
    values, vectors = np.linalg.eigh(np.cov(features.T))
    total = 0.0
    for value, vector in sorted(zip(values, vectors.T, strict=True), key=lambda pair: -pair[0]):
        if total >= share * values.sum():
            break
        total += value
        columns.append((features - features.mean(axis=0)) @ vector / np.sqrt(value))
    return unit(np.stack(columns, axis=1))


def best_partition(rows: Array, clusters: int) -> NDArray[np.int64]:
    """Of all assignments of a few points, that of the lowest sum of squared distances to the means."""
    found, lowest = (0,) * len(rows), np.inf
    for rest in product(range(clusters), repeat=len(rows) - 1):
        labels = np.array((0, *rest))
        cost = sum(
            float(np.square(rows[labels == k] - rows[labels == k].mean(axis=0)).sum()) for k in set(labels.tolist())
        )
        if cost < lowest:
            found, lowest = (0, *rest), cost
    return np.array(found)
