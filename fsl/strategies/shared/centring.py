"""Task-level preparation of points (PT-MAP, Hu et al. 2021; iLPC, Lazarou et al. 2021; protoLP, Zhu and Koniusz 2023):
centring, which takes away the shift between tasks, and fewer dimensions, both by the points' inner products where
they are at hand."""

from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points
from fsl.episodes import Episodes

Centring = Literal["apart", "together"] | None
"""What is taken off before points get unit length: from support and query each its own mean, from both the mean of
all, or nothing."""


def centred(episodes: Episodes, points: Points, centring: Centring) -> Points:
    """The points less their means, of unit length. Zero vectors stay zero, and padded rows become zero.

    Args:
        episodes: whose points they are; padded ones have no part in the means.
        points: (B, S + Q), not moved.
        centring: see `Centring`.
    """
    valid = episodes.valid.to(episodes.dtype)[..., None]
    groups = valid
    if centring == "apart":
        first = torch.arange(valid.shape[1], device=valid.device)[:, None] < episodes.support_size
        groups = valid * torch.cat([first, ~first], dim=1)
    means = (groups / groups.sum(dim=1, keepdim=True)).mT  # (B, groups, M)
    before = points.squared_norms
    if isinstance(points, Features):
        values = points.values
        if centring is not None:
            values = torch.baddbmm(values, groups, torch.bmm(means, values), alpha=-1)
        return Features(values * _unit(values.square().sum(2), before, valid[..., 0])[..., None])
    products = points.pairwise()
    if centring is not None:
        # (I - U H) G (I - U H)^T for groups U and means H: G less V U^T and its transpose, with this V.
        along = torch.bmm(products, means.mT)
        along = along - 0.5 * torch.bmm(groups, torch.bmm(means, along))
        products = torch.baddbmm(products, torch.cat([along, groups], 2), torch.cat([groups, along], 2).mT, alpha=-1)
    scale = _unit(products.diagonal(dim1=1, dim2=2), before, valid[..., 0])
    return Gram(products * scale[:, :, None] * scale[:, None, :])


def leading(points: Points, dimensions: int) -> Points:
    """The points' projections onto the leading right singular vectors of their (uncentred) matrix.

    Tasks of no more points than `dimensions` stay as they are, but for rotation.
    """
    if isinstance(points, Features):
        if min(points.values.shape[1:]) <= dimensions:
            return points
        directions = torch.linalg.eigh(torch.bmm(points.values.mT, points.values)).eigenvectors
        return Features(torch.bmm(points.values, directions[:, :, -dimensions:]))
    products = points.pairwise()
    if products.shape[1] <= dimensions:
        return points
    values, vectors = torch.linalg.eigh(products)
    weighted = vectors[:, :, -dimensions:] * values[:, None, -dimensions:].clamp_min(0).sqrt()
    return Gram(torch.bmm(weighted, weighted.mT))


def _unit(squared: Tensor, before: Tensor, valid: Tensor) -> Tensor:
    """1 / norm; 0 in padded rows, and where nothing but rounding is left of what there was before."""
    lowest = 32 * torch.finfo(squared.dtype).eps * before
    return torch.where(squared > lowest, squared.clamp_min(1e-24).rsqrt(), 0.0) * valid
