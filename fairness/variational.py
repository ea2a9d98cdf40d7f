"""Variational fair clustering (thesis Algorithm 3.1, made to descend): prototypes and assignments in turn.

Lowers E(S, C) = sum_pk s_pk a_pk(c_k) + weight R_e(S), first at weight 0, which is the unfair method, then from weight
to weight, each from where the one before ended. Far weights are reached in rungs: at a large one, steps keep to what is
nearly fair already, and find no better clusters there.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.descent import Status
from clustering.timing import Stopwatch
from fairness.compressed import Settled, settle
from fairness.penalty import Penalty
from fairness.prototypes import Rule
from fairness.store import Labels, Logs, Moments, Store


class Progress(NamedTuple):
    """One update of prototypes and assignments.

    Attributes:
        weight: of the fairness term.
        objective: E after the update of the assignments; that of the unfair method where weight is 0.
        cost: its part <S, a>. error: its part R_e, the fairness error of S.
        gap: stationarity gap of the assignments, in units of E.
        sweeps: over the points. rejected: steps among them.
        seconds: wall time.
    """

    weight: float
    objective: float
    cost: float
    error: float
    gap: float
    sweeps: int
    rejected: int
    seconds: float


class Stage(NamedTuple):
    """Where one start ended at one weight.

    Attributes:
        weight: of the fairness term.
        labels: (N,) argmax S.
        logs: log S, until the fit goes on; none at weight 0.
        prototypes: (K, D) that S was found with, float64, from the origin of the points.
        group_prices: (J, K) what points of a group pay for each cluster besides, float64.
        counts: (C, K) sums of S by cell, float64.
        objective: E.
        error: R_e.
        gap: stationarity gap.
        converged: whether it ended before the last update that was allowed.
        history: updates of this weight, its rungs included.
    """

    weight: float
    labels: Labels
    logs: Logs
    prototypes: Tensor
    group_prices: Tensor
    counts: Tensor
    objective: float
    error: float
    gap: float
    converged: bool
    history: tuple[Progress, ...]


@dataclass(frozen=True)
class Course:
    """How E is lowered.

    Attributes:
        max_iterations: updates of the prototypes at each weight, at most.
        tolerance: relative change of E at which they end, seen twice, and the assignments stationary.
        max_sweeps: over the points, at each update.
        sweep_tolerance: relative change of E at which these end, the gap being small.
        gap_tolerance: of E, a gap that is small.
        rungs: between weights, at most.
        mixing: share of a point's assignment that is spread evenly over clusters where S begins from labels.
        hard: prototypes are those of argmax S, not of S: E may rise when they are updated, and ends where it changes
            little in either direction.
    """

    max_iterations: int = 100
    tolerance: float = 1e-5
    max_sweeps: int = 30
    sweep_tolerance: float = 1e-6
    gap_tolerance: float = 1e-3
    rungs: int = 10
    mixing: float = 0.1
    hard: bool = False


_STEEP = 4.0
"""Ratio of weights that one rung spans, where there are rungs enough."""

_ON_A_RUNG = 4
"""Updates of the prototypes on a rung that only leads further, and"""

_SWEEPS_ON_A_RUNG = 15
"""sweeps at each."""

_LOST = 0.5
"""Points: a cluster that has less of S is hardly the first of any."""


def follow(
    points: Store, rule: Rule, penalty: Penalty, seeds: Tensor, weights: Iterable[float], course: Course, first: float
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
    """
    labels, stage = unfair(points, rule, penalty, seeds.double(), course)
    climb, reached, history = None, 0.0, stage.history
    for weight in weights:
        if weight == 0:
            yield stage
            history = ()
            continue
        if climb is None:
            climb = _Climb(points, rule, penalty, course, stage.prototypes, points.begin(labels, course.mixing))
        for rung in rungs(max(reached, first), weight, course.rungs):
            climb.reach(rung, _ON_A_RUNG, min(_SWEEPS_ON_A_RUNG, course.max_sweeps))
        stage = climb.end_at(weight)
        yield stage._replace(history=(*history, *stage.history))
        reached, history = weight, ()


def go_on(points: Store, rule: Rule, penalty: Penalty, begun: Stage, weight: float, course: Course) -> Stage:
    """Where points end at a weight that go on from a stage of some of them, whose prototypes and prices they take: its
    labels are all that S begins with."""
    if weight == 0:
        return unfair(points, rule, penalty, begun.prototypes, course)[1]
    labels, _ = points.assign(rule.cost(begun.prototypes), penalty.membership @ begun.group_prices)
    climb = _Climb(points, rule, penalty, course, begun.prototypes, points.begin(labels, course.mixing))
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
    stage = Stage(0.0, labels, [], prototypes, prices, counts, objective, error, 0.0, converged, tuple(history))
    return labels, stage


