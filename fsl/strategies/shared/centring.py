"""Preprocessing of a task's points: centring, which removes the shift between tasks, and dimension reduction (PT-MAP,
Hu et al. 2021; iLPC, Lazarou et al. 2021; protoLP, Zhu and Koniusz 2023)."""

from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points, in_cache
from fsl.episodes import LARGEST_GRAM, Episodes

Centring = Literal["apart", "together"] | None
"""Mean to subtract before scaling to unit length: the means of support and queries separately ("apart"), their common
mean ("together"), or none."""


_CACHED = 1 << 20
"""Number of features of the tasks that are centred together: 4 MiB in float32."""


def centred(episodes: Episodes, features: Tensor, centring: Centring) -> Points:
    """Subtract the means and scale to unit length. Zero vectors stay zero; padded rows become zero.

    Args:
        episodes: the tasks; padded points are excluded from the means.
        features: (B, S + Q, D) features of their points.
        centring: see `Centring`.
    """
    valid = episodes.valid.to(features.dtype)
    first = torch.arange(valid.shape[1], device=valid.device) < episodes.support_size
    groups = valid[:, None] * (torch.stack([first, ~first]) if centring == "apart" else torch.ones_like(first))
    shares = groups / groups.sum(dim=2, keepdim=True)
    if features.shape[1] > LARGEST_GRAM:
        moved = features if centring is None else torch.baddbmm(features, groups.mT, shares @ features, alpha=-1)
        scale = _inverse_lengths(features, moved.square().sum(dim=2)) * valid
        return Features(moved * scale[..., None])
    products = features.new_empty(*valid.shape, valid.shape[1])
    for part in in_cache(features, _CACHED):  # lengths are those of the products, which have fewer numbers
        moved = features[part]
        if centring is not None:
            moved = torch.baddbmm(moved, groups[part].mT, shares[part] @ moved, alpha=-1)
        inner = torch.bmm(moved, moved.mT, out=products[part])
        scale = _inverse_lengths(features[part], inner.diagonal(dim1=1, dim2=2)) * valid[part]
        inner.mul_(scale[:, :, None]).mul_(scale[:, None])
    return Gram(products)


def _inverse_lengths(before: Tensor, squared: Tensor) -> Tensor:
    """(B, M) inverses of the lengths of points with these squares (B, M), 0 at the mean, where the length is only the
    rounding error of the features (B, M, D) before."""
    lowest = 32 * torch.finfo(squared.dtype).eps * torch.linalg.vector_norm(before, dim=2).square()
    return torch.where(squared > lowest, squared.clamp_min(1e-24).rsqrt(), 0.0)


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
