"""`clustering.optimiser.descent` for one problem in blocks: each block computes the step for its rows, and sums over
the blocks decide whether the step is accepted.

A step takes three tasks per block: one returns the rows of S to which arcs of other blocks lead, one computes the step,
and one reports three numbers. The second task also computes the next step, assuming that the current step is accepted
and decreases R as predicted. If the proximal weight then differs from the assumed one, the next step is recomputed.
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
    """A block before the first step: its rows of the problem, without the graph term, and log S at the start."""

    problem: Objective
    L: Tensor


class Moved(NamedTuple):
    """A block after a step: the state at S, and log S after the next step."""

    state: State
    L: Tensor


@dataclass(frozen=True)
class HaloLaplacian:
    """`clustering.optimiser.terms.Laplacian` for the rows of a block, with fixed assignments of the halo.

    Attributes:
        graph: W of the rows of the block and its halo; None if only the curvature is needed.
        weight: c.
        boundaries: (K, b) assignments at the boundary of each owner of halo rows.
    """

    graph: HaloGraph | None
    weight: float
    boundaries: list[Tensor]

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        assert self.graph is not None
        with_halo = assignments.mT
        if self.boundaries:
            with_halo = torch.cat([with_halo, self.graph.halo(self.boundaries)[None]], dim=2)
        gradient = (self.graph.graph @ with_halo.mT)[:, : assignments.shape[1]].mul_(-self.weight)
        return 0.5 * inner(assignments.mT, gradient.mT), gradient

    def curvature(self, assignments: Tensor) -> Tensor:
        return assignments.new_full((1, 1), CURVATURE * self.weight)

    def select(self, problems: Tensor) -> "HaloLaplacian":
        return self


class BlockDescent(NamedTuple):
    """Result of `descend_blocks`.

    Attributes:
        moved: for each block, the task that returns its `Moved`.
        objective: (1,) R, float64.
    """

    moved: list["Future"]
    objective: Tensor


def descend_blocks(
    opened: list["Future"], graph: BlockGraph, slope: float, dtype: torch.dtype, sweeps: Sweeps
) -> BlockDescent:
    """Minimise R over the assignments, like `descend` with a Laplacian term of weight c.

    Args:
        opened: for each block, the task that returns its `Opened`.
        graph: W.
        slope: c; 0 for no graph term.
        dtype: type of the assignments.
        sweeps: settings of the assignment steps.
    """
    step = _Steps(opened, graph, slope)
    limit = sweeps.max_iterations if slope else 0
    state, (R, size, predicted) = step.advance(opened, None)
    active, guarded = torch.ones_like(R, dtype=torch.bool), sweeps.step == "monotone"
    guard = Guard(active, sweeps.tolerance, sweeps.gap_tolerance, guarded=guarded)
    for iteration in range(limit + 1):
        rounding, last = allowance(size, dtype), iteration == limit
        if guarded and guard.status == Status.CONVERGED:
            guard.spare(-predicted if guard.kappa is None else step.gap(state), R, rounding)
        if last or guard.ended:
            break
        hoped = guard.hoped()
        new, (R_new, size_new, predicted_new) = step.advance(state, hoped)
        if guard.judge(R, R_new, predicted, rounding) is not None:
            if not guard.ended:
                state, (_, _, predicted) = step.again(state, guard.kappa)
            continue
        state, R, size, predicted = new, R_new, size_new, predicted_new
        if guard.kappa != hoped:
            state, (_, _, predicted) = step.again(state, guard.kappa)
    return BlockDescent(state, R)


@dataclass(frozen=True)
class _Steps:
    """The tasks of a descent, and the sums of their reports: R, the sum of its absolute summands, and the predicted
    change."""

    opened: list["Future"]
    graph: BlockGraph
    slope: float

    def advance(self, ahead: list["Future"], kappa: Tensor | None) -> tuple[list["Future"], Tensor]:
        """Go to the next S, and compute the step after it with proximal weight kappa."""
        halos = self.graph.halos(_assignments, ahead) if self.slope else [[] for _ in ahead]
        run = self.graph.cluster.run
        return _summed(*run(_advanced, self.opened, ahead, self.graph.parts, halos, self.slope, kappa))

    def again(self, moved: list["Future"], kappa: Tensor | None) -> tuple[list["Future"], Tensor]:
        """Stay at the current S, and recompute the next step with another kappa."""
        return _summed(*self.graph.cluster.run(_stepped, self.opened, moved, self.slope, kappa))

    def gap(self, moved: list["Future"]) -> Tensor:
        return torch.stack(self.graph.cluster.ask(_gap, self.opened, moved)).sum(dim=0)


def _summed(moved: list["Future"], reports: list[Tensor]) -> tuple[list["Future"], Tensor]:
    return moved, torch.stack(reports).sum(dim=0)


def opened(cost: Tensor, slope: float, initial: Tensor | None, temperature: float) -> Opened:
    """A block with costs `cost` (1, K, n) and initial assignments `initial` (1, K, n), default softmax(-cost / T)."""
    problem = Objective.of(cost.mT, [], None, temperature)
    if initial is None and slope:
        initial = torch.softmax(cost / -temperature, dim=1)
    return Opened(problem, problem.start(None if initial is None else initial.mT))


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
