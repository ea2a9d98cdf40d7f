"""Fair K-means and K-median by moves of points: costs to prototypes, which follow the labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.streams import stream
from fairness.objectives import Kind, distances, medoids
from fairness.optimiser.moves import Floats, Ints, Moves, Points, Problem

_CANDIDATES = 32
"""Number of points for each cluster that are tried as medoids."""


@dataclass(frozen=True, eq=False)
class PrototypeProblem(Problem):
    """Points whose cost is their distance to the prototype of their cluster.

    Attributes:
        values: (N, D) float64, relative to their mean.
        kind: squared distances to means, or distances to medoids.
    """

    values: Floats
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

    def moves(self, labels: Ints) -> "PrototypeMoves":
        return PrototypeMoves(self, labels)

    def costs(self, points: Points, prototypes: Floats) -> Floats:
        """(n, K) costs of some of the points."""
        return distances(self.values[points], prototypes, self.kind, self.norms[points])

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
        least = self.least_changes(labels, partial(self.costs, prototypes=prototypes))  # b_k - b_l <= least_kl
        least[:, range(K), range(K)] = 0.0
        high, low = np.zeros((2, len(least), K))
        for _ in range(K):
            high = (high[:, None] + least).min(axis=2)
            low = (low[:, :, None] - least).max(axis=1)
        prices = (high - high.mean(axis=1, keepdims=True) + low - low.mean(axis=1, keepdims=True)) / 2
        fitted: Floats = np.linalg.lstsq(self.groups.membership, prices, rcond=None)[0]
        return fitted


class PrototypeMoves(Moves):
    """Labels with their means or medoids. The change of the cost of means by a single move has the factors n / (n + 1)
    and n / (n - 1) of Hartigan and Wong (1979)."""

    steep, on_a_rung = 16.0, 4

    problem: PrototypeProblem
    prototypes: Floats

    def __init__(self, problem: PrototypeProblem, labels: Ints) -> None:
        super().__init__(problem, labels)
        K, D = problem.clusters, problem.values.shape[1]
        self._means, self.cost, self.prototypes = problem.kind == "kmeans", math.inf, np.zeros((K, D))
        self._sums = np.stack([np.bincount(labels, problem.values[:, d], K) for d in range(D)], axis=1)
        if self._means:
            sizes = self.counts.sum(axis=0)
            self.prototypes = self._sums / np.maximum(sizes, 1)[:, None]
            self.cost = self._cost_about_means(self._sums, sizes)
        else:
            self.renew()

    def descend(self, weight: float, passes: int, tolerance: float) -> bool:
        """As `Moves.descend`; at weight 0, K-means has ended."""
        return (weight == 0 and self._means) or super().descend(weight, passes, tolerance)

    def costs(self, points: Points) -> Floats:
        return self.problem.costs(points, self.prototypes)

    def alone(self, points: slice, costs: Floats) -> tuple[Floats, Floats]:
        sizes, labels = self.counts.sum(axis=0), self.labels[points]
        own = costs[np.arange(len(labels)), labels]
        if not self._means:
            return own, costs.copy()
        return own * (sizes / np.maximum(sizes - 1, 1))[labels], costs * (sizes / (sizes + 1))

    def between(self, points: Ints, source: int, target: int) -> Floats:
        costs = self.problem.costs(points, self.prototypes[[source, target]])
        return costs[:, 1] - costs[:, 0]

    def renew(self) -> bool:
        if self._means:
            return False
        found = medoids(self.problem.values, self.labels)
        cost = float(found.costs.sum())
        if not cost < self.cost * (1 - 1e-12):
            return False
        filled = np.flatnonzero(found.indices >= 0)
        self.prototypes[filled], self.cost = self.problem.values[found.indices[filled]], cost
        return True

    def accept(
        self, points: Ints, targets: Ints, changes: Floats, sizes: Floats, lowers: Callable[[float], bool]
    ) -> bool:
        if self._means:
            sums, values = self._sums.copy(), self.problem.values[points]
            np.add.at(sums, self.labels[points], -values)
            np.add.at(sums, targets, values)
            cost = self._cost_about_means(sums, sizes)
        else:
            sums, cost = self._sums, self.cost + float(changes.sum())
        if not lowers(cost):
            return False
        self._sums, self.cost = sums, cost
        if self._means:
            self.prototypes = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], self.prototypes)
        return True

    def _cost_about_means(self, sums: NDArray[Any], sizes: Floats) -> float:
        return float(self.problem.norms.sum() - (np.square(sums).sum(axis=1) / np.maximum(sizes, 1)).sum())


def near_medians(problem: PrototypeProblem, medians: Floats, passes: int = 300) -> Ints:
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
