"""The points of a fair clustering, sorted by cell, and the sweeps over them, a block at a time.

Blocks are small enough to stay in the cache from one operation to the next, and belong to one cell each, so that its
prices are one vector. Sums are float32 or float64 as the points are within a block, and float64 beyond it. Besides the
points, log S0 is kept: N K numbers.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fairness.compressed import Totals

_BLOCK = 1 << 17
"""Assignments, K n, at a time: 512 KiB in float32, of which three are worked on."""

_BLOCK_ON_GPU = 1 << 24

FLOOR = 1e-12
"""Of an assignment whenever costs change: without it, log s falls without end and nothing comes back."""


_CERTAIN = -1e-3
"""log s of a point that lies in one cluster."""


class Cost(Protocol):
    """What points pay for clusters."""

    def into(self, out: Tensor, rows: Tensor, norms: Tensor) -> Tensor | None:
        """Write (K, n) costs of rows (n, D) with squared lengths norms (n,), less what is returned (n,)."""
        ...


class Block(NamedTuple):
    """Points of one cell that stand together."""

    cell: int
    at: slice


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


class Points:
    """N points on one device, for K clusters.

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
        self.cells, self.clusters = cells, clusters
        at_once = max(1, (_BLOCK_ON_GPU if rows.is_cuda else _BLOCK) // clusters)
        ends = [0, *torch.bincount(cell_of, minlength=cells).cumsum(0).tolist()]
        self.blocks = [
            Block(cell, slice(first, min(first + at_once, ends[cell + 1])))
            for cell in range(cells)
            for first in range(ends[cell], ends[cell + 1], at_once)
        ]
        widest = max(block.at.stop - block.at.start for block in self.blocks)
        self._room = [rows.new_empty(clusters * widest) for _ in range(2)]
        self._logs: list[Tensor] = []

    def begin(self, labels: Tensor, mixing: float) -> None:
        """S0 with 1 - mixing in the cluster of labels (N,), in the order in which the points came, the rest evenly."""
        own, other = labels[self.order], max(mixing / self.clusters, FLOOR)
        low, high = torch.tensor([other, 1 - (self.clusters - 1) * other], dtype=torch.float64).log().tolist()
        self._logs = []
        for block in self.blocks:
            log = self.rows.new_full((self.clusters, block.at.stop - block.at.start), low)
            self._logs.append(log.scatter_(0, own[block.at][None], high))

    def sweep(self, cost: Cost, scale: Tensor, shift: Tensor, prices: Tensor | None) -> Totals:
        """Totals at T (C,) and B (C, K), float64; `least` of the prices (C, K) where these are given."""
        device = self.rows.device
        counts = torch.zeros(self.cells, self.clusters, dtype=torch.float64, device=device)
        lowest_sum, excess, log_norms, least = torch.zeros(4, self.cells, dtype=torch.float64, device=device)
        scales, shifts = scale.tolist(), shift.to(self.rows)[:, :, None]
        paid = None if prices is None else prices.to(self.rows)[:, :, None]
        for (block, a, lowest), log in zip(self._costs(cost), self._logs, strict=True):
            cell = block.cell
            if paid is not None:
                least[cell] += torch.add(a, paid[cell], out=self._like(a)).amin(dim=0).add_(lowest).sum()
            s, norm, highest = self._assigned(a, log, scales[cell], shifts[cell])
            log_norms[cell] += highest.add_(norm.log()).sum()
            share = norm.reciprocal_()  # of s, which is not divided: one pass less
            counts[cell] += s @ share
            lowest_sum[cell] += lowest.sum()
            excess[cell] += (s.mul_(a) @ share).sum()
        return Totals(*(part.cpu() for part in (counts, lowest_sum, excess, log_norms, least)))

    def take(self, cost: Cost, scale: Tensor, shift: Tensor) -> Moments:
        """S at T and B, floored, becomes S0; its moments."""
        scales, shifts, moments = scale.tolist(), shift.to(self.rows)[:, :, None], self._no_moments()
        for (block, a, lowest), log in zip(self._costs(cost), self._logs, strict=True):
            s, norm, _ = self._assigned(a, log, scales[block.cell], shifts[block.cell])
            s.div_(norm).clamp_(min=FLOOR)
            s.div_(s.sum(dim=0))
            torch.log(s, out=log)
            self._add(moments, block, s, a, lowest)
        return moments

    def assign(self, cost: Cost, prices: Tensor | None = None) -> tuple[Tensor, Moments]:
        """(N,) clusters of least cost and price (C, K), ties to the lowest, in the order in which the points came, and
        their moments."""
        labels, moments = torch.empty_like(self.order), self._no_moments()
        paid = None if prices is None else prices.to(self.rows)[:, :, None]
        for block, a, lowest in self._costs(cost):
            own = (a if paid is None else torch.add(a, paid[block.cell], out=self._like(a))).min(dim=0).indices
            labels[self.order[block.at]] = own
            self._add(moments, block, self._like(a).zero_().scatter_(0, own[None], 1.0), a, lowest)
        return labels, moments

    def labels(self) -> Tensor:
        """(N,) argmax S0, ties to the lowest, in the order in which the points came."""
        labels = torch.empty_like(self.order)
        for block, log in zip(self.blocks, self._logs, strict=True):
            labels[self.order[block.at]] = log.max(dim=0).indices
        return labels

    def assignments(self) -> Tensor:
        """(N, K) S0, in the order in which the points came."""
        found = self.rows.new_empty(len(self.rows), self.clusters)
        for block, log in zip(self.blocks, self._logs, strict=True):
            found[self.order[block.at]] = log.T.exp()
        return found

    def between(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each cell the points that lie between clusters: where they came, and their S0, rows of K."""
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for block, log in zip(self.blocks, self._logs, strict=True):
            open_ones = log.amax(dim=0) < _CERTAIN
            found.setdefault(block.cell, []).append((self.order[block.at][open_ones], log[:, open_ones].exp().T))
        for parts in found.values():
            places, assignments = zip(*parts, strict=True)
            yield torch.cat(places), torch.cat(assignments)

    def farthest(self, cost: Cost, count: int) -> Tensor:
        """(count, D) points that pay most for the cluster of least cost, most first."""
        paid = torch.cat([lowest for _, _, lowest in self._costs(cost)])
        return self.rows[paid.topk(count).indices]

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        """Where the blocks stand among the rows, and their S0 (K, n), to be used before the next is asked for."""
        for block, log in zip(self.blocks, self._logs, strict=True):
            yield block.at, torch.exp(log, out=self._like(log))

    def _costs(self, cost: Cost) -> Iterator[tuple[Block, Tensor, Tensor]]:
        """Blocks with their costs (K, n) less the least of each point, and that least (n,): where T is large, rounding
        of costs that all clusters share would drown their differences."""
        for block in self.blocks:
            points = block.at.stop - block.at.start
            a = self._room[0][: self.clusters * points].view(self.clusters, points)
            left_out = cost.into(a, self.rows[block.at], self.norms[block.at])
            lowest = a.amin(dim=0)
            a.sub_(lowest)
            yield block, a, lowest if left_out is None else lowest.add_(left_out)

    def _assigned(self, a: Tensor, log: Tensor, scale: float, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(K, n) exp(q - max q) of q = log S0 - T a - B, (n,) its sums, and (n,) max q."""
        s = torch.add(log, a, alpha=-scale, out=self._like(a)).sub_(shift)
        highest = s.amax(dim=0)
        s.sub_(highest).exp_()
        return s, s.sum(dim=0), highest

    def _like(self, a: Tensor) -> Tensor:
        return self._room[1][: a.numel()].view(a.shape)

    def _no_moments(self) -> Moments:
        empty = torch.zeros(self.cells + 1, self.clusters, dtype=torch.float64, device=self.rows.device)
        return Moments(empty[:-1], empty.new_zeros(self.clusters, self.rows.shape[1]), empty[-1])

    def _add(self, moments: Moments, block: Block, s: Tensor, a: Tensor, lowest: Tensor) -> None:
        moments.counts[block.cell].add_(s.sum(dim=1))
        moments.sums.add_(s @ self.rows[block.at])
        moments.costs.add_(torch.linalg.vecdot(s, a.add_(lowest)))
