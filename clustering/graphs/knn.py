"""Exact nearest neighbours among many points, without the matrix of all pairs.

Blocks of rows are compared by a matrix product and a selection. That is as fast as the flat index of faiss if the BLAS
of faiss supports the processor, and otherwise three times faster. It runs on the device and in the precision of the
points.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_BLOCK = 1 << 24
"""Number of distances computed at a time: 64 MiB in float32."""

_ROWS = 1024
"""Number of rows processed at a time if there are many points, so that products are of large matrices."""

_GROUP = 32
"""Number of columns represented by their smallest distance."""

_GATHERED = 1 << 22
"""Number of coordinates of candidates processed at a time: 16 MiB in float32."""

_SPARE = 4
"""Candidates beyond k. All are re-ranked by exact differences, since rounding of a product swaps nearly equal
distances."""


class Nearest(NamedTuple):
    """The k nearest other points of every point, nearest first, ties to the lowest index.

    Attributes:
        indices: (B, N, k) int64, -1 if a point has fewer neighbours.
        squared_distances: (B, N, k) squared Euclidean distances; 0 if there is no neighbour.
    """

    indices: Tensor
    squared_distances: Tensor

    @property
    def present(self) -> Tensor:
        """(B, N, k) bool, False if a point has fewer neighbours."""
        return self.indices >= 0


def nearest_neighbours(
    x: Tensor,
    k: int,
    *,
    valid: Tensor | None = None,
    unit: bool = False,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Nearest:
    """The k nearest other points of every point by Euclidean distance.

    Duplicates of a point are neighbours like any others. If more than k + 4 points are equally far, rounding decides
    among them, in the same way in every run. Time: N^2 D multiply-adds per problem. Memory: N rows of k + 4, and one
    block.

    Args:
        x: (B, N, D) finite points.
        k: number of neighbours >= 0, not counting the point itself, which is excluded by its index; at most N - 1 are
            used.
        valid: (B, N) bool, False for padded points, which neither have nor are neighbours.
        unit: whether the points have norm 1 up to rounding. The squared distances are then 2 - 2 <x_i, x_j>, so that
            neighbours are the points with the largest inner products.
        done: progress callback, called with (finished, N) points.
    """
    x = x.contiguous()
    batch, points, _ = x.shape
    k = min(k, points - 1)
    candidates = min(k + _SPARE, points - 1)
    norms = x.new_ones(batch, points) if unit else x.square().sum(dim=2)
    if valid is not None:
        norms = norms.masked_fill(~valid, torch.inf)
    indices = torch.empty(batch, points, k, dtype=torch.int64, device=x.device)
    distances = x.new_empty(batch, points, k)
    columns = min(points, max(1, _BLOCK // _ROWS))
    rows = min(points, max(1, _BLOCK // (batch * columns)))
    room = x.new_empty(batch * rows * columns)  # buffer reused by all blocks, since allocation costs time
    for first in range(0, points, rows):
        block = slice(first, min(first + rows, points))
        values, places = _candidates(x, norms, block, candidates, columns, room)
        indices[:, block], distances[:, block] = _ranked(x, first, places, values < torch.inf, k, unit)
        done(block.stop, points)
    if valid is not None:
        missing = (indices < 0) | ~valid[:, :, None]
        indices, distances = indices.masked_fill(missing, -1), distances.masked_fill(missing, 0.0)
    return Nearest(indices, distances)


def nearest_among(points: Tensor, queries: Tensor, k: int) -> Tensor:
    """(n, k) int64 indices of the k nearest of N points (N, D) to each of n queries (n, D); all if they are fewer."""
    norms = points.square().sum(dim=1)
    blocks = torch.split(queries, max(1, _BLOCK // len(points)))
    distances = (torch.addmm(norms, block, points.T, alpha=-2) for block in blocks)
    return torch.cat([block.topk(min(k, len(points)), dim=1, largest=False).indices for block in distances])


def _candidates(
    x: Tensor, norms: Tensor, block: slice, count: int, columns: int, room: Tensor
) -> tuple[Tensor, Tensor]:
    """For a block of points, ||x_j||^2 - 2 <x_i, x_j>, ordered as distances, and indices of the `count` nearest others
    (B, n, count), unordered.

    Columns are processed `columns` at a time in the buffer `room`.
    """
    parts = []
    for first in range(0, x.shape[1], columns):
        part = slice(first, min(first + columns, x.shape[1]))
        size = len(x), block.stop - block.start, part.stop - part.start
        distances = room[: math.prod(size)].view(size)
        torch.baddbmm(norms[:, None, part], x[:, block], x[:, part].mT, alpha=-2, out=distances)
        low, high = max(block.start, part.start), min(block.stop, part.stop)
        if low < high:
            overlap = distances[:, low - block.start : high - block.start, low - first : high - first]
            overlap.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        values, places = _smallest(distances, min(count, distances.shape[2]))
        parts.append((values, places + first))
    values, places = (torch.cat(tensors, dim=2) for tensors in zip(*parts, strict=True))
    if len(parts) > 1:
        values, order = values.topk(count, dim=2, largest=False, sorted=False)
        places = places.gather(2, order)
    return values, places


def _smallest(distances: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices (B, n, count) of the smallest in each row (B, n, N), unordered.

    They are in the `count` groups of columns with the smallest minima. Searching only these takes a tenth of the time
    of a selection among all.
    """
    groups = distances.shape[2] // _GROUP
    if groups < 2 * count:
        lowest = distances.topk(count, dim=2, largest=False, sorted=False)
        return lowest.values, lowest.indices
    grouped = groups * _GROUP
    smallest = distances[:, :, :grouped].view(*distances.shape[:2], _GROUP, groups).amin(dim=2)
    chosen = smallest.topk(count, dim=2, largest=False, sorted=False).indices
    places = (chosen[:, :, None] + groups * torch.arange(_GROUP, device=distances.device)[:, None]).flatten(2)
    others = torch.arange(grouped, distances.shape[2], device=distances.device).expand(*distances.shape[:2], -1)
    places = torch.cat([places, others], dim=2)
    lowest = distances.gather(2, places).topk(count, dim=2, largest=False, sorted=False)
    return lowest.values, places.gather(2, lowest.indices)


def _ranked(x: Tensor, first: int, candidates: Tensor, present: Tensor, k: int, unit: bool) -> tuple[Tensor, Tensor]:
    """Indices and distances (B, n, k) of the nearest among candidates (B, n, c), for n points from index `first` on."""
    batch, points, dimension = x.shape
    candidates, order = candidates.sort(dim=2)  # so that a stable sort by distance resolves ties by the lowest index
    present = present.gather(2, order)
    places = candidates + points * torch.arange(batch, device=x.device)[:, None, None]
    distances = x.new_empty(candidates.shape)
    rows = max(1, _GATHERED // (batch * max(1, candidates.shape[2]) * dimension))
    for start in range(0, candidates.shape[1], rows):
        part = slice(start, start + rows)
        others = x.reshape(-1, dimension)[places[:, part]]
        row = x[:, first + start : first + start + rows][:, : others.shape[1], None]
        if unit:
            distances[:, part] = others.mul_(row).sum(dim=3).mul_(-2).add_(2)
        else:
            distances[:, part] = others.sub_(row).square_().sum(dim=3)
    distances = distances.masked_fill_(~present, torch.inf)
    distances, order = distances.sort(dim=2, stable=True)
    missing = distances[:, :, :k] == torch.inf
    return (
        candidates.gather(2, order)[:, :, :k].masked_fill(missing, -1),
        distances[:, :, :k].masked_fill(missing, 0.0),
    )
