"""Equivalence matrices without balancing, and the rounding of scores, features or relaxed matrices to labels.

Pseudo-labels are the method's own; labels of deep clustering (Caron, Bojanowski, Joulin and Douze 2018) and of
eigenvectors are those with which the paper compares balancing.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from torch import Tensor

from clustering.constraints import Constraints, Known
from clustering.deep.xsdc.discriminative import best_penalty, ridge
from clustering.foundation.errors import InputError
from clustering.graphs.spectrum import leading_eigenvectors

Array = NDArray[np.float64]

_LEAST = 0.1
"""Smallest eigenvalue of the relaxation by eigenvectors, as a share of n, in the authors' script."""


_VARIANCE = 0.95
"""Share of the variance of the features that the principal components have, as in the paper."""


def by_labels(labels: NDArray[np.int64], known: Known) -> Tensor:
    """(n, n) M = Y Y^T of labels (n,), with known entries inserted.

    Labels may be of more clusters than K, and need not agree with the known ones.
    """
    assigned = torch.from_numpy(labels).to(known.mask.device)
    return torch.where(known.mask, known.values, (assigned[:, None] == assigned).to(torch.float64))


def by_pseudo_labels(features: Tensor, known: Constraints, clusters: int) -> Tensor:
    """(n, n) M = Y Y^T, where unlabelled points have the label predicted by a ridge regression on the labelled points
    (XSDC, section 5).

    Labels satisfy the links; linked points have the label of the highest sum of scores. The penalty of the regression
    minimises the leave-one-out error at the labelled points.

    Args:
        features: (n, D).
        known: labels and links of these points; a cluster without labelled points receives no points.
        clusters: K.
    """
    every = torch.from_numpy(known.labels).to(features.device)
    labelled = every >= 0
    targets = torch.nn.functional.one_hot(every[labelled], clusters).to(torch.float64)
    scores = ridge(features[labelled], targets, best_penalty(features[labelled], targets)).scores(features)
    scores[:, targets.sum(0) == 0] = -torch.inf
    assigned = torch.from_numpy(constrained_labels(scores.cpu().numpy(), known)).to(features.device)
    return (assigned[:, None] == assigned).to(torch.float64)


def by_eigenvectors(features: Tensor, known: Known, clusters: int) -> Tensor:
    """(n, n) M of rank K that is nearest to the span of the features, with known entries inserted (XSDC, appendix C):

        min <M, A>,    M symmetric and positive semi-definite, tr M = n, sum_i min(eigenvalue_i / (l n), 1) >= K

    The eigenvectors of A are the constant vector, with eigenvalue 0, and then the left singular vectors of the centred
    features in descending order of singular values. Entries of M may be negative. The sizes of clusters are not
    bounded. l is 0.1, or 1 / K if this is less.

    Args:
        features: (n, D), D >= K - 1.
        known: known entries of M of these points.
        clusters: K.

    Raises:
        InputError: D < K - 1.
    """
    rows = _eigenvectors(features, clusters)
    M = rows @ rows.T
    return torch.where(known.mask, known.values.to(M), M)


