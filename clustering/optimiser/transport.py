"""Optimal transport of points to classes of given sizes: pseudo-labels of PT-MAP, protoLP, iLPC and SeLa, and
affinities of BPA."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Transport(NamedTuple):
    """Result of `sinkhorn`.

    Attributes:
        assignments: (…, N, K) rows sum to one; the transport plan is `rows` times it.
        log_scales: (…, K) logarithms of the column scales, a warm start for a similar problem. A class without mass has
            the lowest one of all.
        rounds: (…) int64, number of rounds, including Newton steps.
        converged: (…) bool, whether the columns are within the tolerance.
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

    With exact row sums, there remains a concave dual in K unknowns, the logarithms of the column scales. It is solved
    by damped Newton steps; sharp scores need ten to thirty of them, but hundreds of Sinkhorn rounds, which scale rows
    and columns alternately. Rounds come first if there are so many classes that a Newton step costs as much as many of
    them, and they take over if Newton steps fail. Problems stop individually.

    Args:
        scores: (…, N, K) finite, higher is closer.
        rows: (…, N) >= 0 mass of the points; 0 for points that do not count.
        columns: (…, K) >= 0 relative mass of the classes, which is scaled to the total of the rows.
        start: (…, K) initial log-scales of the columns; default 0, the plan softmax(scores).
        tolerance: largest error of a column sum, as a share of the total mass.
        max_rounds: maximum number of rounds; there are up to 200 additional Newton steps.
    """
    batch, shape = scores.shape[:-2], scores.shape
    S = scores.mT.reshape(-1, shape[-1], shape[-2]).contiguous()  # classes before points: sums over long rows
    r, c = rows.to(S).reshape(-1, shape[-2], 1), columns.to(S).reshape(-1, shape[-1], 1)
    total = r.sum(1, keepdim=True)
    c = c * (total / c.sum(1, keepdim=True).clamp_min(torch.finfo(S.dtype).tiny))
    g = torch.zeros_like(c) if start is None else start.to(S).reshape(c.shape)
    g = torch.where((c > 0) | (total == 0), g, -torch.finfo(S.dtype).max / 4)
    problem = _Transports(S, r, c, tolerance * total)
    none = torch.zeros_like(total, dtype=torch.int64)
    state = _Scaled(g, *problem.plan(g), torch.full_like(total, _DAMPING), none)
    left = ~_fits(problem, state)
    for advance, rounds in _schedule(shape[-1], max_rounds):
        indices = left.nonzero()[:, 0]
        if not len(indices):
            break
        if len(indices) == len(left):
            state = advance(problem, state, rounds)
            left = ~_fits(problem, state)
        else:
            part = _Transports(*(values[indices] for values in problem))
            advanced = advance(part, _Scaled(*(values[indices] for values in state)), rounds)
            for values, new in zip(state, advanced, strict=True):
                values[indices] = new
            left[indices] = ~_fits(part, advanced)
    return Transport(
        state.plan.mT.reshape(shape),
        state.log_scales.reshape(*batch, shape[-1]),
        state.rounds.reshape(batch),
        ~left.reshape(batch),
    )


_LARGEST_SYSTEM = 1024
"""Maximum number of classes for which Newton steps are used."""

_CLASSES_A_ROUND = 16
"""Number of classes at which a Newton step costs about as much as one round."""

_LAPS = (3, 3, 6, 12, 24, 48, 96)
"""Numbers of Newton steps after which solved problems are removed from the batch."""

_BLOCK = 3
"""Number of Sinkhorn rounds between two computations of the plan from logarithms."""

_DAMPING = 0.01
"""Inverse of the largest step that is tried first."""


class _Transports(NamedTuple):
    """B problems: scores (B, K, N), masses (B, N, 1) and (B, K, 1), and the tolerance (B, 1, 1) of column sums."""

    scores: Tensor
    rows: Tensor
    columns: Tensor
    allowed: Tensor

    def plan(self, log_scales: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K, N) plan over classes, whose columns sum to one, and (B, K, 1) excess mass of the classes, minus the
        gradient of the dual."""
        plan = torch.softmax(self.scores + log_scales, dim=1)
        return plan, torch.baddbmm(self.columns, plan, self.rows, beta=-1)


class _Scaled(NamedTuple):
    """State of B problems: log-scales (B, K, 1), their plan (B, K, N) and its error (B, K, 1), damping of the next
    Newton step (B, 1, 1), and rounds."""

    log_scales: Tensor
    plan: Tensor
    error: Tensor
    damping: Tensor
    rounds: Tensor


_Advance = Callable[[_Transports, _Scaled, int], _Scaled]


