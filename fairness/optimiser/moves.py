"""Fair K-means and K-median by moves of points between clusters.

Minimises, over labels and prototypes c,

    E = sum_p a_p + weight sum_k KL(U || P_k),    a_p = ||x_p - c||^2 (means) or ||x_p - c|| (medoids).

The fairness term depends on the counts of the groups only, so the change of E if a point alone went to another cluster
is known exactly for all points and clusters at once (for means with the factors n / (n + 1) and n / (n - 1) of Hartigan
and Wong 1979). A pass moves all points that gain more than the moves before theirs in the same clusters take away, and
is taken back if E does not fall; moves that share no cluster cannot fail. At a large weight single moves are too
expensive, so pairs of points of the same groups also change places, which leaves the counts as they are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream
from clustering.foundation.timing import Stopwatch
from fairness.groups import Groups, ranks, stable_order
from fairness.metrics import divergences
from fairness.objectives import Kind, distances, medoids

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK = 1 << 19
"""Number of costs computed at a time: 4 MiB."""

_LEAST = 1e-9
"""Gain below which a point stays, in units of the mean cost of a point at a single prototype."""

_TRIES = 6
"""Number of attempts of a pass, each with fewer moves, before only moves in different clusters are left."""

_CANDIDATES = 32
"""Number of points for each cluster that are tried as medoids."""

_CALM = 3
"""Number of passes in a row that change E by less than the tolerance before a fit ends."""

_STEEP, _ON_A_RUNG, _LOWEST_RUNG = 16.0, 4, 0.01
"""Ratio of the weights that lead to a weight, passes at each, and the lowest one in units of `Problem.unit`."""


class Update(NamedTuple):
    """One pass over the points.

    Attributes:
        weight: weight of the fairness term.
        objective: E after the pass.
        cost: the part sum_p a_p of E. error: the fairness error.
        moved: number of points that changed their cluster.
        seconds: wall time.
    """

    weight: float
    objective: float
    cost: float
    error: float
    moved: int
    seconds: float


class Stage(NamedTuple):
    """Result of one start at one weight.

    Attributes:
        weight: weight of the fairness term.
        labels: (N,).
        prototypes: (K, D), relative to the origin of the points.
        objective: E.
        empty: number of empty clusters.
        converged: whether the passes ended by themselves.
        history: the passes that led here from the previous weight.
    """

    weight: float
    labels: Ints
    prototypes: Floats
    objective: float
    empty: int
    converged: bool
    history: tuple[Update, ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """Points with groups.

    Attributes:
        values: (N, D) float64, relative to their mean. groups: J groups of the points, in C cells.
        clusters: K. kind: squared distances to means, or distances to medoids.
    """

    values: Floats
    groups: Groups
    clusters: int
    kind: Kind

    @cached_property
    def norms(self) -> Floats:
        """(N,) squared norms."""
        norms: Floats = np.einsum("nd,nd->n", self.values, self.values)
        return norms

    @cached_property
    def unit(self) -> float:
        """Cost of all points at a single prototype, their mean, divided by K."""
        return float((self.norms if self.kind == "kmeans" else np.sqrt(self.norms)).sum()) / self.clusters

    def blocks(self) -> Iterator[slice]:
        rows = max(1, _BLOCK // self.clusters)
        return (slice(first, first + rows) for first in range(0, len(self.values), rows))

    def costs(self, points: slice | Ints, prototypes: Floats) -> Floats:
        """(n, K) costs of some of the points."""
        return distances(self.values[points], prototypes, self.kind, self.norms[points])

    def counted(self, labels: Ints) -> Floats:
        """(C, K) number of points of each cell in each cluster."""
        C, K = len(self.groups.membership), self.clusters
        return np.bincount(self.groups.cells * K + labels, minlength=C * K).reshape(C, K).astype(np.float64)

    def errors(self, counts: Floats) -> Floats:
        """(..., K) KL(U || P_k) at counts (..., C, K) of the cells; 0 for an empty cluster."""
        return self.errors_of_groups(self.groups.membership.T @ counts, counts.sum(axis=-2))

    def errors_of_groups(self, by_group: Floats, sizes: Floats) -> Floats:
        """(..., K) as `errors`, at counts (..., J, K) of the groups in clusters of these sizes (..., K)."""
        return np.where(sizes > 0, divergences(by_group, sizes, self.groups.target).sum(axis=-2), 0.0)

    def assigned(self, prototypes: Floats, prices: Floats) -> Ints:
        """(N,) clusters of lowest cost plus price (C, K) of the point's cell."""
        cells = self.groups.cells
        return np.concatenate(
            [(self.costs(block, prototypes) + prices[cells[block]]).argmin(axis=1) for block in self.blocks()]
        )

    def prices(self, labels: Ints, prototypes: Floats) -> Floats:
        """(J, K) prices of the groups in the clusters, beside the costs, at which points choose their labels.

        A cell's prices b must have a_pk + b_k <= a_pl + b_l for its points p of every cluster k. They are the lengths
        of shortest paths over the least differences of costs (Bellman-Ford), half way between the highest and the
        lowest that hold; prices of groups are fitted to those of the cells by least squares.
        """
        K = self.clusters
        least = self.least_changes(labels, prototypes)  # b_k - b_l <= least_kl
        least[:, range(K), range(K)] = 0.0
        high, low = np.zeros((2, len(least), K))
        for _ in range(K):
            high = (high[:, None] + least).min(axis=2)
            low = (low[:, :, None] - least).max(axis=1)
        prices = (high - high.mean(axis=1, keepdims=True) + low - low.mean(axis=1, keepdims=True)) / 2
        fitted: Floats = np.linalg.lstsq(self.groups.membership, prices, rcond=None)[0]
        return fitted

    def least_changes(self, labels: Ints, prototypes: Floats) -> Floats:
        """(C, K, K) least change of cost of a point of a cell that goes from one cluster to another; inf if there is
        none."""
        K = self.clusters
        keys = self.groups.cells * K + labels
        least = np.full((len(self.groups.membership) * K, K), np.inf)
        order = stable_order(keys)
        for block in self.blocks():
            points = order[block]
            change = self.costs(points, prototypes)
            change -= change[np.arange(len(points)), labels[points]][:, None]
            first = np.flatnonzero(np.diff(keys[points], prepend=-1))
            rows = keys[points[first]]
            least[rows] = np.minimum(least[rows], np.minimum.reduceat(change, first, axis=0))
        return least.reshape(-1, K, K)


