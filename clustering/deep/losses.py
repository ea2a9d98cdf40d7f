"""Loss functions of discriminative clustering, from log-probabilities (…, N, K) to values (…).

They are means over points with natural logarithms. Targets are pseudo-labels y, which are not differentiated.
"""

import math

import torch
from torch import Tensor

_LOWEST = math.log(1e-12)


def cross_entropy(log_p: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """mean_i H(y_i, p_i) = mean_i <y_i, -log p_i>: draws p towards y, hence towards uniform predictions where y is
    uniform.

    Args:
        weights: (…, N) >= 0, weights of the points; the value is 0 if all are 0.
    """
    return _mean(-(targets * log_p).sum(-1), weights)


def reverse_cross_entropy(log_p: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """mean_i H(p_i, y_i) = mean_i <p_i, -log y_i>, the predictions first (Zhang and Boykov, eq. 42).

    A point with uniform y has gradient 0, so uncertain labels do not train. y is floored at 1e-12; since the loss of
    one-hot labels would be infinite, use `cross_entropy` for points with known class.
    """
    return _mean(-(log_p.exp() * targets.log().clamp_min(_LOWEST)).sum(-1), weights)


def absolute_error(log_p: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """mean_i 1 - p_i,l_i for labels (…, N), half the L1 distance between p_i and one-hot l_i.

    Reverse cross-entropy with labels smoothed by eta is log(1 + K (1 - eta) / eta) times this, up to a constant.
    """
    return _mean(1 - log_p.gather(-1, labels[..., None])[..., 0].exp(), weights)


def mean_entropy(log_p: Tensor, order: float = 1.0) -> Tensor:
    """mean_i R(p_i), Renyi entropy R(p) = log(sum_k p_k^order) / (1 - order); Shannon entropy at order 1, -log max p at
    inf."""
    if order == math.inf:
        return -log_p.amax(-1).mean(-1)
    if abs(order - 1) < 1e-3:
        return -(log_p.exp() * log_p).sum(-1).mean(-1)
    return (torch.logsumexp(order * log_p, -1) / (1 - order)).mean(-1)


def fairness(proportions: Tensor, prior: Tensor) -> Tensor:
    """KL(u || pbar) of proportions (…, K), a barrier that is infinite if a class is empty."""
    return (prior * (prior.log() - proportions.log())).sum(-1)


def tolerant_fairness(proportions: Tensor, prior: Tensor) -> Tensor:
    """KL(pbar || u), which is finite if a class is empty."""
    return (torch.xlogy(proportions, proportions) - proportions * prior.log()).sum(-1)


def agreement(log_p: Tensor, log_q: Tensor) -> Tensor:
    """mean_i KL(p_i || q_i) + KL(q_i || p_i) for the predictions of two views of each point (eq. 7)."""
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1).mean(-1)


def paired_information(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Minus the mutual information between the classes of two views of a point (IIC, Ji et al. 2019), in -log K..0.

    It is computed from the joint distribution P = mean_i (p_i q_i^T + q_i p_i^T) / 2.
    """
    joint = log_p.exp().mT @ log_q.exp() / log_p.shape[-2]
    joint = (0.5 * (joint + joint.mT)).clamp_min(torch.finfo(log_p.dtype).eps)
    marginal = joint.sum(-1)
    return (joint * (marginal[..., None] * marginal[..., None, :] / joint).log()).sum((-2, -1))


def margin_norm(weights: Tensor) -> Tensor:
    """||v||^2 of the weights (…, K, D) of a linear head, without bias.

    As its weight goes to 0, the boundary approaches that of the largest margin (theorems 2 to 4).
    """
    return weights.square().sum((-2, -1))


def _mean(values: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return values.mean(-1)
    return (values * weights).sum(-1) / weights.sum(-1).clamp_min(1)
