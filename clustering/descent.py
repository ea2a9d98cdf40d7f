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
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from clustering.errors import InputError

Step = Literal["monotone", "published"]

SUFFICIENT_DECREASE = 0.1
"""Share of the predicted decrease that an accepted step reaches. Asking only for R+ <= R would accept 2-cycles."""

_KAPPA_MIN, _KAPPA_MAX = 2.0**-6, 2.0**40
_SMALL = 4096  # entries of a problem whose sums' rounding stays within the allowance in float32
_FLOOR = 1e-12  # of a warm start's probabilities: rows saturated earlier would hardly move again when rho > 0


class Term(Protocol):
    """A differentiable term f of the objective, over (B, N, K) assignments."""

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        """f (B,) and its gradient (B, N, K); together, because they share the expensive product."""
        ...

    def curvature(self, assignments: Tensor) -> Tensor:
        """Unit in which the proximal weight of each row is counted, broadcastable to (B, N); >= 0."""
        ...

    def select(self, problems: Tensor) -> "Term":
        """The term of some problems of the batch, given by their indices."""
        ...


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
        """(…) bool: stationary up to the tolerances or to rounding."""
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
        clamp: (mask (…, N) bool, labels (…, N) int64): rows kept exactly one-hot, left out of the entropy, of the
            predicted decrease and of the gap.
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
    problem = _Problem.of(cost.reshape(-1, *shape[-2:]), terms, clamp, temperature)
    work = _Work.begin(problem, start)
    result = _Result.like(work.now)
    guarded = step == "monotone"
    objectives = [work.now.R]

    for _ in range(max_iterations):
        problem, now = work.problem, work.now
        rho = problem.rho(now, work.kappa) if guarded else proximal or None
        L = problem.step(now, rho)
        predicted = problem.predicted(now, L, rho)
        rounding = problem.rounding(now)
        if guarded and work.settled.any():
            # Of a pure step, the predicted decrease is the gap.
            gap = -predicted if rho is None and temperature > 0 else problem.gap(now)
            work.settled &= gap <= gap_tolerance * now.R.abs() + rounding
        work.stop(work.settled, Status.CONVERGED)
        if not work.active.any():
            break
        new = problem.at(L)
        work.iterations += work.active
        accepted = work.active
        if guarded:
            accepted = work.active & (new.R <= now.R + SUFFICIENT_DECREASE * predicted + rounding)
            work.adapt(accepted, well=new.R <= now.R + predicted, hopeless=-predicted <= rounding)
        small = (new.R - now.R).abs() <= tolerance * new.R.abs() + rounding
        work.settled = accepted & small & (work.iterations > 2)
        work.now = _where(accepted, new, now)
        if trace:
            objectives.append(result.spread(work.now.R, work))
        if 2 * work.active.sum() <= len(work.active):
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


class _State(NamedTuple):
    """Where the problems stand. Classes come before points, (B, K, N): softmax over a strided axis is vectorised
    over the points, which for few classes is ten times faster than over the last axis."""

    L: Tensor  # log S
    S: Tensor
    G: Tensor  # gradient of the cost and the terms
    R: Tensor  # (B,) float64
    size: Tensor  # (B,) sum of the absolute parts of R: the unit of its rounding error


