"""The points of a fair clustering, sorted by cell, and the sweeps over them, a block at a time.

Blocks are small enough to stay in the cache from one operation to the next, and belong to one cell each, so that its
prices are one vector. Every core takes blocks by itself: shared between cores, operations as short as these wait for
each other longer than they last. Sums are float32 or float64 as the points are within a block, and float64 beyond it,
in the order of the blocks, whatever the number of cores.
"""

import math
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.foundation.cores import on_each_core
from clustering.numbering import first_points
from fairness.optimiser.compressed import Totals
from fairness.optimiser.store import Cost, Moments, Sums

R = TypeVar("R")

_BLOCK = 1 << 17
"""Assignments, K n, at a time: 512 KiB in float32, of which three are worked on."""

_BLOCK_ON_GPU = 1 << 24

_DISTANCES = 1 << 21
"""Of points to candidates at a time: 16 MiB."""

FLOOR = 1e-12
"""Of an assignment whenever costs change: without it, log s falls without end and nothing comes back."""

_VANISHING = 0.8
"""Of the logarithm of the least normal number: s below it counts as that. It is nothing in any sum, and numbers that
are not normal take a processor ten times as long."""

_CERTAIN = -1e-3
"""log s of a point that lies in one cluster."""


class Block(NamedTuple):
    """Points of one cell that stand together."""

    cell: int
    at: slice

    @property
    def points(self) -> int:
        return int(self.at.stop - self.at.start)


