"""Interface of a fit to its points, implemented by `fairness.optimiser.points`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairness.optimiser.compressed import Sweep, Totals

Labels = Any
"""(N,) clusters of the points, stored where the points are."""

Logs = Any
"""log S0, the reference assignments of the steps, N K numbers stored where the points are."""

Sums = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]
"""Sums over some points, computed from rows (n, D), squared norms (n,), S0 (K, n), which may be overwritten, and a
buffer of the same size."""


class Cost(Protocol):
    """Costs of points at clusters."""

    def into(self, out: Tensor, rows: Tensor, norms: Tensor) -> Tensor | None:
        """Write costs (K, n) of rows (n, D) with squared norms (n,) to `out`, minus an offset (n,) that is returned."""
        ...


class Moments(NamedTuple):
    """Sums over points that determine the prototypes; float64, on the device of the points.

    Attributes:
        counts: (C, K) sum of s_pk by cell.
        sums: (K, D) sum of s_pk x_p.
        costs: (K,) sum of s_pk a_pk.
    """

    counts: Tensor
    sums: Tensor
    costs: Tensor


class Store(Protocol):
    """N points with D coordinates, each in one of C cells, for K clusters.

    Attributes:
        cells: C. clusters: K. count: N. dtype: dtype of the coordinates. largest: largest squared norm.
        lengths: sum of ||x_p||. squared_lengths: sum of ||x_p||^2.
    """

    cells: int
    clusters: int
    count: int
    dtype: torch.dtype
    largest: float
    lengths: float
    squared_lengths: float

    def begin(self, labels: Labels, mixing: float) -> Logs:
        """log S0 with 1 - mixing in the cluster of the label, and the rest spread evenly."""
        ...

    def sweep(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        """Totals at T (C,) and B (C, K), float64; `least` is computed if prices (C, K) are passed."""
        ...

    def sweeps(self, logs: Logs, cost: Cost) -> Sweep:
        """`sweep` for fixed S0 and costs."""
        ...

    def take(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor) -> tuple[Logs, Moments]:
        """Compute S at T and B, floored, and take it as the new S0 (the old one may be overwritten); also return its
        moments."""
        ...

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Labels, Moments]:
        """Labels of lowest cost plus price (C, K), ties to the lowest index, and their moments."""
        ...

    def same(self, labels: Labels, others: Labels) -> bool:
        """Whether two labellings are equal."""
        ...

    def labels(self, logs: Logs) -> Labels:
        """argmax S0, ties to the lowest index."""
        ...

    def first_points(self, labels: Labels) -> NDArray[np.int64]:
        """(K,) index of the first point of each cluster, N for an empty one."""
        ...

    def renumbered(self, labels: Labels, numbers: Tensor) -> Labels:
        """Labels with each label k replaced by numbers[k] (K,)."""
        ...

    def counts(self, labels: Labels) -> Tensor:
        """(C, K) int64, number of points of each cell in each cluster."""
        ...

    def farthest(self, cost: Cost, count: int) -> Tensor:
        """(count, D) points with the highest cost at their cheapest cluster, highest first."""
        ...

    def rows_at(self, indices: Tensor) -> Tensor:
        """(n, D) points with these original indices (n,)."""
        ...

    def nearest(self, labels: Labels, middles: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The points of each cluster nearest to its middle (K, D).

        Returns:
            (K, c) original indices, -1 if a cluster has fewer points, and (K, c, D) rows.
        """
        ...

    def distances(self, labels: Labels, candidates: Tensor) -> Tensor:
        """(K, c) sums of the distances of a cluster's points to candidates (K, c, D)."""
        ...

    def exchanged(self, cost: Cost, prices: Tensor, candidates: Cost, count: int) -> Tensor:
        """(n, K) total cost at prices (C, K) if one of n = `count` candidate prototypes replaces the prototype of a
        cluster."""
        ...

    def sums(self, logs: Logs, statistic: Sums) -> tuple[Tensor, ...]:
        """Sums over all points, float64, of the function `statistic` applied to blocks."""
        ...
