"""Alternatives to matrix balancing for computing an equivalence matrix from features: pseudo-labels, labels of K-means,
and the eigenvector methods with which the paper compares."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.constraints import Constraints, Known
from clustering.deep.xsdc.discriminative import best_penalty, ridge
from clustering.deep.xsdc.rounding import constrained_labels, unit_kmeans
from clustering.foundation.errors import InputError

_LEAST = 0.1
"""Smallest eigenvalue of the relaxation by eigenvectors, as a share of n, in the authors' script."""


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
    labelled = torch.from_numpy(known.labels >= 0).to(features.device)
    labels = torch.from_numpy(known.labels).to(features.device)[labelled]
    targets = torch.nn.functional.one_hot(labels, clusters).to(torch.float64)
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
    projected, least, rest = _eigenvectors(features, clusters)
    M = least * projected @ projected.T + rest / len(features)
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
    projected, least, rest = _eigenvectors(features, clusters)
    constant = projected.new_full((len(projected), 1), (rest / len(projected)) ** 0.5)
    return unit_kmeans(torch.cat([constant, least**0.5 * projected], dim=1).cpu().numpy(), clusters, generator)


def _eigenvectors(features: Tensor, clusters: int) -> tuple[Tensor, float, float]:
    """Eigenvectors (n, K - 1) of the relaxation without the constant one, their eigenvalue, and that of the constant.

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
    return projected, least, points - (clusters - 1) * least
