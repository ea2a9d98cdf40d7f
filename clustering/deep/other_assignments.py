"""What matrix balancing is compared with: other ways from features to an equivalence matrix."""

import torch
from torch import Tensor

from clustering.deep.constraints import Known
from clustering.deep.discriminative import ridge
from clustering.errors import InputError


def by_pseudo_labels(features: Tensor, labels: Tensor, clusters: int, penalty: float) -> Tensor:
    """(n, n) M = Y Y^T, where points without label have that of a ridge regression on those with one (XSDC, section 5).

    Args:
        features: (n, D).
        labels: (n,) 0..K-1, -1 where unknown.
        clusters: K, each with a label.
        penalty: of the regression.

    Raises:
        InputError: a cluster without label.
    """
    known = labels >= 0
    if len(torch.unique(labels[known])) < clusters:
        raise InputError("assignment='pseudo_labels' needs labels of every cluster; give some, or take 'balancing'")
    told = torch.nn.functional.one_hot(labels[known], clusters).to(torch.float64)
    found = ridge(features[known], told, penalty).scores(features).argmax(1)
    full = torch.where(known, labels, found)
    return (full[:, None] == full).to(torch.float64)


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
