"""Preprocessing of a task's points: centring, which removes the shift between tasks, and dimension reduction (PT-MAP,
Hu et al. 2021; iLPC, Lazarou et al. 2021; protoLP, Zhu and Koniusz 2023)."""

from typing import Literal

import torch
from torch import Tensor

from fsl.episodes import Episodes

Centring = Literal["apart", "together"] | None
"""Mean to subtract before scaling to unit length: the means of support and queries separately ("apart"), their common
mean ("together"), or none."""


def centred(episodes: Episodes, features: Tensor, centring: Centring) -> Tensor:
    """Subtract the means and scale to unit length. Zero vectors stay zero; padded rows become zero.

    Args:
        episodes: the tasks; padded points are excluded from the means.
        features: (B, S + Q, D) features of their points.
        centring: see `Centring`.
    """
    valid = episodes.valid.to(features.dtype)[..., None]
    before = features.square().sum(dim=2, keepdim=True)
    if centring is not None:
        first = torch.arange(valid.shape[1], device=valid.device)[:, None] < episodes.support_size
        groups = valid * torch.cat([first, ~first], dim=1) if centring == "apart" else valid
        means = torch.bmm((groups / groups.sum(dim=1, keepdim=True)).mT, features)
        features = torch.baddbmm(features, groups, means, alpha=-1)
    squared = features.square().sum(dim=2, keepdim=True)
    # The norm of a point at the mean is only rounding error.
    lowest = 32 * torch.finfo(squared.dtype).eps * before
    return features * torch.where(squared > lowest, squared.clamp_min(1e-24).rsqrt(), 0.0) * valid


def leading(features: Tensor, dimensions: int) -> Tensor:
    """Project (B, M, D) features on the leading right singular vectors of their (uncentred) matrix.

    Tasks with at most `dimensions` points do not change, except for a rotation.
    """
    if min(features.shape[1:]) <= dimensions:
        return features
    if features.shape[1] > features.shape[2]:
        directions = torch.linalg.eigh(torch.bmm(features.mT, features)).eigenvectors
        return torch.bmm(features, directions[:, :, -dimensions:])
    values, vectors = torch.linalg.eigh(torch.bmm(features, features.mT))
    scores: Tensor = vectors[:, :, -dimensions:] * values[:, None, -dimensions:].clamp_min(0).sqrt()
    return scores
