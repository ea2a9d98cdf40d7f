"""Ways from features to an equivalence matrix other than balancing it: by labels, and what the paper compares with."""

import torch
from torch import Tensor

from clustering.deep.xsdc.constraints import Constraints, Known
from clustering.deep.xsdc.discriminative import best_penalty, ridge
from clustering.deep.xsdc.rounding import obeying_labels
from clustering.foundation.errors import InputError


def by_pseudo_labels(features: Tensor, known: Constraints, clusters: int) -> Tensor:
    """(n, n) M = Y Y^T, where points without label have that of a ridge regression on those with one (XSDC, section 5).

    Labels obey links, and linked points have that of their highest sum. The penalty of the regression is the best at
    labelled points that are left out.

    Args:
        features: (n, D).
        known: of these points; a cluster of which none has a label gets no other point.
        clusters: K.
    """
    told = torch.from_numpy(known.labels >= 0).to(features.device)
    labels = torch.from_numpy(known.labels).to(features.device)[told]
    targets = torch.nn.functional.one_hot(labels, clusters).to(torch.float64)
    scores = ridge(features[told], targets, best_penalty(features[told], targets)).scores(features)
    scores[:, targets.sum(0) == 0] = -torch.inf
    found = torch.from_numpy(obeying_labels(scores.cpu().numpy(), known)).to(features.device)
    return (found[:, None] == found).to(torch.float64)


def by_eigenvectors(features: Tensor, known: Known, clusters: int, share: float = 0.1) -> Tensor:
    """(n, n) M of rank K that is nearest to what the features span, known entries pasted over it (XSDC, appendix C):

        min <M, A>,    M symmetric and positive semi-definite, tr M = n, sum_i min(eigenvalue_i / (share n), 1) >= K

    A has the eigenvector 1 with eigenvalue 0, then the left singular vectors of the centred features, the longest
    first. Entries may be negative. Clusters may be of any size.

    Args:
        features: (n, D), D >= K - 1.
        known: of these points.
        clusters: K.
        share: of n, that an eigenvalue of M has at least; 0.1 in the authors' script, 1 / K at most.

    Raises:
        InputError: fewer features.
    """
    points, dimensions = features.shape
    if dimensions < clusters - 1:
        raise InputError(f"assignment='eigenvectors' needs {clusters - 1} features, not {dimensions}")
    centred = features.to(torch.float64)
    centred = centred - centred.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    last = min(clusters - 1, points - 1)
    along = centred @ vectors[:, dimensions - last :] / values[dimensions - last :].clamp_min(1e-300).sqrt()
    least = min(share, 1 / clusters) * points
    M = least * along @ along.T + (points - (clusters - 1) * least) / points
    return torch.where(known.mask, known.values.to(M), M)
