"""Assignment steps of the few-shot methods, in the log domain: pseudo-labels from a model's class probabilities, or
by optimal transport to classes of given size."""

from typing import NamedTuple

import torch
from torch import Tensor

from clustering.alternation import Clamp

_BLOCK = 3
"""Sinkhorn rounds before Newton steps are tried, and between two computations of the plan from logarithms."""

_LARGEST_SYSTEM = 1024
"""Columns up to which Newton steps are tried."""


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

    They stand for the minimiser over q of

        conditional mean_i <q_i, -log p_i> - marginal H(mean_i q_i) + divergence mean_i KL(q_i || p_i),

    whose stationary points are q_ik ~ p_ik^a / qbar_k^r with a = 1 + conditional / divergence, r = marginal /
    divergence and qbar the mean of q. The papers leave the normalisation over k aside when they solve for qbar,

        q_ik ~ p_ik^a / (sum_j p_jk^a)^b,    b = marginal / (marginal + divergence),

    which is no minimiser, but near. `corrections` go on from there to a stationary point. With a prior u over classes
    marginal KL(qbar || u) takes the place of the entropy, and u_k^b goes into the numerator.

    Args:
        log_probabilities: (…, N, K) log p, finite, rows normalised.
        marginal: >= 0, weight of the entropy of the mean.
        conditional: >= 0, weight of the cross-entropy.
        divergence: > 0, weight of the divergence; 1 in the papers.
        weights: (…, N) >= 0, not all 0, what each point counts for in the means, up to a factor; 0 for padding. All
            alike where None.
        prior: (…, K) u > 0, summing to one; all classes alike where None.
        known: (mask (…, N), labels (…, N)) of rows whose class is known; their p and q are one-hot.
        corrections: fixed-point steps for qbar, damped by 1 / (1 + r); 0 is the papers' closed form.

    Returns:
        (…, N, K) q, rows sum to one.
    """
    # Classes before points: sums over a strided axis are many times faster than over the last.
    log_p, power = log_probabilities.mT, 1 + conditional / divergence
    if known is not None:
        mask, labels = known[0][..., None, :], known[1][..., None, :]
        given = labels == torch.arange(log_p.shape[-2], device=log_p.device)[:, None]
        log_p = torch.where(mask, torch.where(given, 0.0, _NEVER), log_p)
        found = adm(
            log_p.mT,
            marginal=marginal,
            conditional=conditional,
            divergence=divergence,
            weights=weights,
            prior=prior,
            corrections=corrections,
        )
        return torch.where(mask, given.to(found.dtype), found.mT).mT
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
    # A class that is far from every point, or means that are wanted exactly: all in the logarithms.
    powers, log_weights = power * log_p, (weights / weights.sum(dim=-1, keepdim=True)).log()[..., None, :]
    log_prior = 0.0 if prior is None else prior[..., None].log()
    log_mean = (torch.logsumexp(powers + log_weights, dim=-1, keepdim=True) - log_prior) / (1 + ratio)  # over the prior
    for _ in range(corrections):
        log_q = torch.log_softmax(powers - ratio * log_mean, dim=-2)
        mean = torch.logsumexp(log_q + log_weights, dim=-1, keepdim=True) - log_prior
        log_mean = (ratio * log_mean + mean) / (1 + ratio)
    return torch.softmax(powers - ratio * log_mean, dim=-2).mT


_NEVER = -1e4
"""Logarithm of a probability that is none, of a class that is known not to be."""

_SMALLEST_MASS = 1e-30
"""Mass of a class up to which its logarithm is taken from a plain sum; float32 ends at 1e-38."""


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

    A round scales the rows and then the columns, problem by problem until its columns fit; the rows fit exactly. Where
    a few rounds are not enough, Newton steps follow on the logarithms of the column scales, whose dual is smooth and
    convex, as long as each halves the error at least; then rounds again. Plans are computed anew from the logarithms
    every few rounds, so that scores of any size neither overflow nor lose a column.

    Args:
        scores: (…, N, K) finite, greater is closer.
        rows: (…, N) >= 0 mass of the points; 0 for those that do not count.
        columns: (…, K) >= 0 mass of the classes, in proportion: scaled to the rows' total.
        start: (…, K) log-scales of the columns to begin with; default 0, the plan softmax(scores).
        tolerance: largest error of a column's sum, as a share of the total mass.
        max_rounds: rounds at most, Newton steps not counted.
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
    for done in range(0, max_rounds, _BLOCK):
        v, weights = torch.ones_like(c), r
        for _ in range(min(_BLOCK, max_rounds - done)):
            mass = torch.bmm(plan, weights)
            active = active & ((v * mass - c).abs().amax(1, keepdim=True) > tolerance * total)
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
        if c.shape[1] > _LARGEST_SYSTEM:
            continue
        error = torch.bmm(plan, r) - c
        while True:
            size = error.abs().amax(1, keepdim=True)
            active = active & (size > tolerance * total)
            if not active.any():
                break
            trial = g + _newton(plan, r, error)
            trial_plan = torch.softmax(S + trial, dim=1)
            trial_error = torch.bmm(trial_plan, r) - c
            better = active & (trial_error.abs().amax(1, keepdim=True) < 0.5 * size)
            if not better.any():
                break
            g, plan, error = (
                torch.where(better, *pair) for pair in ((trial, g), (trial_plan, plan), (trial_error, error))
            )
            rounds += better[:, 0, 0]
    return Transport(
        plan.mT.reshape(shape), g.reshape(*batch, shape[-1]), rounds.reshape(batch), ~active.reshape(batch)
    )


def _newton(plan: Tensor, rows: Tensor, error: Tensor) -> Tensor:
    """(B, K, 1) Newton step on the log-scales, for column errors of that size. The Hessian is the Laplacian of the
    graph that joins classes by the points that they share, written as such so that nothing cancels; scaling all
    columns alike changes nothing, and is held."""
    shared = torch.bmm(plan * rows.mT, plan.mT)
    shared.diagonal(dim1=1, dim2=2).zero_()
    degree = shared.sum(2)
    hold = degree.mean(1).clamp_min(1e-30)[:, None, None] / degree.shape[1]
    system = torch.diag_embed(degree * (1 + 1e-6) + 1e-6 * hold[..., 0]) - shared + hold
    step: Tensor = torch.linalg.solve_ex(system, -error).result
    return step
