"""Fair normalised cut by moves of points."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from fairness.optimiser.moves import Floats, Ints, Moves, Points, Problem


@dataclass(frozen=True, eq=False)
class CutProblem(Problem):
    """Points of a graph whose cost is the normalised cut, K - sum_k within_k / volume_k, with within_k = S_k' W S_k and
    volume_k = d' S_k for the indicator S_k of cluster k and the degrees d. A cluster without volume contributes one.

    Attributes:
        graph: (N, N) symmetric W >= 0, float64, with zero diagonal.
    """

    graph: csr_array
    unit = 1.0  # the cut is between 0 and K

    @cached_property
    def degrees(self) -> Floats:
        """(N,) d, the row sums of W."""
        return np.asarray(self.graph.sum(axis=1), dtype=np.float64)

    @cached_property
    def least(self) -> float:
        """Volume up to which a cluster counts as one without arcs: what rounding leaves as its last arc goes."""
        return 1e-12 * float(self.degrees.sum())

    def shares(self, within: Floats, volumes: Floats) -> Floats:
        """within / volume, 0 for clusters without arcs."""
        shares: Floats = within / np.where(volumes > self.least, volumes, np.inf)
        return shares

    def moves(self, labels: Ints) -> "CutMoves":
        return CutMoves(self, labels)


class CutMoves(Moves):
    """Labels with the links W S of each point to each cluster, from which all changes of the cut follow."""

    steep, on_a_rung, visited = 2.0, 40, (4.0, 0.25)

    problem: CutProblem

    def __init__(self, problem: CutProblem, labels: Ints) -> None:
        super().__init__(problem, labels)
        K, rows = problem.clusters, np.arange(len(labels))
        indicators = csr_array((np.ones(len(labels)), (rows, labels)), shape=(len(labels), K))
        self.links: Floats = (problem.graph @ indicators).toarray()
        self._volumes = _totals(labels, problem.degrees, K)
        self._within = _totals(labels, self.links[rows, labels], K)
        self.cost = K - float(problem.shares(self._within, self._volumes).sum())

    def costs(self, points: Points, clusters: Any = slice(None)) -> Floats:
        """(n, K) gradient of the cut, d_p within_k / volume_k^2 - 2 (W S_k)_p / volume_k, for some of the clusters."""
        volumes, shares = self._volumes[clusters], self.problem.shares
        slopes = shares(shares(self._within[clusters], volumes), volumes)
        paid: Floats = np.outer(self.problem.degrees[points], slopes)
        return paid - shares(2 * self.links[points][:, clusters], volumes)

    def alone(self, points: slice, costs: Floats) -> tuple[Floats, Floats]:
        degrees, links, labels = self.problem.degrees[points], self.links[points], self.labels[points]
        share, own = self.problem.shares, links[np.arange(len(labels)), labels]
        shares = share(self._within, self._volumes)
        entered = share(self._within + 2 * links, self._volumes + degrees[:, None])
        left = share(self._within[labels] - 2 * own, self._volumes[labels] - degrees)
        return left - shares[labels], shares - entered

    def between(self, points: Ints, source: int, target: int) -> Floats:
        costs = self.costs(points, [source, target])
        return costs[:, 1] - costs[:, 0]

    def accept(
        self, points: Ints, targets: Ints, changes: Floats, sizes: Floats, lowers: Callable[[float], bool]
    ) -> bool:
        problem, K, sources = self.problem, self.problem.clusters, self.labels[points]
        rows, degrees = problem.graph[points], problem.degrees[points]
        volumes = self._volumes - _totals(sources, degrees, K) + _totals(targets, degrees, K)
        signs, each = np.repeat([1.0, -1.0], len(points)), np.concatenate([targets, sources])
        twice = np.concatenate([points, points])
        change = csr_array((signs, (twice, each)), shape=(len(self.labels), K))
        linked = (rows @ change).toarray() + 2 * self.links[points]  # W S of before and after, added
        within = self._within.copy()
        for clusters, sign in ((targets, 1.0), (sources, -1.0)):
            within += sign * _totals(clusters, linked[np.arange(len(points)), clusters], K)
        cost = K - float(problem.shares(within, volumes).sum())
        if not lowers(cost):
            return False
        arcs = coo_array(rows)
        np.add.at(self.links, (arcs.col, targets[arcs.row]), arcs.data)
        np.add.at(self.links, (arcs.col, sources[arcs.row]), -arcs.data)
        self._within, self._volumes, self.cost = within, volumes, cost
        return True


def _totals(clusters: Ints, values: Floats, K: int) -> Floats:
    """(K,) sums of values (n,) by cluster."""
    totals: Floats = np.bincount(clusters, values, K).astype(np.float64, copy=False)
    return totals
