"""Fair clustering by moves of points between clusters.

Minimises, over labels,

    E = cost + weight sum_k KL(U || P_k),

for a cost of which the change is known exactly if a point alone goes to another cluster: that of K-means and K-median
(`fairness.optimiser.prototype_moves`), or the normalised cut (`fairness.optimiser.cut_moves`). The fairness term
depends on the counts of the groups only, so the change of E is known for all points and clusters at once. A pass moves
all points that gain more than the moves before theirs in the same clusters take away, and is taken back if E does not
fall; moves that share no cluster cannot fail. At a large weight single moves are too expensive, so pairs of points of
the same groups also change places, which leaves the counts as they are.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.timing import Stopwatch
from fairness.groups import Groups, ranks, stable_order
from fairness.metrics import divergences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Points = slice | Ints

_BLOCK = 1 << 19
"""Number of costs computed at a time: 4 MiB."""

_LEAST = 1e-9
"""Gain below which a point stays, in units of `Problem.unit` K / N."""

_TRIES = 6
"""Number of attempts of a pass, each with fewer moves, before only moves in different clusters are left."""

_PAIRS = 1000
"""Number of pairs of clusters between which no transfer lowers E, after which a pass of transfers ends."""

_CALM = 3
"""Number of passes in a row that change E by less than the tolerance before a fit ends."""

_LOWEST_RUNG = 0.01
"""Lowest weight that leads to a weight, in units of `Problem.unit`."""


class Update(NamedTuple):
    """One pass over the points.

    Attributes:
        weight: weight of the fairness term.
        objective: E after the pass.
        cost: the part of E without fairness. error: the fairness error.
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
        prototypes: (K, D), relative to the origin of the points; None without.
        objective: E.
        empty: number of empty clusters.
        converged: whether the passes ended by themselves.
        history: the passes that led here from the previous weight.
    """

    weight: float
    labels: Ints
    prototypes: Floats | None
    objective: float
    empty: int
    converged: bool
    history: tuple[Update, ...]


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """Points with groups.

    Attributes:
        groups: J groups of the N points, in C cells.
        clusters: K.
    """

    groups: Groups
    clusters: int

    @property
    @abstractmethod
    def unit(self) -> float:
        """Unit of the weight: the cost of all points in one cluster, divided by K, or a constant of that order."""

    @abstractmethod
    def moves(self, labels: Ints) -> "Moves":
        """Labels (N,) to improve, which are copied."""

    def blocks(self) -> Iterator[slice]:
        rows = max(1, _BLOCK // self.clusters)
        return (slice(first, first + rows) for first in range(0, len(self.groups.cells), rows))

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

    def least_changes(self, labels: Ints, costs: Callable[[Ints], Floats]) -> Floats:
        """(C, K, K) least change of cost of a point of a cell that goes from one cluster to another; inf if there is
        none. `costs` of points are (n, K)."""
        K = self.clusters
        keys = self.groups.cells * K + labels
        least = np.full((len(self.groups.membership) * K, K), np.inf)
        order = stable_order(keys)
        for block in self.blocks():
            points = order[block]
            change = costs(points)
            change -= change[np.arange(len(points)), labels[points]][:, None]
            first = np.flatnonzero(np.diff(keys[points], prepend=-1))
            rows = keys[points[first]]
            least[rows] = np.minimum(least[rows], np.minimum.reduceat(change, first, axis=0))
        return least.reshape(-1, K, K)


class Moves(ABC):
    """Labels of a problem that passes improve at one weight after the other.

    A subclass keeps `cost`, that of the labels, and sets the ratio of the weights that lead to a weight, the number of
    passes at each, and the ratios to it of weights that are visited afterwards.
    """

    steep: ClassVar[float]
    on_a_rung: ClassVar[int]
    visited: ClassVar[tuple[float, ...]] = ()

    cost: float
    prototypes: Floats | None = None

    def __init__(self, problem: Problem, labels: Ints) -> None:
        self.problem, self.labels, self.weight = problem, labels.copy(), 0.0
        self.counts, self.history = problem.counted(labels), list[Update]()
        self._damping, self._least = 1.0, _LEAST * problem.unit * problem.clusters / len(labels)

    @abstractmethod
    def costs(self, points: Points) -> Floats:
        """(n, K) cost of points in each cluster, to first order."""

    @abstractmethod
    def alone(self, points: slice, costs: Floats) -> tuple[Floats, Floats]:
        """What points save as each alone leaves its cluster (n,), and pays in each cluster (n, K), exactly; `costs` are
        those of the points."""

    @abstractmethod
    def between(self, points: Ints, source: int, target: int) -> Floats:
        """(n,) difference of the `costs` of points in two clusters."""

    @abstractmethod
    def accept(
        self, points: Ints, targets: Ints, changes: Floats, sizes: Floats, lowers: Callable[[float], bool]
    ) -> bool:
        """Set `cost`, and all else but `labels`, to that after moves of points if that lowers E; `changes` are those of
        `costs`, and `sizes` (K,) those of the clusters after the moves."""

    def renew(self) -> bool:
        """Compute prototypes that do not follow the labels by themselves; return whether that lowered the cost."""
        return False

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
            renewed = (not moved or (little and turn % 4 == 3)) and self.renew()
            after = self.objective
            self.history.append(
                Update(weight, after, self.cost, (after - self.cost) / (weight or 1.0), moved, watch.lap())
            )
            calm = calm + 1 if before - after <= tolerance * abs(after) else 0
            if calm >= _CALM or not (moved or renewed):
                return True
        return False

    def _move(self) -> int:
        """One pass of moves; returns their number."""
        problem, K, cells = self.problem, self.problem.clusters, self.problem.groups.cells
        sizes, by_group = self.counts.sum(axis=0), problem.groups.membership.T @ self.counts
        one = problem.groups.membership[:, :, None]  # a point of each cell
        errors = problem.errors_of_groups(by_group, sizes)
        entering = self.weight * (problem.errors_of_groups(by_group + one, sizes + 1) - errors)  # (C, K)
        left = problem.errors_of_groups(by_group - one, sizes - 1)
        leaving = np.where(sizes > 1, self.weight * (left - errors), np.inf)
        gains, targets, changes = np.empty(len(cells)), np.empty_like(self.labels), np.empty(len(cells))
        for block in problem.blocks():
            costs, labels = self.costs(block), self.labels[block]
            saved, paid = self.alone(block, costs)
            rows = np.arange(len(labels))
            paid += entering.take(cells[block], axis=0)
            paid[rows, labels] = np.inf
            best = paid.argmin(axis=1)
            gains[block] = saved - leaving[cells[block], labels] - paid[rows, best]
            targets[block], changes[block] = best, costs[rows, best] - costs[rows, labels]
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
        least = self.problem.least_changes(self.labels, self.costs)
        if 2 * least.min() >= -self._least:  # every point is at its nearest prototype
            return 0
        moved = self._transfer(least)
        return moved + self._exchange(self.problem.least_changes(self.labels, self.costs) if moved else least)

    def _transfer(self, least: Floats) -> int:
        """One pass in which clusters give the same share of each cell to another; returns the number of points that
        moved. `least` are the least changes of cost."""
        K, cells = self.problem.clusters, self.problem.groups.cells
        shares = self.counts / np.maximum(self.counts.sum(axis=0), 1)
        rates = np.einsum("ck,ckl->kl", shares, np.where(self.counts[:, :, None] > 0, least, 0.0))
        np.fill_diagonal(rates, np.inf)
        rates[self.counts.sum(axis=0) <= 1] = np.inf  # no cluster may become empty
        free, moved, failed = np.ones(K, dtype=bool), 0, 0
        for source, target in zip(*np.unravel_index(np.argsort(rates, axis=None), rates.shape), strict=True):
            if rates[source, target] >= -self._least or failed == _PAIRS:
                break
            if not (free[source] and free[target]):
                continue
            points = np.flatnonzero(self.labels == source)
            change = self.between(points, source, target)
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
            failed += count == 0
        return moved

    def _exchange(self, least: Floats) -> int:
        """One pass in which points of the same cell change places; returns the number of points that moved."""
        problem, K, cells = self.problem, self.problem.clusters, self.problem.groups.cells
        targets, changes, hopes = np.empty_like(self.labels), np.empty(len(cells)), np.empty(len(cells))
        for block in problem.blocks():
            labels = self.labels[block]
            change, rows = self.costs(block), np.arange(len(labels))
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
        counts, before = self.counts.copy(), self.objective
        cells, sources = self.problem.groups.cells[points], self.labels[points]
        np.add.at(counts, (cells, sources), -1.0)
        np.add.at(counts, (cells, targets), 1.0)
        sizes = counts.sum(axis=0)
        if (sizes[self.counts.sum(axis=0) > 0] == 0).any():
            return False
        fair = self.weight * float(self.problem.errors(counts).sum())
        if not self.accept(points, targets, changes, sizes, lambda cost: cost + fair < before):
            return False
        self.labels[points], self.counts = targets, counts
        return True


def stage(moves: Moves, weight: float, passes: int, tolerance: float, reached: float = math.inf) -> Stage:
    """Result at a weight, from the state at a lower one that was `reached`, by way of rungs, or directly; from there
    other weights are visited in turn, and those kept after which E is lower at the return."""
    for rung in rungs(max(reached, moves.problem.unit * _LOWEST_RUNG), weight, moves.steep):
        moves.descend(rung, min(moves.on_a_rung, passes), 0.0)
    converged = moves.descend(weight, passes, tolerance)
    for ratio in moves.visited if weight > 0 else ():
        other = moves.problem.moves(moves.labels)
        other.descend(ratio * weight, min(moves.on_a_rung, passes), 0.0)
        ended = other.descend(weight, passes, tolerance)
        if other.objective < moves.objective * (1 - 1e-9):
            other.history = moves.history + other.history
            moves, converged = other, ended
    history, moves.history = tuple(moves.history), []
    empty = int((moves.counts.sum(axis=0) == 0).sum())
    prototypes = None if moves.prototypes is None else moves.prototypes.copy()
    return Stage(weight, moves.labels.copy(), prototypes, moves.objective, empty, converged, history)


def rungs(low: float, high: float, steep: float) -> list[float]:
    """Weights from `low`, below `high`, in equal ratios of at most `steep`, or more if ten weights are not enough."""
    if high <= low:
        return []
    count = min(10, math.ceil(math.log(high / low, steep)))
    return [low * (high / low) ** (i / count) for i in range(count)]