def _schedule(classes: int, max_rounds: int) -> list[tuple[_Advance, int]]:
    """Solvers to apply in turn to the unsolved problems, and the number of rounds or steps of each."""
    if classes > _LARGEST_SYSTEM:
        return [(_rounds, max_rounds)]
    first = min(classes // _CLASSES_A_ROUND, max_rounds)
    return [(_rounds, first), *((_newton, laps) for laps in _LAPS), (_rounds, max_rounds - first)]


def _fits(problem: _Transports, state: _Scaled) -> Tensor:
    """(B,) bool, whether all columns are within the tolerance; False if there are NaN."""
    return (state.error.abs().amax(1, keepdim=True) <= problem.allowed)[:, 0, 0]


def _round_of_logarithms(problem: _Transports, log_scales: Tensor) -> Tensor:
    """(B, K, 1) log-scales after one round in the log domain, in which no column underflows."""
    tiny = torch.finfo(log_scales.dtype).tiny
    log_shares = torch.log_softmax(problem.scores + log_scales, dim=1) + problem.rows.mT.clamp_min(tiny).log()
    return log_scales + problem.columns.clamp_min(tiny).log() - torch.logsumexp(log_shares, 2, keepdim=True)


def _newton(problem: _Transports, state: _Scaled, max_steps: int) -> _Scaled:
    """Newton steps with damping proportional to the error.

    Far from the maximum the dual of sharp scores is nearly piecewise linear; the damping bounds a step by 1 / damping.
    A step that lowers the dual is rejected, and the damping increased.
    """
    g, plan, error, damping, rounds = state
    underflowed = 1e6 * (error + problem.columns) < problem.columns
    if underflowed.any():  # classes far from every point would need many bounded steps
        g, rounds = (
            torch.where(underflowed, _round_of_logarithms(problem, g), g),
            rounds + underflowed.any(1, keepdim=True),
        )
        plan, error = problem.plan(g)
    for _ in range(max_steps):
        size = error.abs().amax(1, keepdim=True)
        active = size > problem.allowed
        if not active.any():
            break
        step = _newton_step(plan, problem.rows, error, damping * size)
        trial = g + step
        trial_plan, trial_error = problem.plan(trial)
        ratio = torch.bmm(trial_error.mT, step) / torch.bmm(
            error.mT, step
        )  # ratio of the slopes of the dual along the step
        accepted = active & (ratio >= -0.5)
        damping = damping * torch.where(accepted, torch.where(ratio > 0.5, 0.45, 0.67), 4.0)
        if accepted.all():  # no problem keeps its state, which saves a pass
            g, plan, error = trial, trial_plan, trial_error
        else:
            pairs = (trial, g), (trial_plan, plan), (trial_error, error)
            g, plan, error = (torch.where(accepted, *pair) for pair in pairs)
        rounds = rounds + active
    return _Scaled(g, plan, error, damping, rounds)


def _newton_step(plan: Tensor, rows: Tensor, error: Tensor, damping: Tensor) -> Tensor:
    """(B, K, 1) Newton step of the log-scales for these column errors.

    The Hessian is the Laplacian of the graph that joins classes by shared points, and is written as such to avoid
    cancellation. A common factor of all columns has no effect and is fixed.
    """
    shared = torch.bmm(plan * rows.mT, plan.mT)
    shared.diagonal(dim1=1, dim2=2).zero_()
    degree = shared.sum(2, keepdim=True)
    hold = degree.mean(1, keepdim=True).clamp_min(1e-30) / degree.shape[1]
    system = hold - shared
    system.diagonal(dim1=1, dim2=2).add_((degree + 1e-6 * (degree + hold) + damping)[..., 0])
    step: Tensor = torch.linalg.solve_ex(system, -error).result
    return step


def _rounds(problem: _Transports, state: _Scaled, max_rounds: int) -> _Scaled:
    """Sinkhorn rounds, with the plan recomputed from logarithms every few rounds to avoid overflow and lost columns."""
    (_, r, c, allowed), (g, plan, error, damping, rounds) = problem, state
    tiny = torch.finfo(c.dtype).tiny
    scale_limit = tiny**-0.25  # largest scale of a column before the plan is recomputed
    for round_number in range(0, max_rounds, _BLOCK):
        mass, v = torch.bmm(plan, r), torch.ones_like(c)  # of the error, a small mass would be only rounding
        active = error.abs().amax(1, keepdim=True) > allowed
        if not active.any():
            break
        for _ in range(min(_BLOCK, max_rounds - round_number)):
            rounds = rounds + active
            v = torch.where(active, (c / mass.clamp_min(tiny)).clamp(1 / scale_limit, scale_limit), v)
            mass = torch.bmm(plan, r / (plan * v).sum(1)[..., None])
            active = active & ((v * mass - c).abs().amax(1, keepdim=True) > allowed)
        underflowed, g = active & (mass * scale_limit < c), g + v.log()
        if underflowed.any():  # underflow of classes far from every point
            g = torch.where(underflowed, _round_of_logarithms(problem, g), g)
        plan, error = problem.plan(g)
    return _Scaled(g, plan, error, damping, rounds)