def eigenvector_labels(features: Tensor, clusters: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(n,) labels 0..K-1 by K-means on the eigenvectors of the M of `by_eigenvectors`, each multiplied by the square
    root of its eigenvalue (XSDC, appendix C).

    Rows are scaled to unit norm, as the paper says; the authors' code scales columns.

    Args:
        features: (n, D), D >= K - 1, n >= K.
        clusters: K.
        generator: random generator of the starts of K-means.

    Raises:
        InputError: D < K - 1, or n < K.
    """
    if len(features) < clusters:
        raise InputError(
            f"K-means on eigenvectors finds {clusters} clusters among at least {clusters} points of a batch, not "
            f"{len(features)}; raise batch_size, or give more points"
        )
    return unit_kmeans(_eigenvectors(features, clusters).cpu().numpy(), clusters, generator)


def _eigenvectors(features: Tensor, clusters: int) -> Tensor:
    """(n, K) eigenvectors of the relaxation, each multiplied by the square root of its eigenvalue; the constant first.

    Raises:
        InputError: D < K - 1.
    """
    points, dimensions = features.shape
    if dimensions < clusters - 1:
        raise InputError(
            f"eigenvectors of {clusters} clusters need {clusters - 1} features, not {dimensions}; raise n_features"
        )
    centred = features.to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    last = min(clusters - 1, points - 1)
    projected = centred @ vectors[:, dimensions - last :] / values[dimensions - last :].clamp_min(1e-300).sqrt()
    least = min(_LEAST, 1 / clusters) * points
    constant = projected.new_full((points, 1), ((points - (clusters - 1) * least) / points) ** 0.5)
    return torch.cat([constant, least**0.5 * projected], dim=1)


def drawn_by_cluster(
    points: NDArray[np.int64], labels: NDArray[np.int64], count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """(count,) of these points, without repetition. All clusters have the same chance at the first draw; that of a
    cluster falls as its points are drawn.

    Each point waits for an exponential time with the rate 1 / (size of its cluster), and the first ones are drawn.

    Args:
        points: (n,) indices.
        labels: (N,) clusters of all points.
        count: number of points; all of them if there are no more.
        generator: random generator of the times.
    """
    if count >= len(points):
        return points
    sizes = np.bincount(labels[points])[labels[points]]
    return points[np.argsort(generator.exponential(size=len(points)) * sizes)[:count]]


def deep_labels(
    features: Tensor, clusters: int, generator: np.random.Generator, *, starts: int = 10
) -> NDArray[np.int64]:
    """(n,) labels by K-means on whitened features (n, D), rows scaled to unit norm.

    The principal components that together have 95 % of the variance are whitened.

    Args:
        features: (n, D).
        clusters: number of clusters, at most n.
        generator: random generator of the starts.
        starts: number of starts of K-means.
    """
    centred = features.detach().to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    values, vectors = values.flip(0).clamp_min(0), vectors.flip(1)
    count = int((values.cumsum(0) < _VARIANCE * values.sum()).sum()) + 1
    whitened = centred @ vectors[:, :count] / values[:count].clamp_min(1e-300).sqrt()
    return unit_kmeans(whitened.cpu().numpy(), clusters, generator, starts=starts)


def spectral_labels(equivalence: Array, clusters: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(n,) labels 0..K-1 from a relaxed equivalence matrix M >= 0 (n, n), by spectral clustering: K eigenvectors of the
    normalised Laplacian of (M + M^T) / 2, rows scaled to unit norm, K-means with 10 starts (Ng, Jordan and Weiss 2002).

    Entries above 1 are replaced by 1, the entry of two points in the same cluster. Balancing gives two outliers that
    are near each other the weight of a whole cluster; without the replacement each such pair would become a cluster (on
    scikit-learn's digits at a penalty of 0.01, accuracy is 0.55 without and 0.75 with it).

    Args:
        equivalence: (n, n), with a positive diagonal; n should not exceed some thousands.
        clusters: K <= n.
        generator: random generator of the starts.
    """
    bounded = equivalence.clip(max=1)
    graph = csr_array((bounded + bounded.T) / 2)
    return unit_kmeans(leading_eigenvectors(graph, clusters, 0.0, generator), clusters, generator)


def unit_kmeans(rows: Array, clusters: int, generator: np.random.Generator, *, starts: int = 10) -> NDArray[np.int64]:
    """(n,) labels 0..K-1 by K-means on rows (n, D) scaled to unit norm, in at most 100 iterations.

    Args:
        rows: (n, D).
        clusters: K <= n.
        generator: random generator of the starts.
        starts: number of starts; the one with the lowest sum of squared distances is kept.
    """
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-300)
    seed = int(generator.integers(np.iinfo(np.int32).max))
    model = KMeans(clusters, n_init=starts, max_iter=100, random_state=seed).fit(scaled)
    return np.asarray(model.labels_, dtype=np.int64)


def constrained_labels(scores: Array, known: Constraints) -> NDArray[np.int64]:
    """(N,) labels of the highest scores (N, K), subject to labels and links.

    Known labels are kept, and linked points get the label of the highest sum of their scores. Sets of linked points
    that are known to be in different clusters get different labels greedily, in descending order of size. If no label
    is left for a set, it keeps its best label, because an exact solution requires graph colouring, which is hard.
    A point does not get a cluster whose labelled points have another coarse label, unless this excludes all clusters.
    """
    sums = np.zeros((int(known.groups.max(initial=-1)) + 1, scores.shape[1]))
    np.add.at(sums, known.groups, scores)
    excluded = known.excluded_clusters(scores.shape[1])
    sums[excluded & ~excluded.all(axis=1, keepdims=True)] = -np.inf
    labels = sums.argmax(axis=1)
    labelled = known.labels >= 0
    labels[known.groups[labelled]] = known.labels[labelled]
    settled = np.zeros(len(labels), dtype=bool)
    settled[known.groups[labelled]] = True
    separated = np.flatnonzero(~settled & (np.diff(known.apart.indptr) > 0))
    for group in separated[np.argsort(-np.bincount(known.groups)[separated], kind="stable")]:
        others = known.apart.indices[known.apart.indptr[group] : known.apart.indptr[group + 1]]
        free = np.setdiff1d(np.arange(scores.shape[1]), labels[others[settled[others]]])
        if len(free):
            labels[group] = free[sums[group, free].argmax()]
        settled[group] = True
    return np.asarray(labels[known.groups], dtype=np.int64)