class _Climb:
    """The state that goes from weight to weight."""

    def __init__(
        self, points: Store, rule: Rule, penalty: Penalty, course: Course, prototypes: Tensor, logs: Logs
    ) -> None:
        self.points, self.rule, self.penalty, self.course = points, rule, penalty, course
        self.prototypes, self.logs = prototypes, logs
        self.history: list[Progress] = []
        self._moments: Moments | None = None
        self._spread = rule.spread(points)
        self._kappa = 2.0
        self._reseeds = 2 * points.clusters  # left

    def end_at(self, weight: float) -> Stage:
        """Lower E at this weight until it ends; the history is that since the last such end."""
        settled, converged = self.reach(weight, self.course.max_iterations, self.course.max_sweeps)
        history, self.history = tuple(self.history), []
        return Stage(
            weight,
            self.points.labels(self.logs),
            self.logs,
            self.prototypes,
            settled.reading.group_prices,
            settled.totals.counts,
            settled.objective,
            float(settled.reading.value) / weight,
            settled.gap,
            converged,
            history,
        )

    def reach(self, weight: float, updates: int, sweeps: int) -> tuple[Settled, bool]:
        """Lower E at this weight: where the assignments settled last, and whether all did."""
        course, penalty, calm, last = self.course, self.penalty.weighing(weight), 0, math.inf
        for _ in range(updates):
            watch = Stopwatch()
            if self._moments is not None:
                self._update(self._moments)
            settled = self._settle(penalty, self.logs, self.prototypes, sweeps)
            spent, rejected = settled.sweeps + 1, settled.rejected
            cost = self.rule.cost(self.prototypes)
            self.logs, self._moments = self.points.take(self.logs, cost, settled.scale, settled.shift)
            self._kappa = min(2.0, settled.kappa)
            other = self._reseeded(penalty, settled, sweeps)
            if other is not None:
                spent, rejected, settled = spent + other.sweeps + 2, rejected + other.rejected, other
            E, value = settled.objective, float(settled.reading.value)
            seen = (settled.gap, spent, rejected, watch.lap())
            self.history.append(Progress(weight, E, E - value, value / weight, *seen))
            fell = abs(last - E) if course.hard else last - E
            calm = calm + 1 if fell <= course.tolerance * abs(E) else 0
            stationary = settled.status == Status.ROUNDING or settled.gap <= course.gap_tolerance * abs(E)
            if calm >= 2 and stationary:
                return settled, True
            last = E
        return settled, False

    def _settle(self, penalty: Penalty, logs: Logs, prototypes: Tensor, sweeps: int) -> Settled:
        return settle(
            partial(self.points.sweep, logs, self.rule.cost(prototypes)),
            penalty,
            self.points.clusters,
            spread=self._spread,
            dtype=self.points.dtype,
            kappa=self._kappa,
            max_iterations=sweeps,
            tolerance=self.course.sweep_tolerance,
            gap_tolerance=self.course.gap_tolerance,
        )

    def _update(self, moments: Moments) -> None:
        """Prototypes of S, or of its labels."""
        logs = self.logs
        if self.course.hard:
            still = moments.counts.new_zeros(len(moments.counts)), torch.zeros_like(moments.counts)
            certain = self.points.begin(self.points.labels(logs), 0.0)
            logs, moments = self.points.take(certain, self.rule.cost(self.prototypes), *still)
        self.prototypes = self.rule.update(self.points, logs, self.prototypes, moments)

    def _reseeded(self, penalty: Penalty, settled: Settled, sweeps: int) -> Settled | None:
        """Where assignments settle when clusters that have lost their points begin again at those that pay most, if E
        is lower there. Tried twice a cluster at most."""
        assert self._moments is not None
        lost = self._moments.counts.sum(dim=0) < _LOST
        if not lost.any() or self._reseeds <= 0:
            return None
        self._reseeds -= 1
        prototypes = self.prototypes.clone()
        prototypes[lost] = self.points.farthest(self.rule.cost(prototypes), int(lost.sum())).to(prototypes)
        cost = self.rule.cost(prototypes)
        labels, _ = self.points.assign(cost, settled.reading.prices)
        logs = self.points.begin(labels, self.course.mixing)
        other = self._settle(penalty, logs, prototypes, sweeps)
        if not other.objective < settled.objective:
            return None
        self.prototypes = prototypes
        self.logs, self._moments = self.points.take(logs, cost, other.scale, other.shift)
        return other
