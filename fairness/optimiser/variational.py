"""Variational fair clustering (thesis Algorithm 3.1, with guaranteed descent): alternates prototypes and assignments.

Minimises E(S, C) = sum_pk s_pk a_pk(c_k) + weight R_e(S), first at weight 0, which is the unfair method, then at each
weight from the result of the previous one. Distant weights are reached in rungs, because at a large weight the steps
stay close to the nearly fair solution at hand and find no better clusters.
"""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from clustering.foundation.timing import Stopwatch
from fairness.optimiser.climb import Climb, Course, Stage, Update
from fairness.optimiser.exchange import Exchange
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import Rule

_STEEP = 4.0
"""Ratio of consecutive weights, if the number of rungs permits it."""

_ON_A_RUNG = 4
"""Number of updates of the prototypes at an intermediate weight."""

_SWEEPS_ON_A_RUNG = 15
"""Maximum number of sweeps per update at an intermediate weight."""


def follow(
    points: Points,
    rule: Rule,
    penalty: Penalty,
    seeds: Tensor,
    weights: Iterable[float],
    course: Course,
    first: float,
    returning: bool = False,
) -> Iterator[Stage]:
    """Yield the result of one start at each of the weights.

    Args:
        points: the data.
        rule: rule of the prototypes.
        penalty: the fairness term; its own weight is ignored.
        seeds: (K, D) initial prototypes, relative to the origin of the points.
        weights: weights >= 0, consumed one at a time, each after the result at the previous one was yielded. Only the
            first may be 0. Weights above all previous ones are reached in rungs.
        course: settings of the minimisation.
        first: weight of the lowest rung, at which fairness has little effect.
        returning: whether a weight may be lower than the previous one. It then starts from the state before the last
            increase, which is saved for this purpose.
    """
    labels, stage = unfair(points, rule, penalty, seeds.double(), course)
    start, history, reached, base = stage.prototypes, stage.history, 0.0, 0.0
    climb: Climb | None = None
    for weight in weights:
        if weight == 0:
            if rule.ending != rule:
                stage = _unfair_end(points, rule, penalty, start, labels, course)
            yield stage
            history = ()
            continue
        if climb is None:
            climb = Climb(points, rule, penalty, course, start, points.begin(labels, course.mixing))
        elif returning and weight < reached:
            climb.restore()
            reached = base
        elif returning:
            climb.keep()
            base = reached
        for rung in rungs(max(reached, first), weight, course.rungs):
            settled, _ = climb.reach(rung, _ON_A_RUNG, min(_SWEEPS_ON_A_RUNG, course.max_sweeps))
            if reached == 0:  # at low weights clusters can still move to better positions
                climb.relocate(rung, settled)
                reached = rung
        stage = climb.end_at(weight)
        yield stage._replace(history=(*history, *stage.history))
        reached, history = weight, ()


def go_on(points: Points, rule: Rule, penalty: Penalty, stage: Stage, weight: float, course: Course) -> Stage:
    """Continue with all points from a stage of a sample, with its prototypes and prices; S is initialised from its
    labels."""
    rule = rule.ending
    if weight == 0:
        return unfair(points, rule, penalty, stage.prototypes, course)[1]
    labels, _ = points.assign(rule.cost(stage.prototypes), penalty.membership @ stage.group_prices)
    climb = Climb(points, rule, penalty, course, stage.prototypes, points.begin(labels, course.mixing))
    return climb.end_at(weight)


def rungs(low: float, high: float, max_rungs: int) -> list[float]:
    """Weights from `low`, below `high`, in equal ratios of at most 4, or more if `max_rungs` are not enough."""
    if high <= low or max_rungs == 0:
        return []
    count = min(max_rungs, math.ceil(math.log(high / low, _STEEP)))
    return [low * (high / low) ** (i / count) for i in range(count)]


def unfair(points: Points, rule: Rule, penalty: Penalty, seeds: Tensor, course: Course) -> tuple[Tensor, Stage]:
    """The unfair method from prototypes (K, D): prototypes, and labels (N,) of lowest cost.

    An empty cluster is reseeded at the point with the highest cost.
    """
    prototypes, history, converged, last = seeds, [], False, math.inf
    labels = torch.empty(0)  # differs from any
    for _ in range(course.max_iterations):
        watch = Stopwatch()
        cost = rule.cost(prototypes)
        new, moments = points.assign(cost)
        objective = float(moments.costs.sum())
        empty = moments.counts.sum(dim=0) == 0
        history.append(Update(0.0, objective, objective, 0.0, 0.0, 1, 0, watch.lap()))
        unchanged = torch.equal(new, labels)
        labels = new
        if not empty.any() and (unchanged or last - objective <= course.tolerance * objective):
            converged = True
            break
        if len(history) == course.max_iterations:
            break
        if empty.any():
            prototypes = prototypes.clone()
            prototypes[empty] = points.farthest(cost, int(empty.sum())).to(prototypes)
        else:
            logs = points.begin(labels, 0.0) if rule.reads_assignments else []
            prototypes = rule.update(points, logs, prototypes, moments)
        last = objective
    counts = moments.counts.cpu()
    error = float(penalty.weighing(1.0).at(counts).value)
    prices = counts.new_zeros(len(penalty.target), counts.shape[1])
    empty_clusters = int((counts.sum(dim=0) == 0).sum())
    stage = Stage(
        0.0,
        labels,
        [],
        prototypes,
        prices,
        counts,
        objective,
        objective,
        empty_clusters,
        error,
        0.0,
        converged,
        tuple(history),
    )
    return labels, stage


def _unfair_end(
    points: Points, rule: Rule, penalty: Penalty, prototypes: Tensor, labels: Tensor, course: Course
) -> Stage:
    """The unfair method until convergence, from prototypes (K, D) and labels of a preceding rule.

    Prototypes are exchanged for other points while that lowers the cost.
    """
    ending, logs = rule.ending, points.begin(labels, 0.0)
    still = torch.zeros(points.cells, dtype=torch.float64), torch.zeros(points.cells, points.clusters)
    logs, moments = points.take(logs, rule.cost(prototypes), *still)
    seeds = ending.begin(points, logs, prototypes, moments)
    _, stage = unfair(points, ending, penalty, seeds, course)
    exchange, none = Exchange(points, ending), torch.zeros(points.cells, points.clusters, dtype=torch.float64)
    for draw in range(exchange.swaps):
        exchanged_cost, proposal = next(exchange.swapped(stage.prototypes, none, draw))
        if not exchanged_cost < stage.objective * (1 - 1e-6):
            break
        _, other = unfair(points, ending, penalty, proposal.prototypes, course)
        stage = other._replace(history=(*stage.history, *other.history))
    return stage
