"""Alternate prototypes and assignments: the outer loop of K-means, K-modes and the SLK methods.

S <- argmin_S R(S, M)         by `clustering.optimiser.descent`
M <- prototypes of S          by `clustering.optimiser.prototypes`
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.descent import Descent, Step, descend
from clustering.optimiser.objective import Term
from clustering.optimiser.prototypes import Prototypes

Members = Literal["hard", "soft"]
"""Weights of points in the prototypes: "hard" gives weight one in the class of the largest assignment, "soft" uses the
assignments."""

Empty = Literal["rollback", "reseed", "keep"]
"""What to do if a class becomes empty: "rollback" undoes the step and stops the problem (public code), "reseed" moves
the prototype to the farthest point, "keep" keeps the prototype."""

Clamp = tuple[Tensor, Tensor]

REVIVALS = 10
"""Maximum number of times that the empty classes of a problem are reseeded."""

_CROWD = 0.75  # finished problems are removed from the batch when the share of active ones falls below this
_UNMOVED = 1e-6  # prototypes whose coefficients or coordinates change by less in sum count as unmoved


class Outcome(IntEnum):
    """Why a problem stopped."""

    MAX_ITERATIONS = 0
    CONVERGED = 1
    """The prototypes or the objective no longer change."""
    EMPTIED = 2
    """A class became empty, so the step was undone."""


class Alternation(NamedTuple):
    """Result of `alternate`.

    Attributes:
        assignments: (B, N, K) S, rows sum to one.
        coefficients: (B, K, N) prototypes over the points, or the rows in which `prototypes` represents them, from
            which the assignments were computed.
        objective: (B,) R(S, M) of the last assignment step, float64.
        iterations: (B,) number of outer steps, int64.
        outcome: (B,) values of `Outcome`, int64.
        reseeded: (B,) number of times an empty class was reseeded, int64.
        trace: (T, B) R(S, M) after each assignment step, NaN after a problem has stopped, float64.
        movements: (T, B, K) Euclidean distance between the representations of each prototype before and after each
            update, NaN after a problem has stopped; None unless requested.
    """

    assignments: Tensor
    coefficients: Tensor
    objective: Tensor
    iterations: Tensor
    outcome: Tensor
    reseeded: Tensor
    trace: Tensor
    movements: Tensor | None = None

    @property
    def labels(self) -> Tensor:
        """(B, N) argmax S, ties to the lowest class."""
        return self.assignments.mT.max(dim=1).indices


@dataclass(frozen=True)
class Sweeps:
    """Settings of the assignment steps.

    Attributes:
        step: see `descend`.
        max_iterations: maximum number of sweeps.
        tolerance: relative change of R below which sweeps stop, if also
        gap_tolerance: the gap is at most this share of |R|; see `descend`.
        warm: whether to start from the previous assignments instead of softmax(-cost). R(S, M) then falls from step to
            step wherever both half-steps lower it, which journal Algorithm 1 assumes but does not ensure.
        double: whether to use double precision, which the terms must then have too; needed for tolerances below the
            rounding error of single precision.
    """

    step: Step = "monotone"
    max_iterations: int = 100
    tolerance: float = 1e-6
    gap_tolerance: float = 1e-5
    warm: bool = True
    double: bool = False


def alternate(
    prototypes: Prototypes,
    start: Tensor,
    terms: Sequence[Term] = (),
    *,
    extra: Tensor | None = None,
    clamp: Clamp | None = None,
    hint: Clamp | None = None,
    valid: Tensor | None = None,
    temperature: float = 1.0,
    members: Members = "soft",
    empty: Empty = "rollback",
    sweeps: Sweeps = Sweeps(),
    max_iterations: int = 100,
    tolerance: float = 1e-6,
    movements: bool = False,
) -> Alternation:
    """Minimise R(S, M) = <S, cost(M)> + sum_t f_t(S) + T <S, log S> by alternating assignments and prototypes.

    R falls from step to step with soft members, warm sweeps of the monotone step, and prototypes that minimise or lower
    <S, cost(M)> (means, mean-shift modes). With hard members no objective is known to fall, except that of K-means and
    K-modes if there are no terms.

    Problems stop individually, and the result of one does not depend on the rest of the batch.

    Args:
        prototypes: rule that computes prototypes from assignments.
        start: (B, K, N) coefficients of the initial prototypes, or (B, K, *) as `prototypes` represents them.
        terms: terms of the objective besides the cost and the entropy. Without terms, S = softmax(-cost / T).
        extra: (B, K, N) part of the cost that does not depend on the prototypes.
        clamp: (mask (B, N), labels (B, N)) of rows that stay one-hot, see `descend`.
        hint: like `clamp`, for rows that are one-hot only at the start of each cold assignment step.
        valid: (B, N) bool, False for padding, which must be clamped and has weight 0.
        temperature: T > 0, weight of the entropy.
        members: weights of points in the prototypes.
        empty: what to do with an empty class. R may rise when one is reseeded.
        sweeps: settings of the assignment steps.
        max_iterations: maximum number of assignment steps.
        tolerance: stop when |R+ - R| <= tolerance |R|, from the third step on, or when the prototypes no longer move.
        movements: whether to record the movements of the prototypes.
    """
    places = torch.arange(len(start), device=start.device)
    count, none = torch.zeros_like(places), torch.zeros_like(places, dtype=torch.bool)
    objective = torch.full_like(places, torch.inf, dtype=torch.float64)
    state = places, ~none, start, start, objective, count, count, count, count, none
    work = _Work(prototypes, terms, clamp, hint, valid, extra, *state)
    whole: _Work | None = None
    trace, moved = [], []
    for iteration in range(max_iterations):
        cost = work.cost().to(torch.float64 if sweeps.double else start.dtype)
        if iteration == 0:
            initial = work.begun(cost, temperature)
            work.assignments = torch.softmax(cost / -temperature, dim=1)
        elif sweeps.warm and terms:
            initial = work.assignments
            if work.revived.any():
                initial = torch.where(work.revived[:, None, None], work.begun(cost, temperature), initial)
        else:
            initial = work.begun(cost, temperature)
        before = work.assignments
        descent = descend(
            cost.mT,
            work.terms,
            start=initial.mT if terms else None,
            clamp=work.clamp,
            temperature=temperature,
            step=sweeps.step,
            max_iterations=sweeps.max_iterations if terms else 0,
            tolerance=sweeps.tolerance,
            gap_tolerance=sweeps.gap_tolerance,
        )
        weights = work.weights(descent.assignments.mT.to(start.dtype), members)
        emptied = weights.amax(dim=2) == 0 if empty == "rollback" else ~work.occupied(descent.assignments.mT)
        if emptied.any():
            # Any finite cost works for these classes, as long as points do not leave their class for it.
            weights = torch.where(emptied[:, :, None], weights.amax(dim=1, keepdim=True), weights)
        new = work.prototypes.update(
            work.coefficients, weights, partial(work.logits, cost, descent, temperature, start.dtype)
        )
        any_empty = emptied.any(dim=1)
        work.revived = any_empty & (work.revivals < REVIVALS) & (empty == "reseed")
        if emptied.any():
            new = torch.where(emptied[:, :, None], work.coefficients, new)
            if work.revived.any():
                begins = emptied & work.revived[:, None] & work.active[:, None]
                new = torch.where(begins[:, :, None], work.farthest(cost, begins).to(new.dtype), new)
                work.reseeded = work.reseeded + begins.sum(dim=1)
                work.revivals = work.revivals + work.revived
        stay, fixed = settled(work.coefficients, new, work.objective, descent.objective, tolerance)
        stopped = any_empty & (empty == "rollback")
        work.step(descent, before, taken=~stopped)
        trace.append(work.spread(work.objective, len(start)))
        if movements:
            moved.append(work.spread((new - work.coefficients).norm(dim=2), len(start)))
        work.stop(stopped, Outcome.EMPTIED)
        work.stop((stay | (fixed & (work.iterations > 2))) & ~work.revived, Outcome.CONVERGED)
        left = int(work.active.sum())
        if left == 0 or iteration == max_iterations - 1:
            break
        work.coefficients = torch.where(work.active[:, None, None], new, work.coefficients)
        if left <= _CROWD * len(work.active):
            whole = work if whole is None else whole.with_results(work)
            work = work.select(work.active.nonzero()[:, 0])
    result = work if whole is None else whole.with_results(work)
    return Alternation(
        result.assignments.to(start.dtype).mT,  # sweeps may use double precision
        result.coefficients,
        result.objective,
        result.iterations,
        result.outcome,
        result.reseeded,
        torch.stack(trace),
        torch.stack(moved) if movements else None,
    )


def settled(old: Tensor, new: Tensor, before: Tensor, objective: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """(B,) whether the prototypes (B, K, *) have stopped moving, and whether R (B,) has stopped changing, relative to
    its size."""
    stay = ((new - old).abs().sum(dim=2) <= _UNMOVED * new.abs().sum(dim=2)).all(dim=1)
    return stay, (objective - before).abs() <= tolerance * objective.abs()


@dataclass
class _Work:
    """The active problems of the batch; a stopped problem is frozen and later removed along with others."""

    prototypes: Prototypes
    terms: Sequence[Term]
    clamp: Clamp | None
    hint: Clamp | None
    valid: Tensor | None
    extra: Tensor | None
    places: Tensor  # (b,) indices in the whole batch
    active: Tensor
    coefficients: Tensor  # (b, K, N)
    assignments: Tensor  # (b, K, N)
    objective: Tensor  # (b,) float64
    iterations: Tensor
    outcome: Tensor
    reseeded: Tensor
    revivals: Tensor  # (b,) int64, number of steps in which empty classes were reseeded
    revived: Tensor  # (b,) bool, whether classes were reseeded in the last step

    def cost(self) -> Tensor:
        cost = self.prototypes.cost(self.coefficients)
        cost = cost if self.extra is None else cost.add_(self.extra)
        return cost if self.valid is None else cost.mul_(self.valid[:, None])

    def begun(self, cost: Tensor, temperature: float) -> Tensor:
        """(b, K, N) initial assignments of a cold assignment step."""
        initial = torch.softmax(cost / -temperature, dim=1)
        if self.hint is None:
            return initial
        mask, labels = self.hint
        return torch.where(mask[:, None], self._one_hot(labels).to(initial.dtype), initial)

    def weights(self, assignments: Tensor, members: Members) -> Tensor:
        """(b, K, N) weights of points in the prototypes; 0 for padding."""
        if members == "hard":
            assignments = self._one_hot(assignments.max(dim=1).indices).to(assignments.dtype)
        return assignments if self.valid is None else assignments * self.valid[:, None]

    def occupied(self, assignments: Tensor) -> Tensor:
        """(b, K) bool, whether a class is the argmax of some point other than padding."""
        labels = assignments.max(dim=1).indices
        real = torch.ones_like(labels) if self.valid is None else self.valid.long()
        return labels.new_zeros(assignments.shape[:2]).scatter_add_(1, labels, real) > 0

    def logits(self, cost: Tensor, descent: Descent, temperature: float, dtype: torch.dtype) -> Tensor:
        for term in self.terms:
            cost = cost + term.value_and_gradient(descent.assignments)[1].mT
        return (cost / -temperature).to(dtype)

    def farthest(self, cost: Tensor, empty: Tensor) -> Tensor:
        """New prototypes for the empty classes (b, K), at the points whose lowest cost among the other classes is
        highest.

        Each empty class gets a different point; ties go to the lowest index.
        """
        pay = cost.masked_fill(empty[:, :, None], torch.inf).amin(dim=1)
        if self.clamp is not None:
            pay = pay.masked_fill(self.clamp[0], -torch.inf)
        order = (empty.cumsum(dim=1) - 1).clamp_min(0)
        points = []
        for _ in range(int(empty.sum(dim=1).amax())):
            points.append(pay.max(dim=1, keepdim=True).indices)
            pay = pay.scatter(1, points[-1], -torch.inf)
        return self.prototypes.at(torch.cat(points, dim=1).gather(1, order))

    def step(self, descent: Descent, before: Tensor, taken: Tensor) -> None:
        """Take the new assignments, or keep the previous ones; frozen problems keep theirs in any case."""
        if (taken & self.active).all():
            self.assignments = descent.assignments.mT
        else:
            new = torch.where(taken[:, None, None], descent.assignments.mT, before)
            self.assignments = torch.where(self.active[:, None, None], new, self.assignments)
        self.objective = torch.where(self.active, descent.objective, self.objective)
        self.iterations = self.iterations + self.active

    def stop(self, chosen: Tensor, outcome: Outcome) -> None:
        self.outcome = torch.where(chosen & self.active, int(outcome), self.outcome)
        self.active = self.active & ~chosen

    def select(self, problems: Tensor) -> "_Work":
        tensors = {name: value[problems] for name, value in vars(self).items() if isinstance(value, Tensor)}
        clamp, hint = (
            None if part is None else (part[0][problems], part[1][problems]) for part in (self.clamp, self.hint)
        )
        terms = [term.select(problems) for term in self.terms]
        return replace(
            self, prototypes=self.prototypes.select(problems), terms=terms, clamp=clamp, hint=hint, **tensors
        )

    def with_results(self, part: "_Work") -> "_Work":
        """The same problems with the results of a part of them."""
        for name in ("assignments", "coefficients", "objective", "iterations", "outcome", "reseeded"):
            getattr(self, name)[part.places] = getattr(part, name)
        return self

    def spread(self, values: Tensor, problems: int) -> Tensor:
        """The values (b, …) of the active problems at their indices in the whole batch, NaN elsewhere."""
        missing = values.new_full((problems, *values.shape[1:]), torch.nan)
        return missing.index_copy_(0, self.places[self.active], values[self.active])

    def _one_hot(self, labels: Tensor) -> Tensor:
        classes = torch.arange(self.coefficients.shape[1], device=labels.device)
        return labels[:, None] == classes[:, None]
