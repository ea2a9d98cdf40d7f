"""Balanced pairwise affinities: points represented by their similarities to all points (Shalam and Korman 2024)."""

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.optimiser.points import Features, Gram, Points
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import LARGEST_GRAM

LARGEST_DENSE = 8192
"""Maximum number of points for a dense matrix of all pairs: 256 MiB in float32."""

_EXCLUDED = -1e6  # score of a point with itself


def balanced_affinities(
    points: Points,
    valid: Tensor,
    *,
    regularisation: float = 0.1,
    tolerance: float = 1e-6,
    max_rounds: int = 1000,
) -> Points:
    """The rows of the affinity matrix W as points, divided by its maximum, with 1 on the diagonal.

    Args:
        points: (B, M) points of unit length, or zero.
        valid: (B, M) bool, False for padded points, which are excluded and become zero.
        regularisation: weight of the entropy; 0.1 to 0.2 in the public code.
        tolerance: largest error of a column sum, relative to the total; the public code runs 10 rounds.
        max_rounds: maximum number of Sinkhorn rounds.

    Raises:
        InputError: there are too many points for a dense matrix.
    """
    plan = affinities(points, valid, regularisation=regularisation, tolerance=tolerance, max_rounds=max_rounds)
    plan = plan / plan.amax(dim=(1, 2), keepdim=True).clamp_min(1e-12) + torch.diag_embed(valid.to(plan.dtype))
    return Features(plan) if plan.shape[1] > LARGEST_GRAM else Gram(torch.bmm(plan, plan.mT))


def affinities(
    points: Points, valid: Tensor, *, regularisation: float, tolerance: float = 1e-6, max_rounds: int = 1000
) -> Tensor:
    """(B, M, M) entropic transport plan of the points to themselves, with cost 1 - cosine and no mass from a point to
    itself. The plan is symmetric; rows and columns sum to one."""
    count = valid.shape[1]
    if count > LARGEST_DENSE:
        raise InputError(
            f"affinities between {count:,} points need a dense matrix of {count**2 * 4 / 2**30:.0f} GiB; the limit is "
            f"{LARGEST_DENSE:,} points, so classify fewer queries at once"
        )
    scores = points.pairwise() / regularisation
    scores = scores.masked_fill(torch.eye(count, dtype=torch.bool, device=valid.device), _EXCLUDED)
    mass = valid.to(scores.dtype)
    plan = sinkhorn(scores, mass, mass, tolerance=tolerance, max_rounds=max_rounds).assignments
    return plan * mass[:, :, None] * mass[:, None, :]
