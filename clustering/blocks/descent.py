"""`clustering.optimiser.descent` for one problem in blocks: each block takes the step on its rows, the sums decide for
all.

A step is three tasks a block: one gives the rows of S that arcs of other blocks lead to, one takes the step, and one
reports three numbers. The step after it is made in the same task, in the hope that this one is
accepted and falls as far as predicted; where the proximal weight comes out otherwise, it is made again.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from clustering.blocks.cluster import Kept
from clustering.blocks.graph import BlockGraph, HaloGraph
from clustering.optimiser.alternation import Sweeps
from clustering.optimiser.guard import Guard, Status
from clustering.optimiser.objective import Objective, State, allowance, inner
from clustering.optimiser.terms import CURVATURE

if TYPE_CHECKING:
    from distributed import Future


class Opened(NamedTuple):
    """A block before the first step: its rows of the problem, without the term, and where S begins."""

    problem: Objective
    L: Tensor


class Moved(NamedTuple):
    """A block at some S, and log S after the next step."""

    state: State
    L: Tensor


@dataclass(frozen=True)
class HaloLaplacian:
    """`clustering.optimiser.terms.Laplacian` of the rows of a block, those of its halo held where they are.

    Attributes:
        graph: W of own rows and halo; None where only the curvature is asked for.
        weight: c.
        boundaries: (K, b) of S, of each owner of the halo.
    """

    graph: HaloGraph | None
    weight: float
    boundaries: list[Tensor]

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        assert self.graph is not None
        whole = assignments.mT
        if self.boundaries:
            whole = torch.cat([whole, self.graph.halo(self.boundaries)[None]], dim=2)
        gradient = (self.graph.graph @ whole.mT)[:, : assignments.shape[1]].mul_(-self.weight)
        return 0.5 * inner(assignments.mT, gradient.mT), gradient

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_full((1, 1), CURVATURE * self.weight)

    def select(self, problems: Tensor) -> "HaloLaplacian":
        return self


class Found(NamedTuple):
    """What a descent found.

    Attributes:
        moved: of each block the task that gives its `Moved`.
        objective: (1,) R, float64.
    """

    moved: list["Future"]
    objective: Tensor


def descend_blocks(
    opened: list["Future"], graph: BlockGraph, slope: float, dtype: torch.dtype, sweeps: Sweeps
) -> Found:
    """Minimise R over the assignments, as `descend` does with the term of slope c, to which its arguments belong.

    Args:
        opened: of each block the task that gives its `Opened`.
        graph: W.
        slope: c; 0 for no term.
        dtype: of the assignments.
        sweeps: how.
    """
    step = _Steps(opened, graph, slope)
    limit = sweeps.max_iterations if slope else 0
    now, (R, size, predicted) = step.advance(opened, None)
    active, guarded = torch.ones_like(R, dtype=torch.bool), sweeps.step == "monotone"
    guard = Guard(active, sweeps.tolerance, sweeps.gap_tolerance, guarded=guarded)
    for iteration in range(limit + 1):
        rounding, last = allowance(size, dtype), iteration == limit
        if guarded and guard.status == Status.CONVERGED:
            guard.spare(-predicted if guard.kappa is None else step.gap(now), R, rounding)
        if last or guard.ended:
            break
        hoped = guard.hoped()
        new, (R_new, size_new, predicted_new) = step.advance(now, hoped)
        if guard.judge(R, R_new, predicted, rounding) is not None:
            if not guard.ended:
                now, (_, _, predicted) = step.again(now, guard.kappa)
            continue
        now, R, size, predicted = new, R_new, size_new, predicted_new
        if guard.kappa != hoped:
            now, (_, _, predicted) = step.again(now, guard.kappa)
    return Found(now, R)


@dataclass(frozen=True)
class _Steps:
    """The tasks of a descent, and the sums of what they report: R, its size, and the change that is predicted."""

    opened: list["Future"]
    graph: BlockGraph
    slope: float

    def advance(self, ahead: list["Future"], kappa: Tensor | None) -> tuple[list["Future"], Tensor]:
        """At the next S, from where a step with kappa is made."""
        halos = self.graph.halos(_assignments, ahead) if self.slope else [[] for _ in ahead]
        run = self.graph.cluster.run
        return _summed(*run(_advanced, self.opened, ahead, self.graph.parts, halos, self.slope, kappa))

    def again(self, moved: list["Future"], kappa: Tensor | None) -> tuple[list["Future"], Tensor]:
        """At the same S, from where a step with another kappa is made."""
        return _summed(*self.graph.cluster.run(_stepped, self.opened, moved, self.slope, kappa))

    def gap(self, moved: list["Future"]) -> Tensor:
        return torch.stack(self.graph.cluster.ask(_gap, self.opened, moved)).sum(dim=0)


def _summed(moved: list["Future"], reports: list[Tensor]) -> tuple[list["Future"], Tensor]:
    return moved, torch.stack(reports).sum(dim=0)


def opened(cost: Tensor, slope: float, begun: Tensor | None, temperature: float) -> Opened:
    """A block whose rows pay `cost` (1, K, n) and begin at `begun` (1, K, n), or at softmax(-cost / T)."""
    problem = Objective.of(cost.mT, [], None, temperature)
    if begun is None and slope:
        begun = torch.softmax(cost / -temperature, dim=1)
    return Opened(problem, problem.start(None if begun is None else begun.mT))


def _assignments(ahead: Opened | Moved, indices: Tensor) -> Tensor:
    return ahead.L[0][:, indices].exp()


def _advanced(
    opened: Opened,
    ahead: Opened | Moved,
    graph: HaloGraph,
    boundaries: list[Tensor],
    slope: float,
    kappa: Tensor | None,
) -> Kept:
    L = ahead.L
    terms = [HaloLaplacian(graph, slope, boundaries)] if slope else []
    return _next(opened.problem, replace(opened.problem, terms=terms).at(L), slope, kappa)


def _stepped(opened: Opened, moved: Moved, slope: float, kappa: Tensor | None) -> Kept:
    return _next(opened.problem, moved.state, slope, kappa)


def _next(problem: Objective, state: State, slope: float, kappa: Tensor | None) -> Kept:
    problem = replace(problem, terms=[HaloLaplacian(None, slope, [])])
    rho: Any = None if kappa is None else problem.rho(state, kappa)
    L = problem.step(state, rho)
    report = torch.stack([state.R, state.size.double(), problem.predicted(state, L, rho).double()])
    return Kept(Moved(state, L), report)


def _gap(opened: Opened, moved: Moved) -> Tensor:
    return opened.problem.gap(moved.state)
