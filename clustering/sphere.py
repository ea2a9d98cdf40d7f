"""Minimum of a separable quadratic function on the unit sphere."""

import torch
from torch import Tensor

_BISECTIONS = 40


def on_sphere(means: Tensor, precisions: Tensor) -> Tensor:
    """The unit vectors mu that minimise sum_d w_d (mu_d - m_d)^2.

    A stationary point is mu_d = w_d m_d / (w_d + z), with the multiplier z > -min w for which the norm is 1 (the
    secular equation of trust-region methods); it is found by bisection. With equal weights, mu = m / ||m||.

    Args:
        means: (..., D) means m, not all zero; where they are zero, zeros are returned.
        precisions: (..., D) weights w > 0, broadcastable to the means.

    Returns:
        (..., D) unit vectors.
    """
    # In units of the largest weight, and in double precision: the ends of the interval may be close to a pole.
    weights = (precisions / precisions.amax(dim=-1, keepdim=True)).double().expand(means.shape)
    pulls = weights * means.double()
    # One coordinate alone has at most norm 1, and all of them over the smallest denominator have at least norm 1.
    low = (pulls.abs() - weights).amax(dim=-1, keepdim=True)
    high = pulls.norm(dim=-1, keepdim=True) - weights.amin(dim=-1, keepdim=True)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        long = (pulls / (weights + middle)).norm(dim=-1, keepdim=True) > 1
        low, high = torch.where(long, middle, low), torch.where(long, high, middle)
    vectors = pulls / (weights + high).clamp_min(1e-300)
    unit: Tensor = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-300)
    return unit.to(means.dtype)
