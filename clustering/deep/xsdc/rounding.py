"""From scores, features or relaxed equivalence to labels, in the end; training itself never rounds."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from clustering.deep.xsdc.constraints import Constraints
from clustering.graphs.spectrum import leading_eigenvectors

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


def obeying_labels(scores: Array, known: Constraints) -> NDArray[np.int64]:
    """(N,) labels of the highest scores (N, K), as far as what is known of points lets them have these.

    Known labels stay, and points that are linked get the label of their highest sum. Linked sets that are known to be
    of two clusters get different labels one after the other, the largest set first; where others have taken all that
    are left, a set keeps its best, for to colour a graph is hard. Where coarse labels rule out a cluster that labels
    name, no point gets it, unless they rule out all.
    """
    sums = np.zeros((int(known.groups.max(initial=-1)) + 1, scores.shape[1]))
    np.add.at(sums, known.groups, scores)
    barred = known.barred(scores.shape[1])
    sums[barred & ~barred.all(axis=1, keepdims=True)] = -np.inf
    found = sums.argmax(axis=1)
    told = known.labels >= 0
    found[known.groups[told]] = known.labels[told]
    settled = np.zeros(len(found), dtype=bool)
    settled[known.groups[told]] = True
    parted = np.flatnonzero(~settled & (np.diff(known.apart.indptr) > 0))
    for one in parted[np.argsort(-np.bincount(known.groups)[parted], kind="stable")]:
        others = known.apart.indices[known.apart.indptr[one] : known.apart.indptr[one + 1]]
        free = np.setdiff1d(np.arange(scores.shape[1]), found[others[settled[others]]])
        if len(free):
            found[one] = free[sums[one, free].argmax()]
        settled[one] = True
    return np.asarray(found[known.groups], dtype=np.int64)
