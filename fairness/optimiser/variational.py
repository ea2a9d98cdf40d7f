"""Variational fair clustering (thesis Algorithm 3.1, made to descend): prototypes and assignments in turn.

Lowers E(S, C) = sum_pk s_pk a_pk(c_k) + weight R_e(S), first at weight 0, which is the unfair method, then from weight
to weight, each from where the one before ended. Far weights are reached in rungs: at a large one, steps keep to what is
nearly fair already, and find no better clusters there.
"""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from clustering.foundation.timing import Stopwatch
from fairness.optimiser.climb import Climb, Course, Progress, Stage
from fairness.optimiser.exchange import Exchange
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.prototypes import Rule
from fairness.optimiser.store import Labels, Store

_STEEP = 4.0
"""Ratio of weights that one rung spans, where there are rungs enough."""

_ON_A_RUNG = 4
"""Updates of the prototypes on a rung that only leads further, and"""

_SWEEPS_ON_A_RUNG = 15
"""sweeps at each."""


def follow(
    points: Store,
    rule: Rule,
    penalty: Penalty,
    seeds: Tensor,
    weights: Iterable[float],
    course: Course,
    first: float,
    returning: bool = False,
) -> Iterator[Stage]:
    """One start along weights: where it ends at each.

    Args:
        points: the data.
        rule: how prototypes follow.
        penalty: the fairness term, its weight ignored.
        seeds: (K, D) first prototypes, from the origin of the points.
        weights: >= 0, asked for one by one, after where the one before ended was given; 0 can only be the first. Those
            above all before are reached in rungs.
        course: how.
        first: weight of the lowest rung, one that matters little.
        returning: whether a weight may be lower than the last: it is begun where the last weight that a larger one
            followed had ended, which is kept for this.
    """
    labels, stage = unfair(points, rule, penalty, seeds.double(), course)
    begun, history, reached, base = stage.prototypes, stage.history, 0.0, 0.0
    climb: Climb | None = None
    for weight in weights:
        if weight == 0:
            if rule.ending != rule:
                stage = _unfair_end(points, rule, penalty, begun, labels, course)
            yield stage
            history = ()
            continue
        if climb is None:
            climb = Climb(points, rule, penalty, course, begun, points.begin(labels, course.mixing))
        elif returning and weight < reached:
            climb.restore()
            reached = base
        elif returning:
            climb.keep()
            base = reached
        for rung in rungs(max(reached, first), weight, course.rungs):
            settled, _ = climb.reach(rung, _ON_A_RUNG, min(_SWEEPS_ON_A_RUNG, course.max_sweeps))
            if reached == 0:  # far below the weight, clusters go where they serve best
                climb.relocate(rung, settled)
                reached = rung
        stage = climb.end_at(weight)
        yield stage._replace(history=(*history, *stage.history))
        reached, history = weight, ()


def go_on(points: Store, rule: Rule, penalty: Penalty, begun: Stage, weight: float, course: Course) -> Stage:
    """Where points end at a weight that go on from a stage of some of them, whose prototypes and prices they take: its
    labels are all that S begins with."""
    rule = rule.ending
    if weight == 0:
        return unfair(points, rule, penalty, begun.prototypes, course)[1]
    labels, _ = points.assign(rule.cost(begun.prototypes), penalty.membership @ begun.group_prices)
    climb = Climb(points, rule, penalty, course, begun.prototypes, points.begin(labels, course.mixing))
    return climb.end_at(weight)


def rungs(low: float, high: float, most: int) -> list[float]:
    """Weights from `low` on, below `high`, in equal ratios: of 4 at most, unless so many rungs do not suffice."""
    if high <= low or most == 0:
        return []
    count = min(most, math.ceil(math.log(high / low, _STEEP)))
    return [low * (high / low) ** (i / count) for i in range(count)]


def unfair(points: Store, rule: Rule, penalty: Penalty, seeds: Tensor, course: Course) -> tuple[Labels, Stage]:
    """The method at weight 0 from prototypes (K, D), and its labels (N,): every point in the cluster of least cost. A
    cluster without points begins again at the point that pays most."""
    prototypes, history, converged, last = seeds, [], False, math.inf
    labels: Labels = None
    for _ in range(course.max_iterations):
        watch = Stopwatch()
        cost = rule.cost(prototypes)
        new, moments = points.assign(cost)
        objective = float(moments.costs.sum())
        empty = moments.counts.sum(dim=0) == 0
        history.append(Progress(0.0, objective, objective, 0.0, 0.0, 1, 0, watch.lap()))
        same = labels is not None and points.same(new, labels)
        labels = new
        if not empty.any() and (same or last - objective <= course.tolerance * objective):
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
    lost = int((counts.sum(dim=0) == 0).sum())
    stage = Stage(
        0.0, labels, [], prototypes, prices, counts, objective, objective, lost, error, 0.0, converged, tuple(history)
    )
    return labels, stage


def _unfair_end(
    points: Store, rule: Rule, penalty: Penalty, prototypes: Tensor, labels: Labels, course: Course
) -> Stage:
    """The method at weight 0 by the rule that ends it, from what another led to: prototypes (K, D) and labels. One is
    exchanged for another point as long as the costs fall by it."""
    ending, logs = rule.ending, points.begin(labels, 0.0)
    still = torch.zeros(points.cells, dtype=torch.float64), torch.zeros(points.cells, points.clusters)
    logs, moments = points.take(logs, rule.cost(prototypes), *still)
    seeds = ending.begin(points, logs, prototypes, moments)
    _, stage = unfair(points, ending, penalty, seeds, course)
    exchange, none = Exchange(points, ending), torch.zeros(points.cells, points.clusters, dtype=torch.float64)
    for draw in range(exchange.swaps):
        paid, proposal = next(exchange.swapped(stage.prototypes, none, draw))
        if not paid < stage.objective * (1 - 1e-6):
            break
        _, other = unfair(points, ending, penalty, proposal.prototypes, course)
        stage = other._replace(history=(*stage.history, *other.history))
    return stage
