"""Alternatives to matrix balancing for computing an equivalence matrix from features: pseudo-labels, and the
eigenvector method with which the paper compares."""

import torch
from torch import Tensor

from clustering.deep.xsdc.constraints import Constraints, Known
from clustering.deep.xsdc.discriminative import best_penalty, ridge
from clustering.deep.xsdc.rounding import constrained_labels
from clustering.foundation.errors import InputError


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


def by_eigenvectors(features: Tensor, known: Known, clusters: int, share: float = 0.1) -> Tensor:
    """(n, n) M of rank K that is nearest to the span of the features, with known entries inserted (XSDC, appendix C):

        min <M, A>,    M symmetric and positive semi-definite, tr M = n, sum_i min(eigenvalue_i / (share n), 1) >= K

    The eigenvectors of A are the constant vector, with eigenvalue 0, and then the left singular vectors of the centred
    features in descending order of singular values. Entries of M may be negative. The sizes of clusters are not
    bounded.

    Args:
        features: (n, D), D >= K - 1.
        known: known entries of M of these points.
        clusters: K.
        share: smallest eigenvalue of M, as a share of n; 0.1 in the authors' script, at most 1 / K.

    Raises:
        InputError: D < K - 1.
    """
    points, dimensions = features.shape
    if dimensions < clusters - 1:
        raise InputError(f"assignment='eigenvectors' needs {clusters - 1} features, not {dimensions}")
    centred = features.to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    last = min(clusters - 1, points - 1)
    projected = centred @ vectors[:, dimensions - last :] / values[dimensions - last :].clamp_min(1e-300).sqrt()
    least = min(share, 1 / clusters) * points
    M = least * projected @ projected.T + (points - (clusters - 1) * least) / points
    return torch.where(known.mask, known.values.to(M), M)
