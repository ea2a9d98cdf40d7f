"""What a fit asks of its points, wherever they lie: in this process (`fairness.optimiser.points`), or in blocks on the
workers of a Dask cluster (`fairness.blocks`)."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairness.optimiser.compressed import Totals

Labels = Any
"""(N,) clusters of the points, where these are."""

Logs = Any
"""log S0, the assignments from which steps are counted, where the points are: N K numbers."""

Sums = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]
"""Sums over some points: of rows (n, D), squared lengths (n,), S0 (K, n), which may be overwritten, and room for as
many numbers."""


class Cost(Protocol):
    """What points pay for clusters."""

    def into(self, out: Tensor, rows: Tensor, norms: Tensor) -> Tensor | None:
        """Write (K, n) costs of rows (n, D) with squared lengths norms (n,), less what is returned (n,)."""
        ...


class Moments(NamedTuple):
    """Sums over points from which prototypes follow; float64, on the device of the points.

    Attributes:
        counts: (C, K) sum of s_pk by cell.
        sums: (K, D) sum of s_pk x_p.
        costs: (K,) sum of s_pk a_pk.
    """

    counts: Tensor
    sums: Tensor
    costs: Tensor


class Store(Protocol):
    """N points of D coordinates, each of one of C cells, for K clusters.

    Attributes:
        cells: C. clusters: K. count: N. dtype: of the coordinates. largest: squared length.
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
        """log S0 with 1 - mixing in the cluster of the labels, the rest evenly."""
        ...

    def sweep(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        """Totals at T (C,) and B (C, K), float64; `least` of the prices (C, K) where these are given."""
        ...

    def take(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor) -> tuple[Logs, Moments]:
        """S at T and B, floored, as the new S0, which may be written over the old one; its moments."""
        ...

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Labels, Moments]:
        """Clusters of least cost and price (C, K), ties to the lowest, and their moments."""
        ...

    def same(self, labels: Labels, others: Labels) -> bool:
        """Whether two assignments are the same."""
        ...

    def labels(self, logs: Logs) -> Labels:
        """argmax S0, ties to the lowest."""
        ...

    def first_points(self, labels: Labels) -> NDArray[np.int64]:
        """(K,) the first point of each cluster, N where it has none."""
        ...

    def renumbered(self, labels: Labels, numbers: Tensor) -> Labels:
        """Labels with the numbers (K,) in the place of those that they have."""
        ...

    def counts(self, labels: Labels) -> Tensor:
        """(C, K) int64 points of the cells in the clusters."""
        ...

    def farthest(self, cost: Cost, count: int) -> Tensor:
        """(count, D) points that pay most for the cluster of least cost, most first."""
        ...

    def rows_at(self, indices: Tensor) -> Tensor:
        """(n, D) the points that came as these (n,)."""
        ...

    def nearest(self, labels: Labels, middles: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Of each cluster the points nearest to a middle (K, D): (K, c) where they came, -1 where it has fewer, and
        (K, c, D) rows."""
        ...

    def distances(self, labels: Labels, tried: Tensor) -> Tensor:
        """(K, c) sums of the distances of a cluster's points to points (K, c, D)."""
        ...

    def exchanged(self, cost: Cost, prices: Tensor, tried: Cost, count: int) -> Tensor:
        """(n, K) what points pay at prices (C, K), where one of n = `count` other prototypes stands in for that of a
        cluster."""
        ...

    def sums(self, logs: Logs, of: Sums) -> tuple[Tensor, ...]:
        """Sums over all points, float64, of what `of` gives of those of a block."""
        ...
