"""Quality of a clustering: compared with true labels or other clusterings, and by its objective on a graph.

Labels may be any values of numpy, torch or pandas; permutations of cluster numbers do not matter. All counts are exact.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_score
from sklearn.utils import check_array

from clustering.estimator_input import as_array, check_no_dates, check_no_gap, float_kinds, of_one_type
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.graphs.neighbours import NeighbourGraph
from clustering.graphs.row_graph import scipy_graph
from clustering.graphs.sparse_graph import SparseGraph


def nmi(truth: ArrayLike, labels: ArrayLike, *, average: Literal["geometric", "arithmetic"] = "geometric") -> float:
    """Normalised mutual information I(Y; L) / mean(H(Y), H(L)), in [0, 1].

    The papers use the geometric mean (Strehl and Ghosh 2002); the default of scikit-learn is the arithmetic mean. The
    value is 1 if both sides have a single group, and 0 if only one of them has.
    """
    truth, labels = _paired(truth, labels)
    return float(normalized_mutual_info_score(truth, labels, average_method=average))


def ari(truth: ArrayLike, labels: ArrayLike) -> float:
    """Rand index adjusted for chance (Hubert and Arabie 1985), in [-0.5, 1], with expectation 0 for random labels."""
    return float(adjusted_rand_score(*_paired(truth, labels)))


def accuracy(truth: ArrayLike, labels: ArrayLike) -> float:
    """Share of points whose cluster is matched to their class, under the best one-to-one matching (ACC of the papers).

    If there are more clusters than classes or vice versa, points in unmatched ones count as errors.
    """
    truth, labels = _paired(truth, labels)
    rows, columns = int(truth.max()) + 1, int(labels.max()) + 1
    # Every class may also be matched to a column of its own, for a reward of 1 instead of its count plus 1, because a
    # sparse matching is of all rows, and must not have zeros.
    counts = sparse.coo_array((np.ones(len(truth)), (truth, labels)), (rows, columns)).tocsr()
    counts.data += 1
    rewards = sparse.hstack([counts, sparse.eye_array(rows)], format="csr")
    matched = rewards[min_weight_full_bipartite_matching(rewards, maximize=True)]
    return float((matched.sum() - rows) / len(truth))


def silhouette(X: Any, labels: ArrayLike, *, sample: int = 2000, seed: int = 0) -> float:
    """Mean silhouette (Rousseeuw 1987) of a sample of the points, computed within the sample, in [-1, 1].

    NaN if the sample has a single cluster, or one cluster per point. Takes time quadratic in the size of the sample.

    Args:
        X: (N, D) points, or scipy sparse.
        labels: (N,).
        sample: maximum number of sampled points.
        seed: seed of the sample.
    """
    labels, X = _numbered(labels), as_array(X)
    check_no_dates(X)
    X = X if sparse.issparse(X) else check_array(X, dtype=float_kinds(X)[-1])
    if X.shape[0] != len(labels):
        raise InputError(f"X has {X.shape[0]} rows, but there are {len(labels)} labels")
    if sample < len(labels):
        rows = np.sort(stream(seed, "silhouette").choice(len(labels), sample, replace=False))
        X, labels = X[rows], labels[rows]
    if not 2 <= len(np.unique(labels)) < len(labels):
        return float("nan")
    if not sparse.issparse(X):
        X = X - X.mean(axis=0)  # distances are computed from squares, which lose the digits of an offset
    return float(silhouette_score(X, labels))


class GraphObjectives(NamedTuple):
    """Objectives of a partition of a graph, summed over clusters (thesis section 1.1); lower is better for both.

    S_k is the indicator of cluster k, and d are the row sums of W. A cluster without points or arcs contributes 0.

    Attributes:
        normalised_cut: S_k^T W (1 - S_k) / d^T S_k.
        average_association: -S_k^T W S_k / |S_k|.
    """

    normalised_cut: float
    average_association: float


def graph_objectives(labels: ArrayLike, W: Any) -> GraphObjectives:
    """Compute the objectives, in time linear in the number of arcs.

    Args:
        labels: (N,).
        W: weights >= 0 between N points: scipy sparse, an array, or a graph of `clustering.graphs.neighbours`. The
            diagonal counts, as it must for a kernel.
    """
    numbers = _numbered(labels)
    W = W.graph if isinstance(W, NeighbourGraph) else as_array(W)
    weights = sparse.coo_array(scipy_graph(W) if isinstance(W, SparseGraph) else W).astype(np.float64)
    if weights.shape != (len(numbers), len(numbers)):
        raise InputError(f"W has shape {weights.shape}, but there are {len(numbers)} labels")
    sizes, of_arc = np.bincount(numbers), numbers[weights.row]
    degree = np.bincount(of_arc, weights=weights.data, minlength=len(sizes))
    inside = np.bincount(of_arc, weights=weights.data * (of_arc == numbers[weights.col]), minlength=len(sizes))
    linked = degree > 0
    cut = float(((degree - inside)[linked] / degree[linked]).sum())
    return GraphObjectives(cut, -float((inside / sizes).sum()))


def _numbered(labels: ArrayLike) -> NDArray[np.int64]:
    """(N,) indices of labels among their sorted distinct values."""
    values = of_one_type(as_array(labels), "a clustering")
    if values.ndim != 1 or not values.size:
        raise InputError(f"labels must be a 1-d array, not of shape {values.shape}")
    check_no_gap(values, "labels")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _paired(truth: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    classes, clusters = _numbered(truth), _numbered(labels)
    if len(classes) != len(clusters):
        raise InputError(
            f"there are {len(classes)} true labels but {len(clusters)} cluster labels; their numbers must agree"
        )
    return classes, clusters