class Moves:
    """Labels of a problem that passes improve at one weight after the other."""

    def __init__(self, problem: Problem, labels: Ints) -> None:
        self.problem, self.labels, self.weight = problem, labels.copy(), 0.0
        self.counts, self.history = problem.counted(labels), list[Update]()
        K, D = problem.clusters, problem.values.shape[1]
        self._sums = np.stack([np.bincount(labels, problem.values[:, d], K) for d in range(D)], axis=1)
        self.prototypes, self.cost = np.zeros((K, D)), math.inf
        self._damping, self._least = 1.0, _LEAST * problem.unit * K / len(labels)
        self._renew()

    @property
    def objective(self) -> float:
        """E."""
        return self.cost + self.weight * float(self.problem.errors(self.counts).sum())

    def descend(self, weight: float, passes: int, tolerance: float) -> bool:
        """Lower E at a weight until no move does, or by less than a relative tolerance; return whether that ended it.

        Medoids, which are expensive, are renewed in every fourth pass of those with small changes, and at the end.
        """
        self.weight, watch, calm = weight, Stopwatch(), 0
        for turn in range(passes):
            before = self.objective
            moved = self._move()
            if self.weight > 0 and before - self.objective <= 1e-4 * abs(before):
                moved += self._moved_together()
            little = before - self.objective <= 1e-3 * abs(before)
            due = not moved or (little and turn % 4 == 3)
            renewed = self.problem.kind == "kmedian" and due and self._renew()
            after = self.objective
            self.history.append(
                Update(weight, after, self.cost, (after - self.cost) / (weight or 1.0), moved, watch.lap())
            )
            calm = calm + 1 if before - after <= tolerance * abs(after) else 0
            if calm >= _CALM or not (moved or renewed):
                return True
        return False

    def _renew(self) -> bool:
        """Compute medoids, or means, from the labels; return whether that lowered the cost."""
        if self.problem.kind == "kmeans":
            sizes = self.counts.sum(axis=0)
            self.prototypes = self._sums / np.maximum(sizes, 1)[:, None]
            self.cost = self._cost_about_means(self._sums, sizes)
            return False
        found = medoids(self.problem.values, self.labels)
        cost = float(found.costs.sum())
        if not cost < self.cost * (1 - 1e-12):
            return False
        filled = np.flatnonzero(found.indices >= 0)
        self.prototypes[filled], self.cost = self.problem.values[found.indices[filled]], cost
        return True

    def _cost_about_means(self, sums: NDArray[Any], sizes: Floats) -> float:
        return float(self.problem.norms.sum() - (np.square(sums).sum(axis=1) / np.maximum(sizes, 1)).sum())

    def _move(self) -> int:
        """One pass of moves; returns their number."""
        problem, K, cells = self.problem, self.problem.clusters, self.problem.groups.cells
        sizes, by_group = self.counts.sum(axis=0), problem.groups.membership.T @ self.counts
        one = problem.groups.membership[:, :, None]  # a point of each cell
        errors = problem.errors_of_groups(by_group, sizes)
        entering = self.weight * (problem.errors_of_groups(by_group + one, sizes + 1) - errors)  # (C, K)
        left = problem.errors_of_groups(by_group - one, sizes - 1)
        leaving = np.where(sizes > 1, self.weight * (left - errors), np.inf)
        means = problem.kind == "kmeans"
        shrunk, grown = (sizes / (sizes + 1), sizes / np.maximum(sizes - 1, 1)) if means else np.ones((2, K))
        gains, targets, changes = np.empty(len(cells)), np.empty_like(self.labels), np.empty(len(cells))
        for block in problem.blocks():
            costs, labels = problem.costs(block, self.prototypes), self.labels[block]
            rows = np.arange(len(labels))
            own = costs[rows, labels]
            paid = costs * shrunk
            paid += entering.take(cells[block], axis=0)
            paid[rows, labels] = np.inf
            best = paid.argmin(axis=1)
            gains[block] = own * grown[labels] - leaving[cells[block], labels] - paid[rows, best]
            targets[block], changes[block] = best, costs[rows, best] - own
        movers = np.flatnonzero(gains > self._least)
        if not len(movers):
            return 0
        movers = movers[np.argsort(-gains[movers], kind="stable")]
        gain, cell, source, target = gains[movers], cells[movers], self.labels[movers], targets[movers]
        # Each move makes the next one of its cell out of, or into, the same cluster dearer by about this.
        rises = self.weight * problem.groups.target[:, None] / np.maximum(by_group, 1) ** 2
        dearer = problem.groups.membership @ rises
        later = ranks(cell * K + source) * dearer[cell, source] + ranks(cell * K + target) * dearer[cell, target]
        for _ in range(_TRIES):
            chosen = movers[gain > self._damping * later]
            if self._moved(chosen, targets[chosen], changes[chosen]):
                self._damping = max(self._damping / 2, 0.25)
                return len(chosen)
            self._damping *= 4
        free, apart = np.ones(K, dtype=bool), []
        for i in range(min(len(movers), 4 * K)):
            if free[source[i]] and free[target[i]]:
                free[source[i]] = free[target[i]] = False
                apart.append(movers[i])
        chosen = np.array(apart)
        return len(chosen) if self._moved(chosen, targets[chosen], changes[chosen]) else 0

    def _moved_together(self) -> int:
        """One pass each of transfers and exchanges; returns the number of points that moved."""
        least = self.problem.least_changes(self.labels, self.prototypes)
        if 2 * least.min() >= -self._least:  # every point is at its nearest prototype
            return 0
        moved = self._transfer(least)
        return moved + self._exchange(self.problem.least_changes(self.labels, self.prototypes) if moved else least)

    def _transfer(self, least: Floats) -> int:
        """One pass in which clusters give the same share of each cell to another; returns the number of points that
        moved. `least` are the least changes of cost."""
        problem, K, cells = self.problem, self.problem.clusters, self.problem.groups.cells
        shares = self.counts / np.maximum(self.counts.sum(axis=0), 1)
        rates = np.einsum("ck,ckl->kl", shares, np.where(self.counts[:, :, None] > 0, least, 0.0))
        np.fill_diagonal(rates, np.inf)
        free, moved = np.ones(K, dtype=bool), 0
        for source, target in zip(*np.unravel_index(np.argsort(rates, axis=None), rates.shape), strict=True):
            if rates[source, target] >= -self._least:
                break
            if not (free[source] and free[target]):
                continue
            points = np.flatnonzero(self.labels == source)
            costs = problem.costs(points, self.prototypes[[source, target]])
            change = costs[:, 1] - costs[:, 0]
            cheapest, rank = np.argsort(change, kind="stable"), np.empty(len(points))
            rank[cheapest] = ranks(cells[points[cheapest]])
            order = np.argsort((rank + 0.5) / self.counts[cells[points], source], kind="stable")
            points, change = points[order], change[order]
            count = int(change.cumsum().argmin()) + 1
            while count:
                chosen = points[:count]
                if self._moved(chosen, np.full(count, target), change[:count]):
                    free[source] = free[target] = False
                    moved += count
                    break
                count //= 2
        return moved

    def _exchange(self, least: Floats) -> int:
        """One pass in which points of the same cell change places; returns the number of points that moved."""
        problem, K, cells = self.problem, self.problem.clusters, self.problem.groups.cells
        targets, changes, hopes = np.empty_like(self.labels), np.empty(len(cells)), np.empty(len(cells))
        for block in problem.blocks():
            labels = self.labels[block]
            change, rows = problem.costs(block, self.prototypes), np.arange(len(labels))
            change -= change[rows, labels][:, None]
            hoped = change + least[cells[block], :, labels]  # with the best partner
            hoped[rows, labels] = np.inf
            best = hoped.argmin(axis=1)
            targets[block], changes[block], hopes[block] = best, change[rows, best], hoped[rows, best]
        willing = np.flatnonzero(hopes < -self._least)
        if not len(willing):
            return 0
        willing = willing[np.argsort(changes[willing], kind="stable")]
        cell, source, target = cells[willing], self.labels[willing], targets[willing]
        there, back = ((cell * K + source) * K + target), ((cell * K + target) * K + source)
        rank = ranks(there)
        width = len(cells)
        places = np.argsort(there * width + rank)
        sorted_keys = (there * width + rank)[places]
        partner = places[np.minimum(np.searchsorted(sorted_keys, back * width + rank), len(places) - 1)]
        paired = (there[partner] == back) & (rank[partner] == rank)
        total = changes[willing] + changes[willing[partner]]
        chosen = willing[paired & (total < -self._least)]
        return len(chosen) if len(chosen) and self._moved(chosen, targets[chosen], changes[chosen]) else 0

    def _moved(self, points: Ints, targets: Ints, changes: Floats) -> bool:
        """Move points if that empties no cluster and lowers E; `changes` are those of their costs."""
        problem, before = self.problem, self.objective
        counts, sums = self.counts.copy(), self._sums.copy()
        cells, sources, values = problem.groups.cells[points], self.labels[points], problem.values[points]
        for clusters, sign in ((sources, -1.0), (targets, 1.0)):
            np.add.at(counts, (cells, clusters), sign)
            np.add.at(sums, clusters, sign * values)
        sizes = counts.sum(axis=0)
        if (sizes[self.counts.sum(axis=0) > 0] == 0).any():
            return False
        means = problem.kind == "kmeans"
        cost = self._cost_about_means(sums, sizes) if means else self.cost + float(changes.sum())
        if not cost + self.weight * float(problem.errors(counts).sum()) < before:
            return False
        self.labels[points], self.counts, self._sums, self.cost = targets, counts, sums, cost
        if means:
            self.prototypes = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], self.prototypes)
        return True


