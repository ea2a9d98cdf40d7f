"""Tsallis entropies, of which Shannon's is the limit at alpha = 1.

    H(p) = (1 - sum_k p_k^alpha) / (alpha - 1) = -<p, ln_alpha p>,    ln_alpha p = (p^(alpha - 1) - 1) / (alpha - 1)

Up to a constant, which no softmax sees, the derivative of H by p_k is -alpha ln_alpha p_k.
"""

import math

import torch
from torch import Tensor

_LOWEST = math.log(1e-12)  # below alpha = 1 the slope at 0 is infinite


def deformed_log(log_p: Tensor, alpha: float | Tensor = 1.0) -> Tensor:
    """ln_alpha p from log p, natural and not below log(1e-12); log p itself at alpha = 1. Accurate near alpha = 1.

    Args:
        log_p: of any shape.
        alpha: > 0; a tensor (not of ones) where it differs by problem.
    """
    log_p = log_p.clamp_min(_LOWEST)
    if isinstance(alpha, float) and abs(alpha - 1) < 1e-6:
        return log_p
    return torch.expm1((alpha - 1) * log_p) / (alpha - 1)
