"""The one optimiser: an entropic bound step with a proximal guard, for a batch of independent problems.

Minimises over row-stochastic matrices S (N x K, or a batch of them)

    R(S) = <S, cost> + sum_t f_t(S) + T <S, log S>

by linearising the terms f_t at the current S and solving for every row in closed form. With G the cost plus the
terms' gradients, L = log S and rho_p >= 0 the proximal weight of row p,

    L_p+ = log_softmax((-G_p + rho_p L_p) / (T + rho_p)).

rho = 0 is the bound update of the papers, softmax(-G / T) (thesis eqs. 2.14 and 4.12, journal eq. 11). It lowers R
where the terms are concave; a kNN graph's Laplacian term is not, so rho grows until R falls by a fixed share of what
the surrogate promised, and shrinks again when it can (relative smoothness: Bauschke, Bolte and Teboulle 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clustering.errors import InputError
from clustering.objective import Objective, State, Term

Step = Literal["monotone", "published"]

SUFFICIENT_DECREASE = 0.1
"""Share of the predicted decrease that an accepted step reaches. Asking only for R+ <= R would accept 2-cycles."""

_KAPPA_MIN, _KAPPA_MAX = 2.0**-6, 2.0**40


class Status(IntEnum):
    """Why a problem stopped."""

    MAX_ITERATIONS = 0
    CONVERGED = 1
    ROUNDING = 2
    """No step lowers R by more than rounding: converged as far as the precision goes."""
    STEP_FAILED = 3


class Descent(NamedTuple):
    """What `descend` found and how. The leading dimensions (…) are the batch's.

    Attributes:
        assignments: (…, N, K) S, rows sum to one.
        log_assignments: (…, N, K) log S as computed, 0 in clamped rows.
        objective: (…) R(S), float64.
        gap: (…) stationarity gap at S, >= 0 and 0 only at stationary points, float64.
        iterations: (…) steps tried, rejected ones included, int64.
        status: (…) values of `Status`, int64.
        trace: (T, …) R at the start and after each step, NaN after a problem has stopped, float64; None unless
            asked for.
    """

    assignments: Tensor
    log_assignments: Tensor
    objective: Tensor
    gap: Tensor
    iterations: Tensor
    status: Tensor
    trace: Tensor | None = None

    @property
    def converged(self) -> Tensor:
        """(…) bool: of the monotone step, stationary up to the tolerances or to rounding; of the published step, the
        objective no longer changed, as it does not in a cycle of two states either."""
        return (self.status == Status.CONVERGED) | (self.status == Status.ROUNDING)


def descend(
    cost: Tensor,
    terms: Sequence[Term] = (),
    *,
    start: Tensor | None = None,
    clamp: tuple[Tensor, Tensor] | None = None,
    temperature: float = 1.0,
    step: Step = "monotone",
    proximal: float = 0.0,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    gap_tolerance: float = 1e-5,
    trace: bool = False,
) -> Descent:
    """Minimise R over assignments, every problem of the batch on its own.

    Problems stop one by one, and one that has stopped is frozen: its result does not depend on the batch around it.
    A step costs one product with each term's graph or prototypes and one softmax.

    Args:
        cost: (…, N, K), smaller is better, finite. The terms see the leading dimensions flattened, (B, N, K).
        terms: terms of the objective beside the cost and the entropy.
        start: (…, N, K) assignments to start from, floored once at 1e-12; default softmax(-cost / T), at T = 0
            softmax(-cost).
        clamp: (mask (…, N) bool, labels (…, N) int64), or (N,) for all problems alike: rows kept exactly one-hot, left
            out of the entropy, of the predicted decrease and of the gap.
        temperature: T >= 0, weight of the entropy.
        step: "monotone" is guarded, R never rises by more than rounding; "published" is the papers' unguarded step,
            which stops by the change of R only.
        proximal: rho of the published step (0 for SLK and LaplacianShot, the constant L with T = 0 for fair
            clustering). The monotone step finds its own.
        max_iterations: steps at most, rejected ones included.
        tolerance: stop when |R+ - R| <= tolerance |R|, from the third step on, and
        gap_tolerance: gap <= gap_tolerance |R|. A small change alone stops too early when rho is large.
        trace: keep R of every step.

    Raises:
        InputError: temperature < 0, or a published step with T + proximal = 0.
    """
    if temperature < 0 or (step == "published" and temperature + proximal == 0):
        raise InputError(
            f"temperature={temperature} with step={step}: it must be >= 0, and the published step divides by "
            "temperature + proximal"
        )
    batch, shape = cost.shape[:-2], cost.shape
    if clamp is not None:
        mask, labels = (part.expand(shape[:-1]).reshape(-1, 1, shape[-2]) for part in clamp)
        clamp = mask, labels
    problem = Objective.of(cost.reshape(-1, *shape[-2:]), terms, clamp, temperature)
    work = _Work.begin(problem, start)
    result = _Result.empty(work.now)
    guarded = step == "monotone"
    objectives = [work.now.R]

    for iteration in range(max_iterations + 1):
        problem, now = work.problem, work.now
        rho = problem.rho(now, work.kappa) if guarded else proximal or None
        L = problem.step(now, rho)
        predicted = problem.predicted(now, L, rho)
        rounding = problem.rounding(now)
        if guarded and work.settled.any():
            # Of a pure step, the predicted decrease is the gap.
            gap = -predicted if rho is None and temperature > 0 else problem.gap(now)
            work.settled &= gap <= torch.maximum(gap_tolerance * now.R.abs(), rounding / 8)
        work.stop(work.settled, Status.CONVERGED)
        left = int(work.active.sum())
        if left == 0 or iteration == max_iterations:
            break
        new = problem.at(L)
        work.iterations += work.active
        accepted = work.active
        if guarded:
            accepted = work.active & (new.R <= now.R + SUFFICIENT_DECREASE * predicted + rounding)
            work.adapt(accepted, well=new.R <= now.R + predicted, hopeless=-predicted <= rounding)
        small = (new.R - now.R).abs() <= torch.maximum(tolerance * new.R.abs(), rounding / 8)
        work.settled = accepted & small & (work.iterations > 2)
        work.now = _where(accepted, new, now)
        if trace:
            objectives.append(result.spread(work.now.R, work))
        if 2 * left <= len(work.active):
            result.take(work)
            work = work.select(work.active.nonzero()[:, 0])

    result.take(work)
    return Descent(
        assignments=result.S.mT.reshape(shape),
        log_assignments=result.L.mT.reshape(shape),
        objective=result.R.reshape(batch),
        gap=result.gap.reshape(batch),
        iterations=result.iterations.reshape(batch),
        status=result.status.reshape(batch),
        trace=torch.stack(objectives).reshape(-1, *batch) if trace else None,
    )


@dataclass
class _Work:
    """The problems that are being worked on. One that has stopped is frozen, and left behind with others."""

    problem: Objective
    now: State
    places: Tensor  # (b,) where they stand in the whole batch
    active: Tensor
    settled: Tensor  # the last step changed little
    kappa: Tensor  # float64, proximal weight in units of the terms' curvature
    iterations: Tensor
    status: Tensor

    @classmethod
    def begin(cls, problem: Objective, start: Tensor | None) -> "_Work":
        now = problem.at(problem.start(start))
        zeros = torch.zeros_like(now.R, dtype=torch.int64)
        kappa = torch.full_like(now.R, 0.0 if problem.temperature > 0 else 2.0)
        places = torch.arange(len(now.R), device=now.R.device)
        return cls(problem, now, places, zeros == 0, zeros > 0, kappa, zeros.clone(), zeros + Status.MAX_ITERATIONS)

    def adapt(self, accepted: Tensor, *, well: Tensor, hopeless: Tensor) -> None:
        """Halve kappa (not below 2^-6) where a step did as well as predicted, double it where one was rejected."""
        rejected = self.active & ~accepted
        lower = torch.where(self.kappa > 0, (self.kappa / 2).clamp_min(_KAPPA_MIN), self.kappa)
        higher = torch.where(self.kappa > 0, 2 * self.kappa, 1.0)
        self.kappa = torch.where(rejected, higher, torch.where(accepted & well, lower, self.kappa))
        self.stop(rejected & hopeless, Status.ROUNDING)
        self.stop(rejected & (self.kappa > _KAPPA_MAX), Status.STEP_FAILED)

    def stop(self, which: Tensor, why: Status) -> None:
        self.status = torch.where(which & self.active, int(why), self.status)
        self.active = self.active & ~which

    def select(self, problems: Tensor) -> "_Work":
        now = State(*(part[problems] for part in self.now))
        rest = (self.places, self.active, self.settled, self.kappa, self.iterations, self.status)
        return _Work(self.problem.select(problems), now, *(part[problems] for part in rest))


@dataclass
class _Result:
    """Where all problems of the batch ended, collected as they are left behind."""

    L: Tensor
    S: Tensor
    R: Tensor
    gap: Tensor
    iterations: Tensor
    status: Tensor

    @classmethod
    def empty(cls, now: State) -> "_Result":
        counts = torch.empty_like(now.R, dtype=torch.int64)
        parts = (torch.empty_like(part) for part in (now.L, now.S, now.R, now.R, counts, counts))
        return cls(*parts)

    def take(self, work: _Work) -> None:
        now, places = work.now, work.places
        self.L[places], self.S[places], self.R[places] = now.L, now.S, now.R
        self.gap[places] = work.problem.gap(now)
        self.iterations[places], self.status[places] = work.iterations, work.status

    def spread(self, values: Tensor, work: _Work) -> Tensor:
        """Values of the active problems at their places in the whole batch, NaN elsewhere."""
        return torch.full_like(self.R, torch.nan).index_copy_(0, work.places[work.active], values[work.active])


def _where(chosen: Tensor, new: State, old: State) -> State:
    """The new state for the chosen problems, the old one for the others."""
    if bool(chosen.all()):
        return new
    return State(*(torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True)))