def stage(moves: Moves, weight: float, passes: int, tolerance: float, reached: float = math.inf) -> Stage:
    """Result at a weight, from the state at a lower one that was `reached`, by way of rungs, or directly."""
    for rung in rungs(max(reached, moves.problem.unit * _LOWEST_RUNG), weight, _STEEP):
        moves.descend(rung, _ON_A_RUNG, 0.0)
    unfair = weight == 0 and moves.problem.kind == "kmeans"  # K-means has ended
    converged = unfair or moves.descend(weight, passes, tolerance)
    history, moves.history = tuple(moves.history), []
    empty = int((moves.counts.sum(axis=0) == 0).sum())
    return Stage(weight, moves.labels.copy(), moves.prototypes.copy(), moves.objective, empty, converged, history)


def near_medians(problem: Problem, medians: Floats, passes: int = 300) -> Ints:
    """(N,) labels of K-median from medians (K, D): nearest medians and, in turn, a step of Weiszfeld for each.

    At the end, each median that is worth it is replaced by one of some random points (PAM, Kaufman and Rousseeuw 1990,
    with the sums of Schubert and Rousseeuw 2019).
    """
    K, least = problem.clusters, math.inf
    for _ in range(passes):
        costs = np.concatenate([problem.costs(block, medians) for block in problem.blocks()])
        labels: Ints = costs.argmin(axis=1)
        own = costs[np.arange(len(costs)), labels]
        if not own.sum() < least * (1 - 1e-6):
            break
        least = own.sum()
        pulls = 1 / np.maximum(own, 1e-9 * problem.unit * K / len(own))
        totals = np.bincount(labels, pulls, K)
        sums = np.stack([np.bincount(labels, pulls * column, K) for column in problem.values.T], axis=1)
        medians = np.where(totals[:, None] > 0, sums / np.maximum(totals, 1e-300)[:, None], medians)
    if K == 1:
        return labels
    changed = True
    for candidate in stream(0, "fair exchange").permutation(len(costs))[: _CANDIDATES * K]:
        if changed:
            labels = costs.argmin(axis=1)
            first, second = np.partition(costs, 1, axis=1)[:, :2].T
        paid = problem.costs(slice(None), problem.values[[candidate]])[:, 0]
        shared = np.minimum(first, paid)
        totals = shared.sum() + np.bincount(labels, np.minimum(second, paid) - shared, K)  # without each median
        changed = bool(totals.min() < first.sum() * (1 - 1e-6))
        if changed:
            costs[:, totals.argmin()] = paid
    nearest: Ints = costs.argmin(axis=1)
    return nearest


def rungs(low: float, high: float, steep: float) -> list[float]:
    """Weights from `low`, below `high`, in equal ratios of at most `steep`, or more if ten weights are not enough."""
    if high <= low:
        return []
    count = min(10, math.ceil(math.log(high / low, steep)))
    return [low * (high / low) ** (i / count) for i in range(count)]
