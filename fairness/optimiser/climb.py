"""The course of one start: how its assignments and prototypes follow rising weights."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.foundation.timing import Stopwatch
from clustering.optimiser.guard import Status
from fairness.optimiser.compressed import Settled, settle
from fairness.optimiser.exchange import Exchange, Proposal
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Moments, Points
from fairness.optimiser.prototypes import Rule


class Update(NamedTuple):
    """One update of prototypes and assignments.

    Attributes:
        weight: weight of the fairness term.
        objective: E after the update of the assignments; the unfair objective if weight is 0.
        cost: the part <S, a> of E. error: the part R_e, the fairness error of S.
        gap: stationarity gap of the assignments, in units of E.
        sweeps: number of sweeps over the points. rejected: number of rejected steps among them.
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
    """Result of one start at one weight.

    Attributes:
        weight: weight of the fairness term.
        labels: (N,) argmax S.
        logs: log S, valid until the fit continues; empty at weight 0.
        prototypes: (K, D) float64, relative to the origin of the points; those of the last update of S.
        group_prices: (J, K) float64, cost beside the distance of assigning a point of a group to a cluster.
        counts: (C, K) sums of S by cell, float64.
        objective: E.
        of_labels: E of the labels at the same prototypes; an absent group counts as in the fairness error.
        empty: number of clusters without labels.
        error: R_e.
        gap: stationarity gap.
        converged: whether the fit stopped before the maximum number of updates.
        history: updates at this weight, including its rungs.
    """

    weight: float
    labels: Tensor
    logs: list[Tensor]
    prototypes: Tensor
    group_prices: Tensor
    counts: Tensor
    objective: float
    of_labels: float
    empty: int
    error: float
    gap: float
    converged: bool
    history: tuple[Update, ...]


@dataclass(frozen=True)
class Course:
    """Settings of the minimisation of E.

    Attributes:
        max_iterations: maximum number of updates of the prototypes at each weight.
        tolerance: relative change of E below which updates stop, if it occurs twice and the assignments are stationary.
        max_sweeps: maximum number of sweeps over the points at each update.
        sweep_tolerance: relative change of E below which sweeps stop, if the gap is small.
        gap_tolerance: gap that counts as small, as a share of E.
        rungs: maximum number of intermediate weights.
        mixing: share of each point's assignment that is spread evenly over clusters when S is initialised from labels.
        hard: whether prototypes are computed from argmax S instead of S. E can then rise when they are updated, and
            updates stop when it changes little in either direction.
    """

    max_iterations: int = 100
    tolerance: float = 1e-5
    max_sweeps: int = 30
    sweep_tolerance: float = 1e-6
    gap_tolerance: float = 1e-3
    rungs: int = 10
    mixing: float = 0.1
    hard: bool = False


_STALLED = 8
"""Number of calm updates in a row after which an update with a large gap is given up: assignments far from where they
cost least, at prototypes that (nearly) coincide, move by less with each update and never arrive."""

_LOST = 0.5
"""Soft size, in points, below which a cluster is unlikely to be the argmax of any point."""


_LEADING = 25
"""Maximum number of updates of prototypes that initialise those of the result, at the final weight."""

_ON_TRIAL = 6
"""Number of updates of prototypes that are candidates for replacing others."""

_WORTH = 1e-6
"""An exchange must lower E of the labels by more than this share."""

_DRAWS = 3
"""Number of draws of new positions for small clusters that lack a group."""

_SMALL, _HOLDS = 0.1, 2.0
"""A cluster is small if it has less than this share of the mean size, or would have fewer points than this of the
rarest group."""


class _Labelled(NamedTuple):
    """State of the labels: E at the prototypes of S, (K,) whether a cluster lacks a group, and (K,) cluster sizes."""

    objective: float
    lacking: Tensor
    sizes: Tensor


