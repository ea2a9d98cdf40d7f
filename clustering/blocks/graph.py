"""The neighbour graph of rows in blocks: each block stores its rows of W, and the indices of the rows of other blocks
to which its arcs lead."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from clustering.blocks.cluster import Cluster, Kept
from clustering.blocks.rows import BlockRows
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.row_graph import Bandwidth, arc_lengths, given_graph, variance_above_rounding
from clustering.graphs.sparse_graph import SparseGraph, merged
from clustering.optimiser.centres import Rows

if TYPE_CHECKING:
    from distributed import Future

_AT_ONCE = 1 << 22
"""Number of distances, and of coordinates of candidates, processed at a time: 16 MiB in float32."""

_SPARE = 4
"""Number of candidates beyond k. Candidates are re-ranked by exact differences as in `clustering.graphs.knn`."""


@dataclass(frozen=True)
class BlockGraph:
    """W on the workers.

    Attributes:
        cluster: the cluster that holds the graph.
        parts: for each block, the task that returns its `HaloGraph`.
        boundary: for each block, the task that returns the indices of its rows to which arcs of other blocks lead.
        owners: for each block, the other blocks to which its arcs lead.
        mean_squared_distance: mean squared distance between neighbours, 0 if it was not measured or W has no arcs.
    """

    cluster: Cluster
    parts: list["Future"]
    boundary: list["Future"]
    owners: list[list[int]]
    mean_squared_distance: float

    @classmethod
    def none(cls, rows: BlockRows) -> "BlockGraph":
        """An empty graph, for methods that do not use a graph."""
        count = rows.cluster.count
        return cls(rows.cluster, [None] * count, [], [[]] * count, 0.0)

    @classmethod
    def with_variance(
        cls, graph: Any, rows: BlockRows, k: int, symmetry: Symmetry, bandwidth: Bandwidth
    ) -> tuple["BlockGraph", float]:
        """W and sigma^2 for the rows; see `clustering.graphs.row_graph.graph_and_variance`."""
        estimated = isinstance(bandwidth, str)
        if graph is None:
            near = cls.built(rows, k, symmetry)
        else:
            near = cls.given(graph, rows, measured=estimated, directed=symmetry == "directed")
        if not isinstance(bandwidth, str):
            return near, float(bandwidth) ** 2
        squared = near.mean_squared_distance * (k / (k + 1) if bandwidth == "published" else 1.0)
        return near, variance_above_rounding(squared, rows.dtype, rows.largest, rows.points)

    @classmethod
    def built(cls, rows: BlockRows, k: int, symmetry: Symmetry) -> "BlockGraph":
        """The graph of the exact k nearest neighbours of each row. Each block is compared to all blocks, so a worker
        receives all of X once for each of its blocks. The cost is N^2 D multiply-adds over all workers."""
        cluster, offsets, k = rows.cluster, rows.offsets, min(k, rows.points - 1)
        near: list[Any] = [None] * cluster.count
        for other in range(cluster.count):
            same = [block == other for block in range(cluster.count)]
            near = cluster.begin(_nearer, near, rows.parts, rows.parts[other], int(offsets[other]), k, same)
        sums = cluster.ask(_sum_of_lengths, near)
        arcs = [
            [cluster.submit(_arcs_to, near[source], *_range(offsets, source), *_range(offsets, block))
             for source in range(cluster.count)]
            for block in range(cluster.count)
        ]  # fmt: skip
        ranges = [_range(offsets, block) for block in range(cluster.count)]
        matrices = cluster.begin(_symmetrised, arcs, near, ranges, rows.points, symmetry)
        return cls._cut(rows, matrices, sum(sums) / max(1, rows.points * k))

    @classmethod
    def given(cls, graph: Any, rows: BlockRows, *, measured: bool, directed: bool = False) -> "BlockGraph":
        """A graph in this process, see `clustering.graphs.row_graph.given_graph`. Its rows are sent to the workers as
        arguments of the tasks, so that the scheduler keeps them.

        Args:
            graph: W.
            rows: N points.
            measured: whether to measure the mean squared length of the arcs, weighted by W.
            directed: whether to leave W directed instead of making it symmetric.
        """
        matrix = given_graph(graph, rows.points, directed=directed).to(rows.dtype, torch.device("cpu"))
        pointers, columns, weights = (part.numpy() for part in (matrix.pointers, matrix.columns, matrix.weights))
        matrices = []
        for first, last in pairwise(rows.offsets):
            arcs = slice(int(pointers[first]), int(pointers[last]))
            part = pointers[first : last + 1] - pointers[first], columns[arcs], weights[arcs]
            matrices.append(rows.cluster.submit(_copied, *part))
        result = cls._cut(rows, matrices, 0.0)
        return result if not measured else result._measured(rows)

    @classmethod
    def _cut(cls, rows: BlockRows, matrices: list["Future"], mean: float) -> "BlockGraph":
        """Split the rows of W, given with global column numbers, into blocks."""
        cluster = rows.cluster
        ranges = [_range(rows.offsets, block) for block in range(cluster.count)]
        cuts, counts = cluster.run(_own_and_halo, matrices, ranges, rows.offsets)
        owners = [np.flatnonzero(count).tolist() for count in counts]
        requests = [
            [cluster.submit(_indices, cut, owner) for cut, all_of in zip(cuts, owners, strict=True) if owner in all_of]
            for owner in range(cluster.count)
        ]
        boundary = cluster.begin(_united, requests)
        parts = cluster.begin(_placed, cuts, [[boundary[owner] for owner in all_of] for all_of in owners])
        return cls(cluster, parts, boundary, owners, mean)

    def mass(self) -> float:
        """Sum of all weights."""
        return float(sum(self.cluster.ask(_mass, self.parts)))

    def _measured(self, rows: BlockRows) -> "BlockGraph":
        sums = self.cluster.ask(_lengths, self.parts, rows.parts, self.halos(_coordinates, rows.parts))
        total, mass = np.sum(sums, axis=0)
        return replace(self, mean_squared_distance=float(total / mass) if mass else 0.0)

    def halos(self, function: Any, parts: list["Future"]) -> list[list["Future"]]:
        """For each block, the arguments of `HaloGraph.halo`: tasks that return `function(part, indices)` (…, b) for the
        boundaries of its owners. A boundary is sent to a worker once, for all blocks of the worker."""
        sent = self.cluster.begin(function, parts, self.boundary)
        return [[sent[owner] for owner in owners] for owners in self.owners]


@dataclass(frozen=True)
class HaloGraph:
    """The rows of W of one block.

    Attributes:
        graph: the rows of the block, followed by an empty row for each row of other blocks at the end of an arc (the
            halo), with columns numbered in the same way.
        places: for each owner of halo rows, in ascending order, the positions of these rows in its boundary.
    """

    graph: SparseGraph
    places: list[Tensor]

    def halo(self, boundaries: list[Tensor]) -> Tensor:
        """(…, h) values at the halo, from the values (…, b) at the boundaries of its owners."""
        return torch.cat([each[..., places] for each, places in zip(boundaries, self.places, strict=True)], dim=-1)


class _Near(NamedTuple):
    """The nearest neighbours of n rows so far: (n, k) squared distances, ascending, and global indices."""

    squared: Tensor
    indices: Tensor


class _Matrix(NamedTuple):
    """Rows of W in compressed form."""

    pointers: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: NDArray[Any]


class _Cut(NamedTuple):
    """The graph of a block, and the indices of its halo by owner, ascending."""

    graph: SparseGraph
    indices: dict[int, Tensor]


def _range(offsets: NDArray[np.int64], block: int) -> tuple[int, int]:
    return int(offsets[block]), int(offsets[block + 1])


def _nearer(near: _Near | None, rows: Rows, other: Rows, first: int, k: int, same: bool) -> Kept:
    """The k nearest among the neighbours so far and the rows of another block, which start at global index `first`."""
    points = len(rows.values)
    if near is None:
        near = _Near(rows.values.new_empty(points, 0), torch.empty(points, 0, dtype=torch.int64))
    count = min(k + _SPARE, len(other.values) - same)
    at_once = max(1, _AT_ONCE // max(len(other.values), count * rows.values.shape[1]))
    parts = []
    for begin in range(0, points, at_once):
        block = slice(begin, min(begin + at_once, points))
        queries = rows.values[block]
        centred = queries if rows.origin is None else queries - rows.origin
        others = other.values if other.origin is None else other.values - other.origin
        squared_distances = torch.addmm(other.squared_norms, centred, others.T, alpha=-2)
        if same:
            squared_distances.diagonal(offset=begin).fill_(torch.inf)
        places = squared_distances.topk(count, dim=1, largest=False, sorted=False).indices
        squared = (other.values[places] - queries[:, None]).square().sum(dim=2)
        squared, indices = (
            torch.cat([near.squared[block], squared], 1),
            torch.cat([near.indices[block], places + first], 1),
        )
        indices, order = indices.sort(dim=1)  # then a stable sort by distance leaves ties to the lowest index
        squared, order = squared.gather(1, order).sort(dim=1, stable=True)
        parts.append(_Near(squared[:, :k], indices.gather(1, order)[:, :k]))
    return Kept(_Near(*(torch.cat(each) for each in zip(*parts, strict=True))))


def _mass(graph: HaloGraph) -> float:
    return float(graph.graph.weights.sum(dtype=torch.float64))


def _sum_of_lengths(near: _Near) -> float:
    return float(near.squared.sum(dtype=torch.float64))


def _arcs_to(near: _Near, first: int, _: int, begin: int, end: int) -> tuple[Tensor, Tensor]:
    """Global indices of the sources and targets of the arcs that lead from a block, whose first row has global index
    `first`, to the rows begin..end-1 of another block."""
    rows, places = ((near.indices >= begin) & (near.indices < end)).nonzero(as_tuple=True)
    return rows + first, near.indices[rows, places]


def _symmetrised(
    arcs: list[tuple[Tensor, Tensor]], near: _Near, rows_of_block: tuple[int, int], points: int, symmetry: Symmetry
) -> _Matrix:
    """The rows of W of one block, from its own arcs and the arcs that lead to it."""
    first, last = rows_of_block
    size, k = near.indices.shape
    keys = torch.repeat_interleave(torch.arange(size), k) * points + near.indices.flatten()
    if symmetry != "directed":
        sources, targets = (torch.cat(each) for each in zip(*arcs, strict=True))
        keys = torch.cat([keys, (targets - first) * points + sources])
    keys = keys.sort().values
    values = torch.ones(len(keys), dtype=near.squared.dtype)
    if symmetry != "directed":
        keys, values = merged(keys, values, symmetry)
    pointers = np.concatenate([[0], np.bincount((keys // points).numpy(), minlength=last - first).cumsum()])
    return _Matrix(pointers, (keys % points).numpy(), values.numpy())


def _copied(pointers: NDArray[Any], columns: NDArray[Any], weights: NDArray[Any]) -> _Matrix:
    return _Matrix(pointers.astype(np.int64), columns.astype(np.int64), weights.copy())


def _own_and_halo(matrix: _Matrix, rows_of_block: tuple[int, int], offsets: NDArray[np.int64]) -> Kept:
    first, last = rows_of_block
    columns = matrix.columns
    outside = (columns < first) | (columns >= last)
    halo = np.unique(columns[outside])
    places = columns - first
    places[outside] = last - first + np.searchsorted(halo, columns[outside])
    pointers = np.concatenate([matrix.pointers, np.full(len(halo), matrix.pointers[-1])])
    size = last - first + len(halo)
    W = sparse.csr_array((matrix.weights, places, pointers), shape=(size, size))
    W.sort_indices()  # arcs are summed in ascending order of columns
    pointers, places = W.indptr.astype(np.int32), W.indices.astype(np.int32)
    graph = SparseGraph(torch.from_numpy(pointers), torch.from_numpy(places), torch.from_numpy(W.data), size)
    owners = np.searchsorted(offsets, halo, side="right") - 1
    indices = {int(owner): torch.from_numpy(halo[owners == owner] - offsets[owner]) for owner in np.unique(owners)}
    return Kept(_Cut(graph, indices), np.bincount(owners, minlength=len(offsets) - 1))


def _indices(cut: _Cut, owner: int) -> Tensor:
    return cut.indices[owner]


def _united(requests: list[Tensor]) -> Tensor:
    """Sorted distinct values."""
    return torch.from_numpy(np.unique(torch.cat([torch.empty(0, dtype=torch.int64), *requests]).numpy()))


def _placed(cut: _Cut, boundaries: list[Tensor]) -> Kept:
    places = [
        torch.searchsorted(all_of, indices) for all_of, indices in zip(boundaries, cut.indices.values(), strict=True)
    ]
    return Kept(HaloGraph(cut.graph, places))


def _coordinates(rows: Rows, indices: Tensor) -> Tensor:
    return rows.values[indices].T


def _lengths(graph: HaloGraph, rows: Rows, boundaries: list[Tensor]) -> tuple[float, float]:
    values = torch.cat([rows.values, graph.halo(boundaries).T]) if boundaries else rows.values
    return arc_lengths(graph.graph, values)
