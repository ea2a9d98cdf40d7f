"""Moves of single points between clusters that lower the objective of a weighted kernel K-means.

With weights w of the points, the objective is -sum_k S_k^T A S_k / w^T S_k: minus the average association if all
weights are 1, and the normalised cut minus K if they are the degrees of A (Dhillon, Guan and Kulis 2004). Rounds of
kernel K-means, in which all points move together, stop when no point is nearer to another mean. But the move of a point
also moves both means, and may lower the objective even then (Hartigan and Wong 1979).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Labels = NDArray[np.int64]
Numbers = NDArray[np.float64]

_ROUNDING = 1e-10
"""Smaller gains, relative to the sum of the clusters' terms, count as zero."""

_AT_ONCE = 1 << 20
"""Number of gains (points times clusters) computed at a time: 8 MiB."""


class Moved(NamedTuple):
    """Result of the moves.

    Attributes:
        labels: (N,).
        rounds: number of passes through all points.
        converged: whether no move of a single point lowers the objective by more than rounding.
    """

    labels: Labels
    rounds: int
    converged: bool


def single_moves(
    kernel: csr_array, weights: Numbers, labels: Labels, clusters: int, max_rounds: int, *, constant: float = 0.0
) -> Moved:
    """Move single points as long as that lowers the objective, and rounds are left.

    A round computes the gains of all moves, one sparse product at the first and then kept up to date, and makes those
    that still lower the objective when their turn comes, the largest first. No cluster is left by its last point; empty
    ones first get a point each, those whose move costs least.

    Args:
        kernel: (N, N) symmetric a_pq, its diagonal counts.
        weights: (N,) > 0.
        labels: (N,) in 0..K-1.
        clusters: K <= N.
        max_rounds: at most.
        constant: what every a_pq is larger by than the kernel says, those of p = q included.
    """
    state = _Clusters(kernel, weights, labels, clusters, constant)
    state.fill()
    for round_number in range(max_rounds):
        if sum(state.move(point) for point in state.worthwhile()) == 0:
            return Moved(state.labels, round_number + 1, converged=True)
    return Moved(state.labels, max_rounds, converged=False)


class _Clusters:
    """Labels, and the sums from which the gains of moves are computed."""

    def __init__(self, kernel: csr_array, weights: Numbers, labels: Labels, clusters: int, constant: float) -> None:
        points = np.arange(len(labels))
        members = csr_array((np.ones(len(labels)), (points, labels)), shape=(len(labels), clusters))
        self.kernel, self.weights, self.labels, self.constant = kernel, weights, labels.copy(), constant
        # (N, K) sums of a_pq over the points q != p of a cluster, without the constant.
        self.links = (kernel @ members).toarray()
        self.sizes = np.bincount(labels, minlength=clusters).astype(np.float64)
        self.masses = np.bincount(labels, weights, clusters)
        self.within = np.bincount(labels, self.links[points, labels], clusters) + constant * self.sizes**2
        self.links[points, labels] -= kernel.diagonal()
        self.diagonal = kernel.diagonal() + constant
        self.allowance = 0.0

    def terms(self) -> Numbers:
        """(K,) S_k^T A S_k / w^T S_k, 0 for empty clusters."""
        return self.within / np.where(self.sizes > 0, self.masses, 1.0)

    def leaving(self, points: NDArray[np.intp]) -> Numbers:
        """(n,) gain of the term of its cluster when a point leaves it; -inf for the last point of a cluster."""
        clusters = self.labels[points]
        others = self.links[points, clusters] + self.constant * (self.sizes[clusters] - 1)
        rest = self.within[clusters] - 2 * others - self.diagonal[points]
        is_alone = self.sizes[clusters] == 1
        masses = np.where(is_alone, 1.0, self.masses[clusters] - self.weights[points])
        return np.asarray(np.where(is_alone, -np.inf, rest / masses - self.terms()[clusters]))

    def joining(self, points: NDArray[np.intp]) -> Numbers:
        """(n, K) gain of the term of each cluster when a point joins it; -inf for its own."""
        sums: Numbers = 2 * (self.links[points] + self.constant * self.sizes)
        sums += self.diagonal[points, None]
        sums += self.within
        sums /= self.masses + self.weights[points, None]
        sums -= self.terms()
        sums[np.arange(len(points)), self.labels[points]] = -np.inf
        return sums

    def worthwhile(self) -> list[int]:
        """Points whose move currently lowers the objective, by descending gain."""
        self.allowance = _ROUNDING * float(np.abs(self.terms()).sum())
        block_size = max(1, _AT_ONCE // len(self.sizes))
        points = np.arange(len(self.labels))
        parts = [points[i : i + block_size] for i in range(0, len(points), block_size)]
        gains = np.concatenate([self.leaving(part) + self.joining(part).max(axis=1) for part in parts])
        indices = np.flatnonzero(gains > self.allowance)
        return [int(point) for point in indices[np.argsort(-gains[indices], kind="stable")]]

    def move(self, point: int) -> bool:
        """Make the move of the point with the largest gain, if that is positive."""
        cluster = self.labels[point]
        if self.sizes[cluster] == 1:
            return False
        weight, diagonal, terms = self.weights[point], self.diagonal[point], self.terms()
        links = 2 * (self.links[point] + self.constant * self.sizes)
        joined = (self.within + links + diagonal) / (self.masses + weight) - terms
        joined[cluster] = -np.inf
        best = int(joined.argmax())
        rest = self.within[cluster] - links[cluster] + 2 * self.constant - diagonal
        left = rest / (self.masses[cluster] - weight) - terms[cluster]
        if not joined[best] + left > self.allowance:
            return False
        self._put(point, best)
        return True

    def fill(self) -> None:
        """Move to each empty cluster the point whose removal costs least."""
        for cluster in np.flatnonzero(self.sizes == 0):
            gains = self.leaving(np.arange(len(self.labels))) + self.diagonal / self.weights
            self._put(int(gains.argmax()), int(cluster))

    def _put(self, point: int, cluster: int) -> None:
        current = self.labels[point]
        links, weight, diagonal = self.links[point], self.weights[point], self.diagonal[point]
        self.within[current] -= 2 * (links[current] + self.constant * (self.sizes[current] - 1)) + diagonal
        self.within[cluster] += 2 * (links[cluster] + self.constant * self.sizes[cluster]) + diagonal
        self.masses[current] -= weight
        self.masses[cluster] += weight
        self.sizes[current] -= 1
        self.sizes[cluster] += 1
        arcs = slice(self.kernel.indptr[point], self.kernel.indptr[point + 1])
        ends, values = self.kernel.indices[arcs], self.kernel.data[arcs]
        self.links[ends, current] -= values
        self.links[ends, cluster] += values
        own_link = diagonal - self.constant  # a point is not its own neighbour
        self.links[point, current] += own_link
        self.links[point, cluster] -= own_link
        self.labels[point] = cluster
