"""Minimum of a separable quadratic function on the unit sphere."""

from torch import Tensor

_STEPS, _TOLERANCE = 50, 1e-10


def on_sphere(means: Tensor, precisions: Tensor) -> Tensor:
    """The unit vectors mu that minimise sum_d w_d (mu_d - m_d)^2.

    A stationary point is mu_d = w_d m_d / (w_d + z), with the multiplier z > -min w for which the norm is 1 (the
    secular equation of trust-region methods); it is found by Newton's method. With
    equal weights, mu = m / ||m||.

    Args:
        means: (..., D) means m, not all zero; where they are zero, zeros are returned.
        precisions: (..., D) weights w > 0, broadcastable to the means.

    Returns:
        (..., D) unit vectors.
    """
    # In units of the largest weight, and in double precision: the solution may be close to a pole.
    weights = (precisions / precisions.amax(dim=-1, keepdim=True)).double().expand(means.shape)
    pulls = weights * means.double()
    # One coordinate alone has at most norm 1 at the solution, so this is a lower bound of z. From there Newton's steps
    # for 1 / ||mu(z)|| = 1 increase and do not pass the solution.
    multiplier = (pulls.abs() - weights).amax(dim=-1, keepdim=True)
    for _ in range(_STEPS):
        vectors = pulls / (weights + multiplier).clamp_min(1e-300)
        norm = vectors.norm(dim=-1, keepdim=True)
        if bool((norm - 1 <= _TOLERANCE).all()):
            break
        slope = (vectors.square() / (weights + multiplier).clamp_min(1e-300)).sum(dim=-1, keepdim=True)
        step = norm.square() * (norm - 1) / slope.clamp_min(1e-300)
        multiplier = multiplier + step.clamp_min(0).nan_to_num(0, 0, 0)
    unit: Tensor = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-300)
    return unit.to(means.dtype)