@dataclass(frozen=True)
class _Problem:
    """The objective of a batch, with classes before points."""

    cost: Tensor  # (B, K, N)
    terms: Sequence[Term]
    temperature: float
    smallest_rho: Tensor  # (B,); at temperature 0 the step divides by rho alone
    free: Tensor | None = None  # (B, 1, N), False in clamped rows
    one_hot: Tensor | None = None  # (B, K, N), of the clamped rows

    @classmethod
    def of(
        cls, cost: Tensor, terms: Sequence[Term], clamp: tuple[Tensor, Tensor] | None, temperature: float
    ) -> "_Problem":
        smallest = 1e-9 * (cost.amax((1, 2)) - cost.amin((1, 2))).clamp_min(1e-30)
        plain = cls(cost.mT.contiguous(), terms, temperature, smallest * (temperature == 0))
        if clamp is None:
            return plain
        mask, labels = (part.reshape(len(cost), 1, -1) for part in clamp)
        classes = torch.arange(cost.shape[-1], device=cost.device)[:, None]
        return replace(plain, free=~mask, one_hot=((labels == classes) & mask).to(cost.dtype))

    def select(self, problems: Tensor) -> "_Problem":
        parts = (None if part is None else part[problems] for part in (self.smallest_rho, self.free, self.one_hot))
        terms = [term.select(problems) for term in self.terms]
        return _Problem(self.cost[problems], terms, self.temperature, *parts)  # type: ignore[arg-type]

    def start(self, start: Tensor | None) -> Tensor:
        if start is None:
            return torch.log_softmax(-self.cost / (self.temperature or 1.0), dim=1)
        return torch.log_softmax(start.reshape(self.cost.mT.shape).mT.clamp_min(_FLOOR).log(), dim=1)

    def at(self, L: Tensor) -> _State:
        """The state of log-assignments L: one product per term."""
        S = L.exp()
        if self.free is not None and self.one_hot is not None:
            L = L * self.free
            S = torch.where(self.free, S, self.one_hot)
        entropy = self.temperature * inner(S, L)
        linear = inner(S, self.cost)
        G, R, size = self.cost, linear + entropy, linear.abs() + entropy.abs() + 1.0
        for term in self.terms:
            value, gradient = term.value_and_gradient(S.mT)
            G, R, size = G + gradient.mT, R + value, size + value.abs()
        return _State(L, S, G, R, size)

    def rho(self, now: _State, kappa: Tensor) -> Tensor | None:
        """(B, 1, N) or (B, 1, 1) proximal weights; None where all are 0."""
        if self.temperature > 0 and not (self.terms and kappa.any()):
            return None
        unit = sum((term.curvature(now.S.mT) for term in self.terms), now.S.new_zeros(1, 1))
        rho = kappa[:, None].to(now.S.dtype) * unit
        return torch.maximum(rho, self.smallest_rho[:, None])[:, None]

    def step(self, now: _State, rho: Tensor | float | None) -> Tensor:
        """Log-assignments after one step; `rho` None is the pure step."""
        if rho is None:
            return torch.log_softmax(now.G / -self.temperature, dim=1)
        return torch.log_softmax((rho * now.L - now.G) / (self.temperature + rho), dim=1)

    def predicted(self, now: _State, L: Tensor, rho: Tensor | float | None) -> Tensor:
        """(B,) change of the surrogate by the step to L, -sum_p (T + rho_p) KL(s_p || s_p+) <= 0."""
        fall = now.L - L if self.free is None else (now.L - L) * self.free
        if isinstance(rho, Tensor):
            return -inner(now.S, (self.temperature + rho) * fall).clamp_min(0)
        return -(self.temperature + (rho or 0.0)) * inner(now.S, fall).clamp_min(0)

    def gap(self, now: _State) -> Tensor:
        """(B,) <G, S> + T <S, L> + T sum_p logsumexp(-G_p / T), at T = 0 <G, S> - sum_p min_k G_pk."""
        T = self.temperature
        best = -T * torch.logsumexp(-now.G / T, dim=1, keepdim=True) if T > 0 else now.G.amin(1, keepdim=True)
        excess = (now.S * (now.G + T * now.L)).sum(1, keepdim=True) - best
        return _total(excess if self.free is None else excess * self.free).clamp_min(0)

    def rounding(self, now: _State) -> Tensor:
        """(B,) how much rounding can move R; sums are float64, so it is that of the entries."""
        precision = torch.finfo(now.S.dtype).eps
        return (64 if now.S.dtype == torch.float64 else 8) * precision * now.size


@dataclass
class _Work:
    """The problems that are being worked on. One that has stopped is frozen, and left behind with others."""

    problem: _Problem
    now: _State
    places: Tensor  # (b,) where they stand in the whole batch
    active: Tensor
    settled: Tensor  # the last step changed little
    kappa: Tensor  # float64, proximal weight in units of the terms' curvature
    iterations: Tensor
    status: Tensor

    @classmethod
    def begin(cls, problem: _Problem, start: Tensor | None) -> "_Work":
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
        now = _State(*(part[problems] for part in self.now))
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
    def like(cls, now: _State) -> "_Result":
        count = torch.zeros_like(now.R, dtype=torch.int64)
        return cls(now.L.clone(), now.S.clone(), now.R.clone(), torch.zeros_like(now.R), count, count.clone())

    def take(self, work: _Work) -> None:
        now, places = work.now, work.places
        self.L[places], self.S[places], self.R[places] = now.L, now.S, now.R
        self.gap[places] = work.problem.gap(now)
        self.iterations[places], self.status[places] = work.iterations, work.status

    def spread(self, values: Tensor, work: _Work) -> Tensor:
        """Values of the active problems at their places in the whole batch, NaN elsewhere."""
        return torch.full_like(self.R, torch.nan).index_copy_(0, work.places[work.active], values[work.active])


def _total(products: Tensor) -> Tensor:
    """(B,) sum over classes and points, in float64."""
    return products.flatten(1).sum(1, dtype=torch.float64)


def inner(a: Tensor, b: Tensor) -> Tensor:
    """(B,) inner products <a, b> of (B, K, N) tensors, in float64; small ones are summed in their own precision, which
    is three times faster."""
    if a.shape[1] * a.shape[2] <= _SMALL:
        small: Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
        return small.double()
    return _total(a * b)


def _where(chosen: Tensor, new: _State, old: _State) -> _State:
    """The new state for the chosen problems, the old one for the others."""
    if bool(chosen.all()):
        return new
    return _State(*(torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True)))