class Climb:
    """State of a start that is carried from weight to weight."""

    def __init__(
        self, points: Points, rule: Rule, penalty: Penalty, course: Course, prototypes: Tensor, logs: list[Tensor]
    ) -> None:
        self.points, self.rule, self.penalty, self.course = points, rule, penalty, course
        self.prototypes, self.logs = prototypes, logs
        self.history: list[Update] = []
        self._moments: Moments | None = None
        self._spread = rule.spread(points)
        self._kappa = 2.0
        self._reseeds = 2 * points.clusters  # remaining
        self._exchange = Exchange(points, rule.ending)
        self._few = max(_SMALL * points.count / points.clusters, _HOLDS / float(penalty.target.min()))
        self._kept: tuple[list[Tensor], Tensor, Moments | None, float] = logs, prototypes, None, self._kappa

    def keep(self) -> None:
        """Save this state, replacing the saved one."""
        self._kept = [log.clone() for log in self.logs], self.prototypes, self._moments, self._kappa

    def restore(self) -> None:
        """Return to the saved state."""
        logs, self.prototypes, self._moments, self._kappa = self._kept
        self.logs = [log.clone() for log in logs]

    def end_at(self, weight: float) -> Stage:
        """Minimise E at this weight until convergence; the history covers the updates since the last end."""
        leading, sweeps = self.rule, self.course.max_sweeps
        if leading.ending != leading:
            length = len(self.history)
            self.reach(weight, min(_LEADING, self.course.max_iterations), sweeps)
            del self.history[length:]  # these updates belong to other prototypes, with a lower E
            assert self._moments is not None
            self.rule = leading.ending
            self.prototypes = self.rule.begin(self.points, self.logs, self.prototypes, self._moments)
            self._moments = None
        settled, converged = self.reach(weight, self.course.max_iterations, sweeps)
        settled, converged, labelled = self._with_exchanges(weight, settled, converged)
        history, self.history, self.rule = tuple(self.history), [], leading
        return Stage(
            weight,
            self.points.labels(self.logs),
            self.logs,
            self.prototypes,
            settled.reading.group_prices,
            settled.totals.counts,
            settled.objective,
            labelled.objective,
            int((labelled.sizes == 0).sum()),
            float(settled.reading.value) / weight,
            settled.gap,
            converged,
            history,
        )

    def reach(self, weight: float, updates: int, sweeps: int) -> tuple[Settled, bool]:
        """Minimise E at this weight, for at most `updates` updates of the prototypes.

        Returns:
            The last assignments, and whether the updates converged.
        """
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
            measured = (settled.gap, spent, rejected, watch.lap())
            self.history.append(Update(weight, E, E - value, value / weight, *measured))
            fell = abs(last - E) if course.hard else last - E
            calm = calm + 1 if fell <= course.tolerance * abs(E) else 0
            stationary = settled.status == Status.ROUNDING or settled.gap <= course.gap_tolerance * abs(E)
            if (calm >= 2 and stationary) or calm >= _STALLED:
                return settled, stationary
            last = E
        return settled, False

    def relocate(self, weight: float, settled: Settled) -> None:
        """Move the prototypes of clusters that lack a group, after some updates at this weight."""
        self._exchanged(weight, settled, self._labelled(weight), 0)

    def _with_exchanges(self, weight: float, settled: Settled, converged: bool) -> tuple[Settled, bool, "_Labelled"]:
        """Result after exchanges of prototypes.

        Prototypes of small clusters that lack a group are moved while that lowers E of the labels; medoids are
        exchanged for other points while that lowers E as well.
        """
        labelled = self._labelled(weight)
        if self._exchanged(weight, settled, labelled, self._exchange.swaps):
            settled, converged = self.reach(weight, self.course.max_iterations, self.course.max_sweeps)
            labelled = self._labelled(weight)
        return settled, converged, labelled

    def _exchanged(self, weight: float, settled: Settled, labelled: "_Labelled", swaps: int) -> bool:
        """Exchange prototypes, and return whether any exchange was accepted.

        At most `swaps` exchanges involve clusters that lack no group.
        """
        changed, relocations = False, _DRAWS
        for draw in range(_DRAWS + swaps):
            before, prices = self.prototypes, settled.reading.prices
            small = labelled.lacking & (labelled.sizes < self._few)
            if relocating := relocations > 0 and bool(small.any()):
                relocations -= 1
                proposals = self._exchange.relocations(before, prices, small, labelled.sizes, draw)
            elif swaps > 0:
                swaps -= 1
                linear = settled.totals.cost + (prices * settled.totals.counts).sum()
                worth = float(linear) - settled.gap - _WORTH * labelled.objective
                proposals = (
                    candidate for paid, candidate in self._exchange.swapped(before, prices, draw) if paid < worth
                )
            else:
                break
            for proposal in proposals:
                accepted = self._tried(weight, proposal, math.inf if relocating else settled.objective, labelled)
                if accepted is not None:
                    settled, labelled, changed = *accepted, True
                    break
            else:
                if not relocating:
                    break
                relocations = 0
        return changed

    def _tried(
        self, weight: float, proposal: Proposal, below: float, labelled: "_Labelled"
    ) -> "tuple[Settled, _Labelled] | None":
        """Result of a proposal if it lowers E of the labels, and E is below a limit.

        If E rises, the history of this weight restarts there.
        """
        kept, passed = (self.prototypes, self.logs, self._moments, self._kappa), len(self.history)
        labels, _ = self.points.assign(self.rule.cost(proposal.prototypes), proposal.prices)
        self.prototypes, self._moments, self._kappa = proposal.prototypes, None, 2.0
        self.logs = self.points.begin(labels, self.course.mixing)
        other, _ = self.reach(weight, min(_ON_TRIAL, self.course.max_iterations), self.course.max_sweeps)
        trial = self._labelled(weight)
        enough = labelled.objective - _WORTH * abs(labelled.objective)
        if not (trial.objective < enough and other.objective < below):
            self.prototypes, self.logs, self._moments, self._kappa = kept
            del self.history[passed:]
            return None
        new, before = self.history[passed:], [entry for entry in self.history[:passed] if entry.weight == weight]
        if before and new[-1].objective > before[-1].objective:
            self.history = [entry for entry in self.history[:passed] if entry.weight != weight] + new
        else:
            self.history[passed:] = [entry for entry in new if not before or entry.objective <= before[-1].objective]
        return other, trial

    def _labelled(self, weight: float) -> "_Labelled":
        labels = self.points.labels(self.logs)
        still = torch.zeros(self.points.cells, dtype=torch.float64)
        _, moments = self.points.take(
            self.points.begin(labels, 0.0),
            self.rule.cost(self.prototypes),
            still,
            still[:, None].expand(-1, self.points.clusters),
        )
        counts = self.points.counts(labels).double()
        penalty = self.penalty.weighing(weight)
        E = float(moments.costs.sum()) + penalty.of_labels(counts)
        return _Labelled(E, penalty.lacking(counts), counts.sum(dim=0))

    def _settle(self, penalty: Penalty, logs: list[Tensor], prototypes: Tensor, sweeps: int) -> Settled:
        return settle(
            self.points.sweeps(logs, self.rule.cost(prototypes)),
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
        """Prototypes of S or, if `hard`, of its labels."""
        logs = self.logs
        if self.course.hard:
            still = moments.counts.new_zeros(len(moments.counts)), torch.zeros_like(moments.counts)
            certain = self.points.begin(self.points.labels(logs), 0.0)
            logs, moments = self.points.take(certain, self.rule.cost(self.prototypes), *still)
        self.prototypes = self.rule.update(self.points, logs, self.prototypes, moments)

    def _reseeded(self, penalty: Penalty, settled: Settled, sweeps: int) -> Settled | None:
        """Reseed empty clusters at the points with the highest cost, if that lowers E; at most twice per cluster."""
        assert self._moments is not None
        empty = self._moments.counts.sum(dim=0) < _LOST
        if not empty.any() or self._reseeds <= 0:
            return None
        self._reseeds -= 1
        prototypes = self.prototypes.clone()
        prototypes[empty] = self.points.farthest(self.rule.cost(prototypes), int(empty.sum())).to(prototypes)
        cost = self.rule.cost(prototypes)
        labels, _ = self.points.assign(cost, settled.reading.prices)
        logs = self.points.begin(labels, self.course.mixing)
        other = self._settle(penalty, logs, prototypes, sweeps)
        if not other.objective < settled.objective:
            return None
        self.prototypes = prototypes
        self.logs, self._moments = self.points.take(logs, cost, other.scale, other.shift)
        return other
