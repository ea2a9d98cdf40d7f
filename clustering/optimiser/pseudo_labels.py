"""Pseudo-labels from a model's class probabilities, in the log domain."""

import torch
from torch import Tensor

from clustering.optimiser.alternation import Clamp


def adm(
    log_probabilities: Tensor,
    *,
    marginal: float = 1.0,
    conditional: float = 1.0,
    divergence: float = 1.0,
    weights: Tensor | None = None,
    prior: Tensor | None = None,
    known: Clamp | None = None,
    corrections: int = 0,
) -> Tensor:
    """Pseudo-labels of the alternating direction method (Jabi et al. 2019; TIM-ADM, Boudiaf et al. 2020, section 2.3).

    They approximate the minimiser over q of

        conditional mean_i <q_i, -log p_i> - marginal H(mean_i q_i) + divergence mean_i KL(q_i || p_i),

    whose stationary points are q_ik ~ p_ik^a / qbar_k^r with a = 1 + conditional / divergence, r = marginal /
    divergence and qbar the mean of q. The papers ignore the normalisation over k when they solve for qbar,

        q_ik ~ p_ik^a / (sum_j p_jk^a)^b,    b = marginal / (marginal + divergence),

    which is close to a minimiser. `corrections` continue from there towards a stationary point. With a prior u over
    classes, marginal KL(qbar || u) replaces the entropy, and u_k^b enters the numerator.

    Args:
        log_probabilities: (…, N, K) log p, finite, rows normalised.
        marginal: >= 0, weight of the entropy of the mean.
        conditional: >= 0, weight of the cross-entropy.
        divergence: > 0, weight of the divergence; 1 in the papers.
        weights: (…, N) >= 0, not all 0, weights of the points in the means, up to a factor; 0 for padding. None means
            equal weights.
        prior: (…, K) u > 0, which sums to one; None means equal classes.
        known: (mask (…, N), labels (…, N)) of rows with known class; their p and q are one-hot.
        corrections: number of fixed-point steps for qbar, damped by 1 / (1 + r); 0 gives the closed form of the papers.

    Returns:
        (…, N, K) q, rows sum to one.
    """
    # Classes before points: sums over a strided axis are much faster than over the last.
    log_p, power = log_probabilities.mT, 1 + conditional / divergence
    if known is not None:
        mask, labels = known[0][..., None, :], known[1][..., None, :]
        one_hot = labels == torch.arange(log_p.shape[-2], device=log_p.device)[:, None]
        log_p = torch.where(mask, torch.where(one_hot, 0.0, _NEVER), log_p)
        result = adm(
            log_p.mT,
            marginal=marginal,
            conditional=conditional,
            divergence=divergence,
            weights=weights,
            prior=prior,
            corrections=corrections,
        )
        return torch.where(mask, one_hot.to(result.dtype), result.mT).mT
    if marginal == 0:
        return torch.softmax(power * log_p, dim=-2).mT
    if weights is None:
        weights = torch.ones_like(log_p[..., 0, :])
    ratio = marginal / divergence
    q = (power * log_p).exp_()
    mass = torch.matmul(q, weights[..., None])
    if float(mass.min()) > _SMALLEST_MASS and not corrections:
        if prior is not None:
            mass /= prior[..., None]
        q *= mass.pow_(-ratio / (1 + ratio))
        return q.div_(q.sum(dim=-2, keepdim=True)).mT
    # In the log domain if a class is far from every point, or if exact means are required.
    powers, log_weights = power * log_p, (weights / weights.sum(dim=-1, keepdim=True)).log()[..., None, :]
    log_prior = 0.0 if prior is None else prior[..., None].log()
    log_mean = (torch.logsumexp(powers + log_weights, dim=-1, keepdim=True) - log_prior) / (
        1 + ratio
    )  # relative to the prior
    for _ in range(corrections):
        log_q = torch.log_softmax(powers - ratio * log_mean, dim=-2)
        mean = torch.logsumexp(log_q + log_weights, dim=-1, keepdim=True) - log_prior
        log_mean = (ratio * log_mean + mean) / (1 + ratio)
    return torch.softmax(powers - ratio * log_mean, dim=-2).mT


_NEVER = -1e4
"""Logarithm that stands for probability 0, of classes known to be wrong."""

_SMALLEST_MASS = 1e-30
"""Mass of a class above which its logarithm is computed from a plain sum; float32 ends at 1e-38."""
