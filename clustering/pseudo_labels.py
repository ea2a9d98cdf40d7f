"""Assignment steps of the few-shot methods, in the log domain: pseudo-labels from a model's class probabilities, or
by optimal transport to classes of given size."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

_BLOCK = 10
"""Sinkhorn rounds between two computations of the plan from logarithms."""


def adm(
    log_probabilities: Tensor,
    *,
    marginal: float = 1.0,
    conditional: float = 1.0,
    divergence: float = 1.0,
    valid: Tensor | None = None,
    corrections: int = 0,
) -> Tensor:
    """Pseudo-labels of the alternating direction method (Jabi et al. 2019; TIM-ADM, Boudiaf et al. 2020, section 2.3).

    They stand for the minimiser over q of

        conditional mean_i <q_i, -log p_i> - marginal H(mean_i q_i) + divergence mean_i KL(q_i || p_i),

    whose stationary points are q_ik ~ p_ik^a / qbar_k^r with a = 1 + conditional / divergence, r = marginal /
    divergence and qbar the mean of q. The papers leave the normalisation over k aside when they solve for qbar,

        q_ik ~ p_ik^a / (sum_j p_jk^a)^b,    b = marginal / (marginal + divergence),

    which is no minimiser, but near. `corrections` go on from there to a stationary point.

    Args:
        log_probabilities: (..., N, K) log p, finite, rows normalised.
        marginal: >= 0, weight of the entropy of the mean.
        conditional: >= 0, weight of the cross-entropy.
        divergence: > 0, weight of the divergence; 1 in the papers.
        valid: (..., N) bool, False for padded points, which weigh nothing in the mean.
        corrections: fixed-point steps for qbar, damped by 1 / (1 + r); 0 is the papers' closed form.

    Returns:
        (..., N, K) log q, rows normalised.
    """
    # Classes before points: softmax over a strided axis is many times faster than over the last.
    powers = (1 + conditional / divergence) * log_probabilities.mT
    if marginal == 0:
        return torch.log_softmax(powers, dim=-2).mT
    ratio = marginal / divergence
    log_mean = _log_mass(powers, valid) / (1 + ratio)
    log_q = torch.log_softmax(powers - ratio * log_mean, dim=-2)
    for _ in range(corrections):
        log_mean = (ratio * log_mean + _log_mass(log_q, valid) - _log_count(log_q, valid)) / (1 + ratio)
        log_q = torch.log_softmax(powers - ratio * log_mean, dim=-2)
    return log_q.mT


def _log_mass(logs: Tensor, valid: Tensor | None) -> Tensor:
    """(..., K, 1) log of the sum over points."""
    if valid is not None:
        logs = logs.masked_fill(~valid[..., None, :], -torch.inf)
    largest = logs.amax(dim=-1, keepdim=True)
    return (logs - largest).exp_().sum(dim=-1, keepdim=True).log_().add_(largest)


def _log_count(logs: Tensor, valid: Tensor | None) -> Tensor | float:
    """Log of the number of points."""
    return math.log(logs.shape[-1]) if valid is None else valid.sum(dim=-1)[..., None, None].to(logs.dtype).log()


class Transport(NamedTuple):
    """What `sinkhorn` found.

    Attributes:
        assignments: (…, N, K) rows sum to one; the transport plan is `rows` times it.
        log_scales: (…, K) by which the columns were scaled; warm start of a similar problem.
        rounds: (…) int64, how many were needed.
        converged: (…) bool, the columns are within the tolerance.
    """

    assignments: Tensor
    log_scales: Tensor
    rounds: Tensor
    converged: Tensor


def sinkhorn(
    scores: Tensor,
    rows: Tensor,
    columns: Tensor,
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-6,
    max_rounds: int = 1000,
) -> Transport:
    """Entropic optimal transport between points and classes (Cuturi 2013): the plan P = diag(u) exp(scores) diag(v)
    with given row and column sums, minimising <P, log P - scores>.

    A round scales the rows and then the columns, problem by problem until its columns fit; the rows fit exactly. Every
    ten rounds the scales go into the logarithms, from where the plan is computed anew, so that scores of any size
    neither overflow nor lose a column.

    Args:
        scores: (…, N, K) finite, greater is closer.
        rows: (…, N) >= 0 mass of the points; 0 for those that do not count.
        columns: (…, K) >= 0 mass of the classes, in proportion: scaled to the rows' total.
        start: (…, K) log-scales of the columns to begin with; default 0, the plan softmax(scores).
        tolerance: largest error of a column's sum, as a share of the total mass.
        max_rounds: rounds at most, in tens.
    """
    batch, shape = scores.shape[:-2], scores.shape
    S = scores.mT.reshape(-1, shape[-1], shape[-2]).contiguous()  # classes before points: sums over long rows
    r, c = rows.reshape(-1, shape[-2], 1), columns.reshape(-1, shape[-1], 1)
    total = r.sum(1, keepdim=True)
    tiny = torch.finfo(S.dtype).tiny
    far = tiny**-0.25  # by which a column is scaled at most before the plan is computed anew
    c = c * (total / c.sum(1, keepdim=True).clamp_min(tiny))
    g = S.new_zeros(c.shape) if start is None else start.reshape(c.shape)
    rounds = torch.zeros(len(S), dtype=torch.int64, device=S.device)
    active = torch.ones_like(total, dtype=torch.bool)
    plan = torch.softmax(S + g, dim=1)
    for _ in range(0, max_rounds, _BLOCK):
        v, weights = torch.ones_like(c), r
        for _ in range(_BLOCK):
            mass = torch.bmm(plan, weights)
            error = (v * mass - c).abs().amax(1, keepdim=True)
            active = active & (error > tolerance * total)
            if not active.any():
                break
            rounds += active[:, 0, 0]
            v = torch.where(active, (c / mass.clamp_min(tiny)).clamp(1 / far, far), v)
            weights = r / (plan * v).sum(1)[..., None]
        lost = active & (mass * far < c)
        if lost.any():  # a column far from every point, underflown: one round in the logarithms
            reach = torch.logsumexp(torch.log_softmax(S + g, dim=1) + r.mT.clamp_min(tiny).log(), 2, keepdim=True)
            g = torch.where(lost, g + c.clamp_min(tiny).log() - reach, g + v.log())
        else:
            g = g + v.log()
        plan = torch.softmax(S + g, dim=1)
        if not active.any():
            break
    return Transport(
        plan.mT.reshape(shape), g.reshape(*batch, shape[-1]), rounds.reshape(batch), ~active.reshape(batch)
    )
