"""Sparse points, such as documents by their words, with products in time of the non-zero entries."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import embedding_bag

from clustering.lengths import vanishing
from clustering.optimiser.centres import Rows


@dataclass(frozen=True)
class SparseTable:
    """N rows of D numbers in sparse form; rows can be read as dense ones.

    It replaces a dense (N, D) tensor as the `values` of rows.

    Attributes:
        pointers: (N + 1) position of the first entry of each row.
        columns: columns of the entries, in 0..D - 1, ascending within a row.
        numbers: entries, float32 or float64.
        width: D.
    """

    pointers: Tensor
    columns: Tensor
    numbers: Tensor
    width: int

    @classmethod
    def of_scipy(cls, matrix: Any, device: torch.device | str = "cpu") -> "SparseTable":
        rows = sparse.csr_array(matrix, copy=True)
        rows.sum_duplicates()
        pointers, columns, numbers = (
            torch.from_numpy(part).to(device) for part in (rows.indptr, rows.indices, rows.data)
        )
        return cls(pointers, columns, numbers, rows.shape[1])

    def scipy(self) -> sparse.csr_array:
        parts = (part.cpu().numpy() for part in (self.numbers, self.columns, self.pointers))
        return sparse.csr_array(tuple(parts), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    @property
    def dtype(self) -> torch.dtype:
        return self.numbers.dtype

    @property
    def device(self) -> torch.device:
        return self.numbers.device

    def __len__(self) -> int:
        return len(self.pointers) - 1

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        """(…, D) selected rows as a dense tensor."""
        if isinstance(rows, slice):
            rows = torch.arange(len(self), device=self.device)[rows]
        flat = rows.flatten()
        starts, counts = self.pointers[flat].long(), self.pointers.diff()[flat].long()
        result = self.numbers.new_zeros(len(flat), self.width)
        inside = torch.arange(int(counts.sum()), device=self.device)
        inside += torch.repeat_interleave(starts - (counts.cumsum(0) - counts), counts)
        places = torch.repeat_interleave(torch.arange(len(flat), device=self.device), counts)
        result[places, self.columns[inside].long()] = self.numbers[inside]
        return result.view(*rows.shape, self.width)

    def times(self, matrix: Tensor) -> Tensor:
        """(N, A) product with (D, A)."""
        product: Tensor = embedding_bag(
            self.columns,
            matrix.contiguous(),
            self.pointers,
            mode="sum",
            per_sample_weights=self.numbers,
            include_last_offset=True,
        )
        return product

    @cached_property
    def transposed(self) -> "SparseTable":
        return SparseTable.of_scipy(self.scipy().T, self.device)

    @cached_property
    def squared_norms(self) -> Tensor:
        """(N,)"""
        squares = replace(self, numbers=self.numbers.square())
        return squares.times(self.numbers.new_ones(self.width, 1))[:, 0]

    def normalised(self) -> "SparseTable":
        """Rows divided by their norm; zero rows are unchanged."""
        tiny = torch.finfo(self.dtype).tiny
        counts = self.pointers.diff()
        # The squares of a row may underflow although its numbers do not.
        largest = torch.segment_reduce(self.numbers.abs(), "max", lengths=counts, initial=0.0)
        short = (largest > 0) & (largest < vanishing(self.dtype))
        table = self
        if short.any():
            factors = torch.where(short, largest, 1.0)
            table = replace(self, numbers=self.numbers / torch.repeat_interleave(factors, counts))
        lengths = table.squared_norms.sqrt().clamp_min(tiny)
        return replace(table, numbers=table.numbers / torch.repeat_interleave(lengths, counts))

    def new_empty(self, *size: int) -> Tensor:
        return self.numbers.new_empty(*size)

    def new_tensor(self, data: Any) -> Tensor:
        return self.numbers.new_tensor(data)


@dataclass(frozen=True)
class SparseRows(Rows):
    """`Rows` of a `SparseTable`, without an origin: centring would make them dense."""

    values: SparseTable  # type: ignore[assignment]  # what is asked of a dense one here, it answers alike

    @property
    def squared_norms(self) -> Tensor:
        return self.values.squared_norms

    def squared_distances(self, centres: Tensor) -> Tensor:
        flat = centres.flatten(0, -2)
        squared = torch.add(self.squared_norms, self.values.times(flat.T).T, alpha=-2)
        squared += flat.square().sum(dim=1, keepdim=True)
        return squared.clamp_min_(0).view(*centres.shape[:-1], -1)

    def squared_distances_to_draw_by(self, centres: Tensor) -> Tensor:
        precise = SparseRows(replace(self.values, numbers=self.values.numbers.double()))
        return precise.squared_distances(centres.double()).to(centres.dtype)

    def sums(self, weights: Tensor) -> Tensor:
        return self.values.transposed.times(weights.T).T.contiguous()

    def shifted(self, modes: Tensor, mass: Tensor, variance: float) -> tuple[Tensor, Tensor]:
        kernel = self.squared_distances(modes).mul_(-0.5 / variance).exp_().mul_(mass)
        return self.sums(kernel), kernel.sum(dim=1)


def rows_of(values: Tensor | SparseTable, like: Rows | None = None) -> Rows:
    """The rows, with the origin of `like` if given; otherwise with their mean as origin if it is far from zero."""
    if isinstance(values, SparseTable):
        return SparseRows(values)
    return Rows.of(values) if like is None else Rows(values, like.origin)


def nearest_centres(values: Tensor | SparseTable, centres: Tensor) -> Tensor:
    """(n,) index of the centre (K, D) nearest to each row (n, D), ties to the lowest index."""
    if isinstance(values, SparseTable):
        return SparseRows(values).squared_distances(centres[None])[0].min(dim=0).indices
    origin = centres.mean(dim=0)
    return Rows(values, origin).squared_distances((centres - origin)[None])[0].min(dim=0).indices
