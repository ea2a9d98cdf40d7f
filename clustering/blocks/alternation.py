"""`clustering.optimiser.alternation` for one problem in blocks: alternates prototypes and assignments."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clustering.blocks.cluster import Kept
from clustering.blocks.descent import Moved, Opened, descend_blocks, opened
from clustering.blocks.graph import BlockGraph
from clustering.blocks.prototypes import Best, BlockRule
from clustering.optimiser.alternation import REVIVALS, Outcome, settled
from clustering.optimiser.centres import Rows
from clustering.optimiser.trials import Course
from clustering.starts import indicators

if TYPE_CHECKING:
    from distributed import Future


@dataclass(frozen=True)
class BlockTrial:
    """Result of a trial; the fields are those of `clustering.optimiser.trials.Trials`.

    Attributes:
        assignments: for each block the task that computes its (1, K, n) S.
    """

    assignments: list["Future"]
    prototypes: Tensor
    objective: Tensor
    iterations: int
    reseeded: int
    outcome: Outcome
    trace: Tensor
    movements: Tensor


def run_trial(
    rule: BlockRule,
    graph: BlockGraph,
    start: Tensor,
    slope: float,
    *,
    path: tuple[float, ...] = (),
    course: Course,
) -> BlockTrial:
    """The counterpart of `clustering.optimiser.trials.run_trials` for one start (1, K, D)."""
    assignments, iterations, reseeded = None, 0, 0
    for share in (*path, 1.0):
        last = _alternate(rule, graph, start, slope * share, assignments, course)
        start, assignments = last.prototypes, last.assignments
        iterations, reseeded = iterations + last.iterations, reseeded + last.reseeded
    return BlockTrial(
        last.assignments,
        last.prototypes,
        last.objective,
        iterations,
        reseeded,
        last.outcome,
        last.trace,
        last.movements,
    )


def prototypes_about_blocks(seeds: Tensor, rule: BlockRule) -> Tensor:
    """(1, K, D) prototypes of the clusters of points nearest to each of the seeds (1, K, D)."""
    nearest, counts = rule.rows.cluster.run(_nearest_seed, rule.rows.parts, seeds)
    return _prototypes(nearest, counts, rule, seeds)


def prototypes_of_blocks(trial: BlockTrial, rule: BlockRule) -> Tensor:
    """(1, K, D) prototypes of the labels of a trial."""
    weights, counts = rule.rows.cluster.run(_weighed, trial.assignments, "hard", None)
    return _prototypes(weights, counts, rule, trial.prototypes)


def _prototypes(weights: list["Future"], counts: list[Tensor], rule: BlockRule, near: Tensor) -> Tensor:
    empty = torch.stack(counts).sum(dim=0) == 0
    if empty.any():
        weights = rule.rows.cluster.begin(_with_all, weights, empty)
    return torch.where(empty[:, None], near, rule.update(near, weights, None))


def _alternate(
    rule: BlockRule,
    graph: BlockGraph,
    centres: Tensor,
    slope: float,
    initial: Any,
    course: Course,
) -> BlockTrial:
    cluster, rows, sweeps = rule.rows.cluster, rule.rows.parts, course.sweeps
    objective, outcome = torch.full((1,), torch.inf, dtype=torch.float64), Outcome.MAX_ITERATIONS
    trace, movements, reseeded, revivals = [], [], 0, 0
    for iteration in range(1, course.max_iterations + 1):
        begins = [None] * cluster.count if initial is None or not slope else initial
        fields = cluster.begin(_opened, rows, rule.of, centres, slope, begins, course.temperature)
        descent = descend_blocks(fields, graph, slope, rule.rows.dtype, sweeps)
        assignments = cluster.begin(_assignments, descent.moved)
        weights, counts = cluster.run(_weighed, assignments, course.members, None)
        emptied = torch.stack(counts).sum(dim=0) == 0
        if emptied.any():
            weights = cluster.begin(_weighed, assignments, course.members, emptied)
        new = rule.update(centres, weights, descent.moved)
        any_empty = bool(emptied.any())
        revived = any_empty and revivals < REVIVALS and course.empty == "reseed"
        if any_empty:
            new = torch.where(emptied[:, None], centres, new)
        if revived:
            new[0, emptied] = _farthest(cluster.ask(_highest_costs, rows, fields, emptied), int(emptied.sum()))
            reseeded, revivals = reseeded + int(emptied.sum()), revivals + 1
        stay, fixed = settled(centres, new, objective, descent.objective, course.tolerance)
        objective = descent.objective
        trace.append(objective)
        movements.append((new - centres).norm(dim=2))
        if bool(stay | (fixed & (iteration > 2))) and not revived:
            outcome = Outcome.CONVERGED
            break
        if iteration < course.max_iterations:
            centres = new
        initial = assignments if sweeps.warm and slope and not revived else None
    return BlockTrial(
        assignments,
        centres,
        objective,
        iteration,
        reseeded,
        outcome,
        torch.stack(trace),
        torch.stack(movements),
    )


def _opened(
    rows: Rows, rule_of: Any, centres: Tensor, slope: float, initial: Tensor | None, temperature: float
) -> Kept:
    return Kept(opened(rule_of(rows).cost(centres), slope, initial, temperature))


def _assignments(moved: Moved) -> Kept:
    return Kept(moved.state.S)


def _weighed(assignments: Tensor, members: str, emptied: Tensor | None) -> Kept:
    """(1, K, n) weights, and (K,) number of points by their largest assignment.

    Weights of an emptied class are arbitrary finite values that do not attract points.
    """
    labels = assignments.max(dim=1).indices
    classes = assignments.shape[1]
    weights = assignments if members == "soft" else indicators(labels, classes, assignments.dtype)
    counts = torch.bincount(labels[0], minlength=classes)
    if emptied is not None:
        weights = torch.where(emptied[:, None], weights.amax(dim=1, keepdim=True), weights)
    return Kept(weights, counts)


def _with_all(weights: Tensor, empty: Tensor) -> Kept:
    return Kept(torch.where(empty[:, None], 1.0, weights))


def _nearest_seed(rows: Rows, seeds: Tensor) -> Kept:
    labels = rows.squared_distances(seeds).min(dim=1).indices
    weights = indicators(labels, seeds.shape[1], seeds.dtype)
    return Kept(weights, weights[0].sum(dim=1))


def _highest_costs(rows: Rows, opened: Opened, empty: Tensor) -> Best:
    """The points of a block with the highest cost at the best non-empty class, one for each empty class."""
    pay = opened.problem.cost[0].masked_fill(empty[:, None], torch.inf).amin(dim=0)
    order = pay.sort(descending=True, stable=True)
    worst = slice(0, int(empty.sum()))
    return Best(order.values[worst], rows.at(order.indices[worst]))


def _farthest(nearest: list[Best], count: int) -> Tensor:
    """(count, D) points with the highest cost among all blocks, ties to the first."""
    pay, points = (torch.cat(values) for values in zip(*nearest, strict=True))
    return points[pay.sort(descending=True, stable=True).indices[:count]]
