"""The optimiser: an entropic bound step with a proximal guard, for a batch of independent problems.

Minimises over row-stochastic matrices S (N x K, or a batch of them)

    R(S) = <S, cost> + sum_t f_t(S) + T <S, log S>

by linearising the terms f_t at the current S and solving for every row in closed form. With G the cost plus the
gradients of the terms, L = log S and rho_p >= 0 the proximal weight of row p,

    L_p+ = log_softmax((-G_p + rho_p L_p) / (T + rho_p)).

rho = 0 is the bound update of the papers, softmax(-G / T) (thesis eqs. 2.14 and 4.12, journal eq. 11). It lowers R if
the terms are concave. The Laplacian term of a kNN graph is not, so rho is increased until R falls by a fixed share of
the decrease predicted by the surrogate, and is decreased again when possible (relative smoothness: Bauschke, Bolte and
Teboulle 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.optimiser.guard import Guard, Status
from clustering.optimiser.objective import Objective, State, Term

Step = Literal["monotone", "published"]


class Descent(NamedTuple):
    """Result of `descend`. The leading dimensions (…) are those of the batch.

    Attributes:
        assignments: (…, N, K) S, rows sum to one.
        objective: (…) R(S), float64.
        gap: (…) stationarity gap at S, >= 0 and 0 only at stationary points, float64.
        iterations: (…) number of steps, including rejected ones, int64.
        status: (…) values of `Status`, int64.
        trace: (T, …) R at the start and after each step, NaN after a problem has stopped, float64; None unless
            requested.
    """

    assignments: Tensor
    objective: Tensor
    gap: Tensor
    iterations: Tensor
    status: Tensor
    trace: Tensor | None = None

    @property
    def converged(self) -> Tensor:
        """(…) bool. For the monotone step: stationary up to the tolerances or rounding. For the published step: the
        objective no longer changes, which is also the case in a cycle of two states."""
        return (self.status == Status.CONVERGED) | (self.status == Status.ROUNDING)


def descend(
    cost: Tensor,
    terms: Sequence[Term] = (),
    *,
    start: Tensor | None = None,
    clamp: tuple[Tensor, Tensor] | None = None,
    temperature: float = 1.0,
    step: Step = "monotone",
    max_iterations: int = 100,
    tolerance: float | None = 1e-6,
    gap_tolerance: float = 1e-5,
    trace: bool = False,
) -> Descent:
    """Minimise R over assignments, each problem of the batch independently.

    Problems stop individually and are then frozen, so that results do not depend on the rest of the batch. A step costs
    one product with the graph or prototypes of each term and one softmax.

    Args:
        cost: (…, N, K), lower is better, finite. Terms receive the leading dimensions flattened, (B, N, K).
        terms: terms of the objective besides the cost and the entropy.
        start: (…, N, K) initial assignments, floored at 1e-12; default softmax(-cost / T).
        clamp: (mask (…, N) bool, labels (…, N) int64), or (N,) for all problems: rows that stay exactly one-hot and do
            not count in the entropy, the predicted decrease and the gap.
        temperature: T > 0, weight of the entropy.
        step: "monotone" is guarded, so that R never rises by more than rounding; "published" is the unguarded step of
            the papers, which stops by the change of R only.
        max_iterations: maximum number of steps, including rejected ones.
        tolerance: stop when |R+ - R| <= tolerance |R|, or is within rounding, from the third step on, if also
        gap_tolerance: gap <= gap_tolerance |R|. A small change of R alone would stop too early when rho is large. With
            tolerance None, steps never stop by the change of R, and the published step takes all `max_iterations`.
        trace: whether to record R after every step.

    Raises:
        InputError: temperature is not above 0.
    """
    if not temperature > 0:
        raise InputError(f"temperature must be above 0, not {temperature}")
    batch, shape = cost.shape[:-2], cost.shape
    if clamp is not None:
        mask, labels = (part.expand(shape[:-1]).reshape(-1, 1, shape[-2]) for part in clamp)
        clamp = mask, labels
    problem = Objective.of(cost.reshape(-1, *shape[-2:]), terms, clamp, temperature)
    state = problem.at(problem.start(start))
    places, guarded = torch.arange(len(state.R), device=state.R.device), step == "monotone"
    guard = Guard(places >= 0, tolerance, gap_tolerance, guarded=guarded)
    work = _Work(problem, state, places, len(places), guard)
    result, objectives = _Result.empty(state), [state.R]

    for iteration in range(max_iterations + 1):
        problem, guard, state, last = work.problem, work.guard, work.now, iteration == max_iterations
        rho = None if guard.kappa is None else problem.rho(state, guard.kappa)
        L = problem.step(state, rho)
        predicted, rounding = problem.predicted(state, L, rho), problem.rounding(state)
        if last or guard.ended:
            # The predicted decrease of a pure step equals the gap.
            gap = -predicted if rho is None else problem.gap(state)
            guard.spare(gap, state.R, rounding)
            result.take(work, gap, iteration, everything=last)
            if work.left == 0:
                break
            if 2 * work.left <= len(guard.active):
                kept = guard.active.nonzero()[:, 0]
                work = work.select(kept)
                state, L, predicted, rounding = work.now, L[kept], predicted[kept], rounding[kept]
        work.now = work.problem.at(L)
        rejected = work.guard.judge(state.R, work.now.R, predicted, rounding)
        if rejected is not None:
            work.take_back(state, rejected)
        if trace:
            objectives.append(result.spread(work))

    return Descent(
        assignments=result.S.mT.reshape(shape),
        objective=result.R.reshape(batch),
        gap=result.gap.reshape(batch),
        iterations=result.iterations.reshape(batch),
        status=result.status.reshape(batch),
        trace=torch.stack(objectives).reshape(-1, *batch) if trace else None,
    )


@dataclass
class _Work:
    """The active problems. A stopped problem stays in the batch until it is removed, but its result is that of its last
    step."""

    problem: Objective
    now: State
    places: Tensor  # (b,) indices in the whole batch
    left: int  # number of active problems
    guard: Guard

    def take_back(self, before: State, rejected: Tensor) -> None:
        """Return to the state before the step for rejected problems."""
        if rejected.all():
            self.now = before
        else:
            self.now = State(
                *(
                    torch.where(rejected.view(-1, *[1] * (old.dim() - 1)), old, new)
                    for old, new in zip(before, self.now, strict=True)
                )
            )

    def select(self, problems: Tensor) -> "_Work":
        state = State(*(part[problems] for part in self.now))
        return _Work(
            self.problem.select(problems), state, self.places[problems], self.left, self.guard.select(problems)
        )


@dataclass
class _Result:
    """Results of all problems of the batch, collected as they stop."""

    S: Tensor
    R: Tensor
    gap: Tensor
    iterations: Tensor
    status: Tensor

    @classmethod
    def empty(cls, state: State) -> "_Result":
        counts = torch.zeros_like(state.R, dtype=torch.int64)
        return cls(
            torch.empty_like(state.S), torch.empty_like(state.R), torch.empty_like(state.R), counts, counts.clone()
        )

    def take(self, work: _Work, gap: Tensor, iterations: int, *, everything: bool) -> None:
        """Store the results of the problems that stop, or of all remaining ones if `everything`."""
        guard = work.guard
        stopped = (guard.active if everything else guard.status).nonzero()[:, 0]
        places = work.places[stopped]
        if len(stopped) == len(self.S):
            self.S = work.now.S  # without a copy, for which a single large problem may not have the memory
        else:
            self.S[places] = work.now.S[stopped]
        self.R[places] = work.now.R[stopped]
        self.gap[places] = gap[stopped].to(self.gap.dtype)
        self.iterations[places] = iterations
        self.status[places] = guard.status[stopped]
        guard.active[stopped] = False
        work.left -= len(stopped)

    def spread(self, work: _Work) -> Tensor:
        """The objectives of the active problems at their indices in the whole batch, NaN elsewhere."""
        objectives = torch.where(work.guard.active, work.now.R, torch.nan)
        if len(objectives) == len(self.R):
            return objectives
        return torch.full_like(self.R, torch.nan).index_copy_(0, work.places, objectives)