class Points:
    """N points on one device, for K clusters: the `fairness.optimiser.store.Store` of this process.

    Attributes:
        rows: (N, D), sorted by cell. norms: (N,) their squared lengths.
        order: (N,) where they stood before.
        blocks: which of them are worked on together.
    """

    def __init__(self, rows: Tensor, cell_of: Tensor, cells: int, clusters: int) -> None:
        """Args: rows (N, D), their cells (N,) 0..C-1, C and K."""
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

    @property
    def nbytes(self) -> int:
        """Of the rows and what is kept of each."""
        return int(self.rows.nbytes + self.norms.nbytes + self.order.nbytes)

    def begin(self, labels: Tensor, mixing: float) -> list[Tensor]:
        """log S0 with 1 - mixing in the cluster of labels (N,), in the order in which the points came, the rest
        evenly."""
        own, other = labels[self.order], max(mixing / self.clusters, FLOOR)
        low, high = torch.tensor([other, 1 - (self.clusters - 1) * other], dtype=torch.float64).log().tolist()
        logs = []
        for block in self.blocks:
            log = self.rows.new_full((self.clusters, block.points), low)
            logs.append(log.scatter_(0, own[block.at][None], high))
        return logs

    def sweep(self, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        """Totals at T (C,) and B (C, K), float64; `least` of the prices (C, K) where these are given."""
        scales, shifts = scale.tolist(), shift.to(self.rows)[:, :, None]
        paid = None if prices is None else prices.to(self.rows)[:, :, None]

        def swept(i: int, spare: Tensor, other: Tensor) -> Tensor:
            cell, (a, lowest) = self.blocks[i].cell, self._costs(self.blocks[i], cost, spare)
            least = lowest.new_zeros(())
            if paid is not None:
                least = torch.add(a, paid[cell], out=other).amin(dim=0).add_(lowest).sum()
            s, norm, highest = _assigned(a, logs[i], scales[cell], shifts[cell], other)
            log_norms = highest.add_(norm.log()).sum()
            share = norm.reciprocal_()  # of s, which is not divided: one pass less
            counts = s @ share
            # One row for all sums: of few points, a sweep takes as long as its operations are many.
            return torch.cat((counts, torch.stack((lowest.sum(), (s.mul_(a) @ share).sum(), log_norms, least))))

        parts = torch.stack([found for _, found in self._each(swept)]).double()
        sums = parts.new_zeros(self.cells, parts.shape[1]).index_add_(0, self._cell_of_block, parts).cpu()
        return Totals(sums[:, : self.clusters], *sums[:, self.clusters :].unbind(dim=1))

    def take(self, logs: list[Tensor], cost: Cost, scale: Tensor, shift: Tensor) -> tuple[list[Tensor], Moments]:
        """S at T and B, floored, as the new S0, written over the old one; its moments."""
        scales, shifts = scale.tolist(), shift.to(self.rows)[:, :, None]

        def taken(i: int, spare: Tensor, other: Tensor) -> Moments:
            block = self.blocks[i]
            a, lowest = self._costs(block, cost, spare)
            s, norm, _ = _assigned(a, logs[i], scales[block.cell], shifts[block.cell], other)
            s.div_(norm).clamp_(min=FLOOR)
            s.div_(s.sum(dim=0))
            torch.log(s, out=logs[i])
            return self._moments(block, s, a, lowest)

        return logs, self._sum_of_moments((block, found) for block, found in self._each(taken))

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Tensor, Moments]:
        """(N,) clusters of least cost and price (C, K), ties to the lowest, in the order in which the points came, and
        their moments."""
        labels = torch.empty_like(self.order)
        paid = None if prices is None else prices.to(self.rows)[:, :, None]

        def assigned(i: int, spare: Tensor, other: Tensor) -> tuple[Tensor, Moments]:
            block = self.blocks[i]
            a, lowest = self._costs(block, cost, spare)
            own = (a if paid is None else torch.add(a, paid[block.cell], out=other)).min(dim=0).indices
            return own, self._moments(block, other.zero_().scatter_(0, own[None], 1.0), a, lowest)

        def noted() -> Iterator[tuple[Block, Moments]]:
            for block, (own, moments) in self._each(assigned):
                labels[self.order[block.at]] = own
                yield block, moments

        return labels, self._sum_of_moments(noted())

    def same(self, labels: Tensor, others: Tensor) -> bool:
        """Whether two assignments are the same."""
        return torch.equal(labels, others)

    def labels(self, logs: list[Tensor]) -> Tensor:
        """(N,) argmax S0, ties to the lowest, in the order in which the points came."""
        labels = torch.empty_like(self.order)
        for block, log in zip(self.blocks, logs, strict=True):
            labels[self.order[block.at]] = log.max(dim=0).indices
        return labels

    def first_points(self, labels: Tensor) -> NDArray[np.int64]:
        """(K,) the first point of each cluster of labels (N,), N where it has none."""
        return first_points(labels.cpu().numpy(), self.clusters)

    def renumbered(self, labels: Tensor, numbers: Tensor) -> Tensor:
        """(N,) labels with the numbers (K,) in the place of those that they have."""
        return numbers.to(labels.device)[labels]

    def between(self, logs: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each cell the points that lie between clusters: where they came, and their S0, rows of K."""
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for block, log in zip(self.blocks, logs, strict=True):
            open_ones = log.amax(dim=0) < _CERTAIN
            found.setdefault(block.cell, []).append((self.order[block.at][open_ones], log[:, open_ones].exp().T))
        for parts in found.values():
            places, assignments = zip(*parts, strict=True)
            yield torch.cat(places), torch.cat(assignments)

    def counts(self, labels: Tensor) -> Tensor:
        """(C, K) int64 points of the cells in the clusters of labels (N,)."""
        own, found = labels[self.order], torch.zeros(self.cells, self.clusters, dtype=torch.int64)
        for block in self.blocks:
            found[block.cell] += torch.bincount(own[block.at], minlength=self.clusters).cpu()
        return found

    def farthest(self, cost: Cost, count: int) -> Tensor:
        """(count, D) points that pay most for the cluster of least cost, most first."""
        return self.rows[self.lowest(cost).topk(count).indices]

    def rows_at(self, indices: Tensor) -> Tensor:
        """(n, D) the points that came as these (n,)."""
        return self.rows[self.order.argsort()[indices.to(self.order.device)]]

    def nearest(self, labels: Tensor, middles: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Of each cluster of labels (N,) the points nearest to a middle (K, D), nearest first: (K, c) where they came,
        -1 where it has fewer, and (K, c, D) rows."""
        own, K = labels[self.order], self.clusters
        members = [(own == k).nonzero()[:, 0] for k in range(K)]
        count = min(count, max(len(some) for some in members))
        indices = torch.full((K, count), -1, device=own.device)
        rows = self.rows.new_zeros(K, count, self.rows.shape[1])
        for k, some in enumerate(members):
            away = (self.rows[some] - middles[k].to(self.rows)).square().sum(dim=1)
            best = some[away.topk(min(count, len(some)), largest=False).indices]
            indices[k, : len(best)], rows[k, : len(best)] = self.order[best], self.rows[best]
        return indices, rows

    def distances(self, labels: Tensor, tried: Tensor) -> Tensor:
        """(K, c) sums of the distances of a cluster's points, of labels (N,), to points (K, c, D), float64."""
        own, found = labels[self.order], tried.new_zeros(tried.shape[:2], dtype=torch.float64)
        at_once = max(1, _DISTANCES // max(1, tried.shape[1]))
        for k in range(len(tried)):
            for some in torch.split(self.rows[own == k], at_once):
                found[k] += torch.cdist(some.double(), tried[k].double()).sum(dim=0)
        return found

    def exchanged(self, cost: Cost, prices: Tensor, tried: Cost, count: int) -> Tensor:
        """(n, K) what points pay at prices (C, K) for the cluster of least cost and price, where one of the n `count`
        prototypes of the cost `tried` stands in for that of a cluster."""
        found = torch.zeros(count, self.clusters, dtype=torch.float64, device=self.rows.device)
        step = max(1, _DISTANCES // (self.clusters * count))
        for block in self.blocks:
            paid = prices[block.cell].to(self.rows)[:, None]
            for first in range(block.at.start, block.at.stop, step):
                rows, norms = (of[first : min(first + step, block.at.stop)] for of in (self.rows, self.norms))
                now, other = (rows.new_empty(many, len(rows)) for many in (self.clusters, count))
                for which, into in ((cost, now), (tried, other)):
                    left_out = which.into(into, rows, norms)
                    if left_out is not None:
                        into.add_(left_out)
                least = now.add_(paid).topk(min(2, self.clusters), dim=0, largest=False)
                second = least.values[1] if self.clusters > 1 else torch.full_like(least.values[0], torch.inf)
                mine = torch.arange(self.clusters, device=rows.device)[:, None] == least.indices[0]
                without = torch.where(mine, second, least.values[0])  # (K, n)
                found += torch.minimum(other[:, None] + paid, without).sum(dim=2)
        return found

    def lowest(self, cost: Cost) -> Tensor:
        """(N,) least cost of each of the rows."""
        return torch.cat([own for _, own in self._each(lambda i, room, _: self._costs(self.blocks[i], cost, room)[1])])

    def sums(self, logs: list[Tensor], of: Sums) -> tuple[Tensor, ...]:
        """Sums over all points, float64, of what `of` gives of those of a block."""

        def summed(i: int, spare: Tensor, other: Tensor) -> tuple[Tensor, ...]:
            at = self.blocks[i].at
            return of(self.rows[at], self.norms[at], torch.exp(logs[i], out=other), spare)

        found = [tuple(part.double() for part in parts) for _, parts in self._each(summed)]
        return tuple(torch.stack(parts).sum(dim=0) for parts in zip(*found, strict=True))

    def _each(self, work: Callable[[int, Tensor, Tensor], R]) -> Iterator[tuple[Block, R]]:
        """What `work` makes of each block, in order; of its index, and of room for (K, n) numbers twice."""
        rooms: SimpleQueue[Tensor] = SimpleQueue()
        widest = max(block.points for block in self.blocks)

        def worked(i: int) -> R:
            points, room = self.blocks[i].points, rooms.get()
            try:
                return work(i, *(one[: self.clusters * points].view(self.clusters, points) for one in room))
            finally:
                rooms.put(room)

        cores, indices = torch.get_num_threads(), range(len(self.blocks))
        many = not self.rows.is_cuda and len(indices) >= 2 * cores  # else threads cost more than they bring
        for _ in range(cores if many else 1):
            rooms.put(self.rows.new_empty(2, self.clusters * widest))
        each = on_each_core(worked, indices) if many else ((i, worked(i)) for i in indices)
        for i, found in each:
            yield self.blocks[i], found

    def _costs(self, block: Block, cost: Cost, out: Tensor) -> tuple[Tensor, Tensor]:
        """Costs (K, n) less the least of each point, and that least (n,): where T is large, rounding of costs that all
        clusters share would drown their differences."""
        left_out = cost.into(out, self.rows[block.at], self.norms[block.at])
        lowest = out.amin(dim=0)
        return out.sub_(lowest), lowest if left_out is None else lowest.add_(left_out)

    def _moments(self, block: Block, s: Tensor, a: Tensor, lowest: Tensor) -> Moments:
        return Moments(s.sum(dim=1), s @ self.rows[block.at], torch.linalg.vecdot(s, a.add_(lowest)))

    def _sum_of_moments(self, parts: Iterator[tuple[Block, Moments]]) -> Moments:
        counts, sums, costs = (
            torch.zeros(*shape, dtype=torch.float64, device=self.rows.device)
            for shape in ((self.cells, self.clusters), (self.clusters, self.rows.shape[1]), (self.clusters,))
        )
        for block, found in parts:
            counts[block.cell] += found.counts
            sums += found.sums
            costs += found.costs
        return Moments(counts, sums, costs)


def _assigned(a: Tensor, log: Tensor, scale: float, shift: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(K, n) exp(q - max q) of q = log S0 - T a - B, (n,) its sums, and (n,) max q."""
    s = torch.add(log, a, alpha=-scale, out=out).sub_(shift)
    highest = s.amax(dim=0)
    s.sub_(highest).clamp_(min=_VANISHING * math.log(torch.finfo(s.dtype).tiny)).exp_()
    return s, s.sum(dim=0), highest
