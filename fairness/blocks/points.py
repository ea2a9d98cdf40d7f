"""The points of a fair clustering in blocks on the workers of a Dask cluster, a `fairness.optimiser.store.Store`.

A worker stores a block as `fairness.optimiser.points.Points` and processes it as in memory; the sums of the blocks are
added in this process, in block order. Each log S0 is a new value, so that Dask can recompute one that was lost with its
worker from the previous ones.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.blocks.cluster import Kept
from clustering.blocks.results import dask_array
from clustering.blocks.rows import BlockRows
from clustering.numbering import first_points
from clustering.optimiser.centres import Rows
from fairness.optimiser.compressed import Totals
from fairness.optimiser.points import Points
from fairness.optimiser.store import Cost, Labels, Logs, Moments, Sums

if TYPE_CHECKING:
    from distributed import Future


class BlockPoints:
    """N points with D coordinates on the workers, each in one of C cells, for K clusters."""

    def __init__(self, rows: BlockRows, origin: Tensor, cell_of: NDArray[np.int64], cells: int, clusters: int) -> None:
        """Points from rows on the workers minus `origin` (D,), with cells `cell_of` (N,) in 0..cells-1, for K =
        `clusters`."""
        self._origin = origin
        self._rows, self._cluster, self._sizes = rows, rows.cluster, np.diff(rows.offsets).tolist()
        self.cells, self.clusters, self.count, self.dtype = cells, clusters, rows.points, rows.dtype
        codes = np.split(cell_of.astype(np.min_scalar_type(cells)), rows.offsets[1:-1])
        self._parts: list[Future]
        self._parts, summaries = self._cluster.run(_sorted, rows.parts, origin, codes, cells, clusters)
        self.largest = max(each.largest for each in summaries)
        self.lengths = sum(each.lengths for each in summaries)
        self.squared_lengths = sum(each.squared_lengths for each in summaries)

    def begin(self, labels: Labels, mixing: float) -> Logs:
        return self._cluster.begin(_begun, self._parts, labels, mixing)

    def sweep(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        totals: Totals = _added(self._cluster.ask(_swept, self._parts, logs, cost, scale, shift, prices))
        return totals

    def take(self, logs: Logs, cost: Cost, scale: Tensor, shift: Tensor) -> tuple[Logs, Moments]:
        states, moments = self._cluster.run(_taken, self._parts, logs, cost, scale, shift)
        return states, _added(moments)

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Labels, Moments]:
        labels, moments = self._cluster.run(_assigned, self._parts, cost, prices)
        return labels, _added(moments)

    def same(self, labels: Labels, others: Labels) -> bool:
        return all(self._cluster.ask(_same, labels, others))

    def labels(self, logs: Logs) -> Labels:
        return self._cluster.begin(_labels, self._parts, logs)

    def counts(self, labels: Labels) -> Tensor:
        counts: list[Tensor] = self._cluster.ask(_counts, self._parts, labels)
        return torch.stack(counts).sum(dim=0)

    def first_points(self, labels: Labels) -> NDArray[np.int64]:
        return self._rows.first_points(self._cluster.ask(_first_points, labels, self.clusters))

    def renumbered(self, labels: Labels, numbers: Tensor) -> Labels:
        return self._cluster.begin(_renumbered, labels, numbers)

    def farthest(self, cost: Cost, count: int) -> Tensor:
        parts = self._cluster.ask(_farthest, self._parts, cost, count)
        costs, rows = (torch.cat(each) for each in zip(*parts, strict=True))
        return rows[costs.topk(count).indices]

    def sums(self, logs: Logs, statistic: Sums) -> tuple[Tensor, ...]:
        sums: tuple[Tensor, ...] = _added(self._cluster.ask(_summed, self._parts, logs, statistic))
        return sums

    def rows_at(self, indices: Tensor) -> Tensor:
        return self._rows.values_at(indices) - self._origin

    def nearest(self, labels: Labels, middles: Tensor, count: int) -> tuple[Tensor, Tensor]:
        firsts = np.cumsum([0, *self._sizes[:-1]]).tolist()
        parts = self._cluster.ask(_nearest, self._parts, labels, middles, count, firsts)
        squared, indices, rows = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
        best = squared.sort(dim=1, stable=True).indices[:, :count]
        return indices.gather(1, best), rows.gather(1, best[:, :, None].expand(-1, -1, rows.shape[2]))

    def distances(self, labels: Labels, candidates: Tensor) -> Tensor:
        sums: list[Tensor] = self._cluster.ask(_distances, self._parts, labels, candidates)
        return torch.stack(sums).sum(dim=0)

    def exchanged(self, cost: Cost, prices: Tensor, candidates: Cost, count: int) -> Tensor:
        totals: list[Tensor] = self._cluster.ask(_exchanged, self._parts, cost, prices, candidates, count)
        return torch.stack(totals).sum(dim=0)

    def as_dask_array(self, labels: Labels) -> Any:
        """The labels as a dask array whose blocks stay on the workers."""
        parts = self._cluster.begin(_plain, labels)
        return dask_array(parts, [(size,) for size in self._sizes], torch.int64)


class _Lengths(NamedTuple):
    largest: float
    lengths: float
    squared_lengths: float


def _added(tuples: list[Any]) -> Any:
    """Elementwise sums of tuples of tensors, returned as a tuple of the same type."""
    parts = (torch.stack(each).sum(dim=0) for each in zip(*tuples, strict=True))
    return type(tuples[0])(*parts) if hasattr(tuples[0], "_fields") else tuple(parts)


def _sorted(rows: Rows, origin: Tensor, codes: NDArray[Any], cells: int, clusters: int) -> Kept:
    points = Points(rows.values - origin, torch.from_numpy(codes.astype(np.int64)), cells, clusters)
    return Kept(points, _Lengths(points.largest, points.lengths, points.squared_lengths))


def _begun(points: Points, labels: Tensor, mixing: float) -> Kept:
    return Kept(points.begin(labels, mixing))


def _swept(
    points: Points, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None
) -> Totals:
    return points.sweep(logs, cost, scale, shift, prices)


def _taken(points: Points, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor) -> Kept:
    return Kept(*points.take([log.clone() for log in logs], cost, scale, shift))


def _assigned(points: Points, cost: Cost, prices: Tensor | None) -> Kept:
    return Kept(*points.assign(cost, prices))


def _same(labels: Tensor, others: Tensor) -> bool:
    return torch.equal(labels, others)


def _labels(points: Points, logs: list[Tensor]) -> Kept:
    return Kept(points.labels(logs))


def _plain(labels: Tensor) -> NDArray[np.int64]:
    return labels.numpy()


def _counts(points: Points, labels: Tensor) -> Tensor:
    return points.counts(labels)


def _first_points(labels: Tensor, clusters: int) -> NDArray[np.int64]:
    return first_points(labels.numpy(), clusters)


def _renumbered(labels: Tensor, numbers: Tensor) -> Kept:
    return Kept(numbers[labels])


def _farthest(points: Points, cost: Cost, count: int) -> tuple[Tensor, Tensor]:
    farthest = points.lowest(cost).topk(min(count, points.count))
    return farthest.values, points.rows[farthest.indices]


def _summed(points: Points, logs: list[Tensor], statistic: Sums) -> tuple[Tensor, ...]:
    return points.sums(logs, statistic)


def _nearest(points: Points, labels: Tensor, middles: Tensor, count: int, first: int) -> tuple[Tensor, Tensor, Tensor]:
    indices, rows = points.nearest(labels, middles, count)
    squared = (rows - middles[:, None].to(rows)).square().sum(dim=2).double().masked_fill(indices < 0, torch.inf)
    return squared, torch.where(indices < 0, indices, first + indices), rows


def _distances(points: Points, labels: Tensor, candidates: Tensor) -> Tensor:
    return points.distances(labels, candidates)


def _exchanged(points: Points, cost: Cost, prices: Tensor, candidates: Cost, count: int) -> Tensor:
    return points.exchanged(cost, prices, candidates, count)
