"""The points of a fair clustering, sorted by cell, with block-wise sweeps over them.

A block is small enough to stay in the cache between operations and belongs to one cell, so that its prices are one
vector. Each core processes blocks on its own, because operations this short would lose more time in synchronisation
than they take. Sums within a block have the dtype of the points; sums over blocks are float64 and in block order,
whatever the number of cores.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from clustering.foundation.cores import on_each_core
from fairness.optimiser.compressed import Sweep, Totals
from fairness.optimiser.few_points import FEW, FewPoints

R = TypeVar("R")

Sums = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]
"""Sums over some points, computed from rows (n, D), squared norms (n,), S0 (K, n), which may be overwritten, and a
buffer of the same size."""

_BLOCK = 1 << 17
"""Number of assignments K n processed at a time: 512 KiB in float32, with three such arrays."""

_BLOCK_ON_GPU = 1 << 24

_DISTANCES = 1 << 21
"""Number of distances between points and candidates computed at a time: 16 MiB."""

FLOOR = 1e-12
"""Lower bound of an assignment whenever costs change: otherwise log s would decrease without bound and could not
recover."""

_VANISHING = 0.8
"""Exponents below this share of the logarithm of the smallest normal number are raised to it. Such values do not affect
any sum, but subnormal numbers are about ten times slower."""

_CERTAIN = -1e-3
"""Lower bound of log s of a point that belongs to one cluster."""


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


class Block(NamedTuple):
    """Contiguous points of one cell."""

    cell: int
    at: slice

    @property
    def points(self) -> int:
        return int(self.at.stop - self.at.start)


class Points:
    """N points with D coordinates on one device, each in one of C cells, for K clusters.

    The reference assignments of the steps, log S0, are a list of (K, n) tensors, one for each block.

    Attributes:
        cells: C. clusters: K. count: N. dtype: dtype of the coordinates.
        largest: largest squared norm. lengths: sum of ||x_p||. squared_lengths: sum of ||x_p||^2.
        rows: (N, D), sorted by cell. norms: (N,) their squared norms.
        order: (N,) original indices.
        blocks: ranges of rows that are processed together.
    """

    def __init__(self, rows: Tensor, cell_of: Tensor, cells: int, clusters: int) -> None:
        """Sort rows (N, D) by cell, given as `cell_of` (N,) in 0..cells-1, for K = `clusters`."""
        self.order = cell_of.sort(stable=True).indices
        self.rows = rows[self.order]
        self.norms = self.rows.square().sum(dim=1)
        self.cells, self.clusters, self.count, self.dtype = cells, clusters, len(rows), rows.dtype
        self.largest = float(self.norms.max())
        self.lengths = float(self.norms.sqrt().sum(dtype=torch.float64))
        self.squared_lengths = float(self.norms.sum(dtype=torch.float64))
        at_once = max(1, (_BLOCK_ON_GPU if rows.is_cuda else _BLOCK) // clusters)
        ends = [0, *torch.bincount(cell_of, minlength=cells).cumsum(0).tolist()]
        self.blocks = [
            Block(cell, slice(first, min(first + at_once, ends[cell + 1])))
            for cell in range(cells)
            for first in range(ends[cell], ends[cell + 1], at_once)
        ]
        self._cell_of_block = torch.tensor([block.cell for block in self.blocks], device=rows.device)

    def begin(self, labels: Tensor, mixing: float) -> list[Tensor]:
        """log S0 with 1 - mixing in the cluster of labels (N,), given in original order, and the rest spread evenly."""
        sorted_labels, other = labels[self.order], max(mixing / self.clusters, FLOOR)
        low, high = torch.tensor([other, 1 - (self.clusters - 1) * other], dtype=torch.float64).log().tolist()
        logs = []
        for block in self.blocks:
            log = self.rows.new_full((self.clusters, block.points), low)
            logs.append(log.scatter_(0, sorted_labels[block.at][None], high))
        return logs

    def sweep(self, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        """Totals at T (C,) and B (C, K), float64; `least` is computed if prices (C, K) are passed."""
        scales, shifts = scale.tolist(), shift.to(self.rows)[:, :, None]
        cell_prices = None if prices is None else prices.to(self.rows)[:, :, None]

        def swept(i: int, buffer: Tensor, other: Tensor) -> Tensor:
            cell, (a, lowest) = self.blocks[i].cell, self._costs(self.blocks[i], cost, buffer)
            least = lowest.new_zeros(())
            if cell_prices is not None:
                least = torch.add(a, cell_prices[cell], out=other).amin(dim=0).add_(lowest).sum()
            s, norm, highest = _assigned(a, logs[i], scales[cell], shifts[cell], other)
            log_norms = highest.add_(norm.log()).sum()
            share = norm.reciprocal_()  # scaling sums by 1 / norm saves a pass over s
            counts = s @ share
            # One array for all sums: with few points the number of operations determines the time.
            return torch.cat((counts, torch.stack((lowest.sum(), (s.mul_(a) @ share).sum(), log_norms, least))))

        parts = torch.stack([block_sums for _, block_sums in self._each(swept)]).double()
        sums = parts.new_zeros(self.cells, parts.shape[1]).index_add_(0, self._cell_of_block, parts).cpu()
        return Totals(sums[:, : self.clusters], *sums[:, self.clusters :].unbind(dim=1))

    def sweeps(self, logs: list[Tensor], cost: Cost) -> Sweep:
        """`sweep` for fixed S0 and costs."""
        if self.rows.is_cuda or self.count * self.clusters > FEW:
            return partial(self.sweep, logs, cost)
        parts = [part for _, part in self._each(lambda i, room, _: self._own_costs(self.blocks[i], cost, room))]
        costs, lowest = (torch.cat(values, dim=-1) for values in zip(*parts, strict=True))
        sizes = torch.tensor([block.points for block in self.blocks])
        cell_of = self._cell_of_block.repeat_interleave(sizes)
        return FewPoints(torch.cat(logs, dim=1), costs, lowest, cell_of, self.cells)

    def take(self, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor) -> tuple[list[Tensor], Moments]:
        """Make S at T and B, floored, the new S0, overwriting the old one; also returns its moments."""
        scales, shifts = scale.tolist(), shift.to(self.rows)[:, :, None]

        def taken(i: int, buffer: Tensor, other: Tensor) -> Moments:
            block = self.blocks[i]
            a, lowest = self._costs(block, cost, buffer)
            s, norm, _ = _assigned(a, logs[i], scales[block.cell], shifts[block.cell], other)
            s.div_(norm).clamp_(min=FLOOR)
            s.div_(s.sum(dim=0))
            torch.log(s, out=logs[i])
            return self._moments(block, s, a, lowest)

        return logs, self._sum_of_moments((block, moments) for block, moments in self._each(taken))

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Tensor, Moments]:
        """(N,) labels of lowest cost plus price (C, K) in original order, ties to the lowest index; and moments."""
        labels = torch.empty_like(self.order)
        cell_prices = None if prices is None else prices.to(self.rows)[:, :, None]

        def assigned(i: int, buffer: Tensor, other: Tensor) -> tuple[Tensor, Moments]:
            block = self.blocks[i]
            a, lowest = self._costs(block, cost, buffer)
            nearest = (
                (a if cell_prices is None else torch.add(a, cell_prices[block.cell], out=other)).min(dim=0).indices
            )
            return nearest, self._moments(block, other.zero_().scatter_(0, nearest[None], 1.0), a, lowest)

        def noted() -> Iterator[tuple[Block, Moments]]:
            for block, (nearest, moments) in self._each(assigned):
                labels[self.order[block.at]] = nearest
                yield block, moments

        return labels, self._sum_of_moments(noted())

    def labels(self, logs: list[Tensor]) -> Tensor:
        """(N,) argmax S0 in original order, ties to the lowest index."""
        labels = torch.empty_like(self.order)
        for block, log in zip(self.blocks, logs, strict=True):
            labels[self.order[block.at]] = log.max(dim=0).indices
        return labels

    def between(self, logs: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each cell, original indices and rows (n, K) of S0 of the points that are between clusters."""
        parts_by_cell: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for block, log in zip(self.blocks, logs, strict=True):
            open_ones = log.amax(dim=0) < _CERTAIN
            parts_by_cell.setdefault(block.cell, []).append(
                (self.order[block.at][open_ones], log[:, open_ones].exp().T)
            )
        for parts in parts_by_cell.values():
            places, assignments = zip(*parts, strict=True)
            yield torch.cat(places), torch.cat(assignments)

    def counts(self, labels: Tensor) -> Tensor:
        """(C, K) int64, number of points of each cell in each cluster of labels (N,)."""
        sorted_labels, counts = labels[self.order], torch.zeros(self.cells, self.clusters, dtype=torch.int64)
        for block in self.blocks:
            counts[block.cell] += torch.bincount(sorted_labels[block.at], minlength=self.clusters).cpu()
        return counts

    def farthest(self, cost: Cost, count: int) -> Tensor:
        """(count, D) points with the highest cost at their cheapest cluster, highest first."""
        return self.rows[self.lowest(cost).topk(count).indices]

    def rows_at(self, indices: Tensor) -> Tensor:
        """(n, D) points with these original indices (n,)."""
        return self.rows[self.order.argsort()[indices.to(self.order.device)]]

    def nearest(self, labels: Tensor, middles: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The points of each cluster of labels (N,) nearest to its middle (K, D), nearest first.

        Returns:
            (K, c) original indices, -1 if a cluster has fewer points, and (K, c, D) rows.
        """
        sorted_labels, K = labels[self.order], self.clusters
        members = [(sorted_labels == k).nonzero()[:, 0] for k in range(K)]
        count = min(count, max(len(positions) for positions in members))
        indices = torch.full((K, count), -1, device=sorted_labels.device)
        rows = self.rows.new_zeros(K, count, self.rows.shape[1])
        for k, positions in enumerate(members):
            squared = (self.rows[positions] - middles[k].to(self.rows)).square().sum(dim=1)
            best = positions[squared.topk(min(count, len(positions)), largest=False).indices]
            indices[k, : len(best)], rows[k, : len(best)] = self.order[best], self.rows[best]
        return indices, rows

    def distances(self, labels: Tensor, candidates: Tensor) -> Tensor:
        """(K, c) sums of the distances of a cluster's points, by labels (N,), to candidates (K, c, D), float64."""
        sorted_labels, sums = labels[self.order], candidates.new_zeros(candidates.shape[:2], dtype=torch.float64)
        at_once = max(1, _DISTANCES // max(1, candidates.shape[1]))
        for k in range(len(candidates)):
            for rows in torch.split(self.rows[sorted_labels == k], at_once):
                sums[k] += torch.cdist(rows.double(), candidates[k].double()).sum(dim=0)
        return sums

    def exchanged(self, cost: Cost, prices: Tensor, candidates: Cost, count: int) -> Tensor:
        """(n, K) total cost at prices (C, K), with each point at its cheapest cluster, if one of n = `count` candidates
        of the cost `candidates` replaces the prototype of a cluster."""
        totals = torch.zeros(count, self.clusters, dtype=torch.float64, device=self.rows.device)
        step = max(1, _DISTANCES // (self.clusters * count))
        for block in self.blocks:
            cell_prices = prices[block.cell].to(self.rows)[:, None]
            for first in range(block.at.start, block.at.stop, step):
                rows, norms = (array[first : min(first + step, block.at.stop)] for array in (self.rows, self.norms))
                costs, other = (rows.new_empty(many, len(rows)) for many in (self.clusters, count))
                for cost_of, output in ((cost, costs), (candidates, other)):
                    left_out = cost_of.into(output, rows, norms)
                    if left_out is not None:
                        output.add_(left_out)
                least = costs.add_(cell_prices).topk(min(2, self.clusters), dim=0, largest=False)
                second = least.values[1] if self.clusters > 1 else torch.full_like(least.values[0], torch.inf)
                is_nearest = torch.arange(self.clusters, device=rows.device)[:, None] == least.indices[0]
                without = torch.where(is_nearest, second, least.values[0])  # (K, n)
                totals += torch.minimum(other[:, None] + cell_prices, without).sum(dim=2)
        return totals

    def lowest(self, cost: Cost) -> Tensor:
        """(N,) lowest cost of each row."""
        return torch.cat(
            [lowest for _, lowest in self._each(lambda i, room, _: self._costs(self.blocks[i], cost, room)[1])]
        )

    def sums(self, logs: list[Tensor], statistic: Sums) -> tuple[Tensor, ...]:
        """Sums over all points, float64, of the function `statistic` applied to blocks."""

        def summed(i: int, buffer: Tensor, other: Tensor) -> tuple[Tensor, ...]:
            rows = self.blocks[i].at
            return statistic(self.rows[rows], self.norms[rows], torch.exp(logs[i], out=other), buffer)

        block_sums = [tuple(part.double() for part in parts) for _, parts in self._each(summed)]
        return tuple(torch.stack(parts).sum(dim=0) for parts in zip(*block_sums, strict=True))

    def _each(self, work: Callable[[int, Tensor, Tensor], R]) -> Iterator[tuple[Block, R]]:
        """Results of `work` for each block, in order; its arguments are the block's index and two buffers (K, n)."""
        rooms: SimpleQueue[Tensor] = SimpleQueue()
        widest = max(block.points for block in self.blocks)

        def worked(i: int) -> R:
            points, room = self.blocks[i].points, rooms.get()
            try:
                return work(i, *(values[: self.clusters * points].view(self.clusters, points) for values in room))
            finally:
                rooms.put(room)

        cores, indices = torch.get_num_threads(), range(len(self.blocks))
        many = not self.rows.is_cuda and len(indices) >= 2 * cores  # otherwise threads cost more than they save
        for _ in range(cores if many else 1):
            rooms.put(self.rows.new_empty(2, self.clusters * widest))
        each = on_each_core(worked, indices) if many else ((i, worked(i)) for i in indices)
        for i, result in each:
            yield self.blocks[i], result

    def _costs(self, block: Block, cost: Cost, out: Tensor) -> tuple[Tensor, Tensor]:
        """Costs (K, n) minus the lowest of each point, and that lowest cost (n,).

        With a large T, rounding of a cost that all clusters share would exceed their differences.
        """
        left_out = cost.into(out, self.rows[block.at], self.norms[block.at])
        lowest = out.amin(dim=0)
        return out.sub_(lowest), lowest if left_out is None else lowest.add_(left_out)

    def _own_costs(self, block: Block, cost: Cost, out: Tensor) -> tuple[Tensor, Tensor]:
        a, lowest = self._costs(block, cost, out)
        return a.clone(), lowest

    def _moments(self, block: Block, s: Tensor, a: Tensor, lowest: Tensor) -> Moments:
        return Moments(s.sum(dim=1), s @ self.rows[block.at], torch.linalg.vecdot(s, a.add_(lowest)))

    def _sum_of_moments(self, parts: Iterator[tuple[Block, Moments]]) -> Moments:
        counts, sums, costs = (
            torch.zeros(*shape, dtype=torch.float64, device=self.rows.device)
            for shape in ((self.cells, self.clusters), (self.clusters, self.rows.shape[1]), (self.clusters,))
        )
        for block, moments in parts:
            counts[block.cell] += moments.counts
            sums += moments.sums
            costs += moments.costs
        return Moments(counts, sums, costs)


def _assigned(a: Tensor, log: Tensor, scale: float, shift: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(K, n) exp(q - max q) with q = log S0 - T a - B, its sums (n,), and max q (n,)."""
    s = torch.add(log, a, alpha=-scale, out=out).sub_(shift)
    highest = s.amax(dim=0)
    s.sub_(highest).clamp_(min=_VANISHING * math.log(torch.finfo(s.dtype).tiny)).exp_()
    return s, s.sum(dim=0), highest
