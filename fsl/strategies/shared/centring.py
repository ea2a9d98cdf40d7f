"""Preprocessing of a task's points: centring, which removes the shift between tasks, and dimension reduction (PT-MAP,
Hu et al. 2021; iLPC, Lazarou et al. 2021; protoLP, Zhu and Koniusz 2023). Both use inner products if available."""

from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points
from fsl.episodes import Episodes

Centring = Literal["apart", "together"] | None
"""Mean to subtract before scaling to unit length: the means of support and queries separately ("apart"), their common
mean ("together"), or none."""


def centred(episodes: Episodes, points: Points, centring: Centring) -> Points:
    """Subtract the means and scale to unit length. Zero vectors stay zero; padded rows become zero.

    Args:
        episodes: the tasks of the points; padded points are excluded from the means.
        points: (B, S + Q) points, not shifted.
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
        # (I - U H) G (I - U H)^T for groups U and means H equals G - V U^T - U V^T, with V = `along`.
        along = torch.bmm(products, means.mT)
        along = along - 0.5 * torch.bmm(groups, torch.bmm(means, along))
        products = torch.baddbmm(products, torch.cat([along, groups], 2), torch.cat([groups, along], 2).mT, alpha=-1)
    scale = _unit(products.diagonal(dim1=1, dim2=2), before, valid[..., 0])
    return Gram(products * scale[:, :, None] * scale[:, None, :])


def leading(points: Points, dimensions: int) -> Points:
    """Project the points on the leading right singular vectors of their (uncentred) matrix.

    Tasks with at most `dimensions` points do not change, except for a rotation.
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
    """1 / norm; 0 for padded rows, and for points whose norm after centring is only rounding error."""
    lowest = 32 * torch.finfo(squared.dtype).eps * before
    return torch.where(squared > lowest, squared.clamp_min(1e-24).rsqrt(), 0.0) * valid
