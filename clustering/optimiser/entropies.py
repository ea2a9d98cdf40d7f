"""Tsallis entropies, with the Shannon entropy as the limit alpha = 1.

    H(p) = (1 - sum_k p_k^alpha) / (alpha - 1) = -<p, ln_alpha p>,    ln_alpha p = (p^(alpha - 1) - 1) / (alpha - 1)

The derivative of H by p_k is -alpha ln_alpha p_k up to a constant, which a softmax ignores.
"""

import math

import torch
from torch import Tensor

_LOWEST = math.log(1e-12)  # for alpha < 1 the slope at 0 is infinite


def deformed_log(log_p: Tensor, alpha: float | Tensor = 1.0) -> Tensor:
    """ln_alpha p from the natural log p, which is floored at log(1e-12); log p itself if alpha = 1. Accurate near alpha
    = 1.

    Args:
        log_p: tensor of any shape.
        alpha: > 0; a tensor (not all ones) if it differs between problems.
    """
    log_p = log_p.clamp_min(_LOWEST)
    if isinstance(alpha, float) and abs(alpha - 1) < 1e-6:
        return log_p
    return torch.expm1((alpha - 1) * log_p) / (alpha - 1)
