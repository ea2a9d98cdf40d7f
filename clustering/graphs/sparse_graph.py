"""Sparse neighbour graphs of many points."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import embedding_bag

from clustering.graphs.dense_graph import Symmetry

_CACHED = 1 << 18
"""Number of assignments per product: 1 MiB in float32, about the size of a core's cache."""

_FEWEST = 16
"""Classes at once, however many points: in float32 the row of a neighbour is one line of the cache."""


@dataclass(frozen=True)
class SparseGraph:
    """A batch of graphs in one block-diagonal matrix in compressed rows.

    A single graph can also be multiplied with a batch of assignments, such as those of several trials on one data set:
    all problems share it, and it is read once for all of them.

    A product sums the rows of S at the ends of a point's arcs, in column order, without scattering, so that results are
    reproducible. Its cost is proportional to the number of arcs times the number of classes.

    Attributes:
        pointers: (B N + 1) int32, position of the first arc of each point; the last is the number of arcs.
        columns: (arcs) int32 in 0..B N - 1, ascending within a row.
        weights: (arcs).
        points: N.
        symmetric: whether the matrix equals its transpose.
    """

    pointers: Tensor
    columns: Tensor
    weights: Tensor
    points: int
    symmetric: bool = True

    @classmethod
    def of_arcs(cls, indices: Tensor, weights: Tensor, symmetry: Symmetry = "average") -> "SparseGraph":
        """Graphs from arcs of every point, see `Symmetry`.

        Args:
            indices: (B, N, k) int64, ends of the arcs of each point, all different and none the point itself; -1 for no
                arc.
            weights: (B, N, k) >= 0.
            symmetry: how arcs p -> q and q -> p become weights.
        """
        batch, points, _ = indices.shape
        size = batch * points
        rows = torch.arange(size, device=indices.device).view(batch, points, 1)
        columns = indices + points * torch.arange(batch, device=indices.device)[:, None, None]
        present = indices >= 0
        forward, backward = (rows * size + columns)[present], (columns * size + rows)[present]
        directed = symmetry == "directed"
        keys = forward if directed else torch.cat([forward, backward])
        keys, places, counts = torch.unique(keys, return_inverse=True, return_counts=True)
        combine = {"directed": "sum", "average": "sum", "union": "amax", "mutual": "amin"}[symmetry]
        values = weights[present] if directed else weights[present].repeat(2)
        values = values.new_zeros(len(keys)).scatter_reduce_(0, places, values, combine, include_self=False)
        if symmetry == "average":
            values /= 2
        elif symmetry == "mutual":
            keys, values = keys[counts == 2], values[counts == 2]
        pointers = torch.nn.functional.pad(torch.bincount(keys // size, minlength=size).cumsum(0), (1, 0))
        return cls(pointers.int(), (keys % size).int(), values, points, symmetric=not directed)

    @classmethod
    def of_matrix(cls, matrix: Any, *, symmetric: bool = True) -> "SparseGraph":
        """The graph of one problem with these weights, a sparse matrix (N, N) of scipy."""
        matrix = sparse.csr_array(matrix)
        matrix.sort_indices()
        pointers, columns = (part.astype(np.int32, copy=False) for part in (matrix.indptr, matrix.indices))
        parts = torch.from_numpy(pointers), torch.from_numpy(columns), torch.from_numpy(matrix.data)
        return cls(*parts, matrix.shape[0], symmetric=symmetric)

    def matrix(self) -> sparse.csr_array:
        """(N, N) weights of one problem."""
        weights, columns, pointers = (part.cpu().numpy() for part in (self.weights, self.columns, self.pointers))
        return sparse.csr_array((weights, columns, pointers), shape=(self.points, self.points))

    @property
    def problems(self) -> int:
        """B."""
        return (len(self.pointers) - 1) // self.points

    def __matmul__(self, assignments: Tensor) -> Tensor:
        # The optimiser stores classes before points. With a few classes at a time the summed rows stay in the cache,
        # which is several times faster than whole rows scattered over memory.
        rows = assignments.mT
        shape = rows.shape
        if self.problems == 1:
            rows = rows.reshape(1, -1, self.points)  # the classes of all problems side by side
        batch, classes, points = rows.shape
        width = classes if rows.is_cuda else max(_FEWEST, _CACHED // (batch * points))
        product = torch.empty_like(rows, memory_format=torch.contiguous_format)
        for block, out in zip(torch.split(rows, width, dim=1), torch.split(product, width, dim=1), strict=True):
            if batch == 1:  # a matrix is transposed several times faster than a batch of one
                out[0].copy_(self._sums(block[0].T.contiguous()).T)
            else:
                out.copy_(self._sums(block.mT.reshape(batch * points, -1)).view(batch, points, -1).mT)
        return product.view(shape).mT

    def _sums(self, rows: Tensor) -> Tensor:
        """(B N, c) sums of the rows at the ends of every point's arcs."""
        return embedding_bag(
            self.columns,
            rows,
            self.pointers,
            mode="sum",
            per_sample_weights=self.weights,
            include_last_offset=True,
        )

    @property
    def degrees(self) -> Tensor:
        """(B, N) row sums."""
        ones = self.weights.new_ones(self.problems, self.points, 1)
        return (self @ ones)[..., 0]

    def scaled(self, factors: Tensor) -> "SparseGraph":
        """The weights w_pq times the factors (B, N) of both ends."""
        flat = factors.flatten()
        rows = torch.repeat_interleave(self.pointers.diff())
        return replace(self, weights=self.weights * flat[rows] * flat[self.columns])

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> "SparseGraph":
        """The same graph, for assignments of this dtype and device."""
        pointers, columns = self.pointers.to(device), self.columns.to(device)
        return replace(self, pointers=pointers, columns=columns, weights=self.weights.to(device, dtype))

    def select(self, problems: Tensor) -> "SparseGraph":
        if self.problems == 1:
            return self
        problems = problems.long()
        counts = self.pointers.diff().view(-1, self.points)[problems]
        starts = self.pointers[:-1].view(-1, self.points)[problems]
        pointers = torch.nn.functional.pad(counts.flatten().cumsum(0), (1, 0))
        arcs = torch.arange(int(pointers[-1]), device=problems.device)
        arcs += torch.repeat_interleave(starts.flatten() - pointers[:-1], counts.flatten())
        moved = self.points * (torch.arange(len(problems), device=problems.device) - problems)
        columns = self.columns[arcs] + torch.repeat_interleave(moved, counts.sum(dim=1))
        return replace(self, pointers=pointers.int(), columns=columns.int(), weights=self.weights[arcs])
