"""From features or relaxed equivalence to labels, for evaluation; training itself never rounds."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from clustering.spectrum import leading_eigenvectors

Array = NDArray[np.float64]


def nearest_labels(features: Array, known: Array, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) of each point (n, D) the label of the nearest of the known ones (m, D), labels (m,); the first of several.

    A block of the distances at a time.
    """
    return np.asarray(labels[pairwise_distances_argmin(features, known)])


def spectral_labels(equivalence: Array, clusters: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(n,) labels 0..K-1 of points whose relaxed equivalence M >= 0 (n, n) is known: spectral clustering by the
    normalised Laplacian of (M + M^T) / 2, rows of its K eigenvectors scaled to length one, K-means of 10 starts (Ng,
    Jordan and Weiss 2002).

    Two points can be of one cluster, and no more: entries above 1 count as 1. Balancing gives two outliers that are
    near each other a whole cluster's weight, and each such pair would be a cluster here (on scikit-learn's digits at a
    penalty of 0.01, accuracy 0.55 as it is and 0.75 so).

    Args:
        equivalence: (n, n), a positive diagonal; n in the thousands at most.
        clusters: K <= n.
        generator: of the starts.
    """
    bounded = equivalence.clip(max=1)
    graph = csr_array((bounded + bounded.T) / 2)
    vectors = leading_eigenvectors(graph, clusters, 0.0, generator)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-300)
    seed = int(generator.integers(np.iinfo(np.int32).max))
    found = KMeans(clusters, n_init=10, max_iter=100, random_state=seed).fit(vectors)
    return np.asarray(found.labels_, dtype=np.int64)
