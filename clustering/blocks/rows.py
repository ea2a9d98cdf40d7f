"""The rows of a `dask.array` in blocks: checked, normalised, and centred on an origin as for arrays in memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.blocks.cluster import Cluster, Kept
from clustering.estimator_input import check_no_dates, check_not_vanishing, check_values, first_not_finite
from clustering.foundation.errors import InputError
from clustering.lengths import unit_rows
from clustering.optimiser.centres import Rows

if TYPE_CHECKING:
    from distributed import Future


@dataclass(frozen=True)
class BlockRows:
    """N points with D coordinates on the workers.

    Attributes:
        cluster: the cluster that holds the points.
        parts: for each block, the task that returns its `Rows`.
        offsets: (P + 1,) int64 index of the first row of each block; the last entry is N.
        dimension: D.
        dtype: type of the coordinates.
        origin: (D,) origin of the coordinates, None for zero.
        largest: largest squared distance from the origin.
    """

    cluster: Cluster
    parts: list["Future"]
    offsets: NDArray[np.int64]
    dimension: int
    dtype: torch.dtype
    origin: Tensor | None
    largest: float

    @classmethod
    def of(cls, X: Any, *, normalize: bool) -> "BlockRows":
        """The rows of a two-dimensional dask array, with its chunks of rows as blocks.

        Raises:
            InputError: the array is not two-dimensional, has no rows or columns, or has unsupported values, or there is
                no Dask cluster.
        """
        if X.ndim != 2:
            raise InputError(f"Expected 2D array, got {X.ndim}D array instead; reshape it to (points, features)")
        if X.shape[1] == 0:
            raise InputError("0 feature(s) while a minimum of 1 is required.")
        check_no_dates(X)
        if not (np.issubdtype(X.dtype, np.number) or X.dtype == bool) or np.issubdtype(X.dtype, np.complexfloating):
            raise InputError(f"X must be of real numbers, not {X.dtype}")
        X = X.rechunk({1: -1})
        cluster = Cluster.of(X.numblocks[0])
        dtype = "float64" if X.dtype == np.float64 else "float32"
        chunks = cluster.client.compute(X.to_delayed().ravel().tolist())
        values, statistics = cluster.run(_loaded, chunks, dtype, normalize)
        del chunks
        offsets = np.cumsum([0, *(block.points for block in statistics)], dtype=np.int64)
        for first, summary in zip(offsets, statistics, strict=False):
            summary.check(int(first), dtype)
        check_not_vanishing(max(block.largest for block in statistics), dtype)
        points = int(offsets[-1])
        if points == 0:
            raise InputError("0 sample(s) while a minimum of 1 is required.")
        filled = [block for block, part in enumerate(statistics) if part.points]
        cluster = Cluster(cluster.client, len(filled))
        values, offsets = [values[block] for block in filled], np.unique(offsets)
        mean = sum(block.sums for block in statistics) / points
        spread = sum(block.squares for block in statistics) / points - np.square(mean).sum()
        kind = getattr(torch, dtype)
        origin = torch.from_numpy(mean).to(kind) if np.square(mean).sum() > 4 * spread else None
        parts, lengths = cluster.run(_rows, values, origin)
        return cls(cluster, parts, offsets, X.shape[1], kind, origin, max(lengths))

    @property
    def points(self) -> int:
        return int(self.offsets[-1])

    @property
    def template(self) -> Rows:
        """`Rows` without points, with the same dimension, type and origin."""
        return Rows(torch.empty(0, self.dimension, dtype=self.dtype), self.origin)

    def at(self, indices: Tensor) -> Tensor:
        """(…, D) coordinates of the points with these indices, relative to the origin."""
        values = self.values_at(indices)
        return values if self.origin is None else values - self.origin

    def values_at(self, indices: Tensor) -> Tensor:
        """(…, D) coordinates of the points with these indices, not relative to the origin."""
        owners = torch.from_numpy(np.searchsorted(self.offsets, indices.numpy(), side="right") - 1)
        return self.pick(owners, _values_at, self.parts, indices - torch.from_numpy(self.offsets)[owners])

    def pick(self, owners: Tensor, function: Any, parts: list["Future"], *arguments: Tensor) -> Tensor:
        """(…, D) points of the blocks `owners` (…). For each block, `function(part, *arguments)` returns its points
        from the part of the block and the entries of each of `arguments` (…) at which `owners` is this block."""
        values = torch.empty(*owners.shape, self.dimension, dtype=self.dtype)
        blocks = sorted(set(owners.flatten().tolist()))
        tasks = [
            self.cluster.submit(function, parts[block], *(argument[owners == block] for argument in arguments))
            for block in blocks
        ]
        for block, points in zip(blocks, self.cluster.gather(tasks), strict=True):
            values[owners == block] = points
        return values

    def first_points(self, first: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """(K,) index of the first point of each cluster, N for an empty cluster, from the (K,) positions of the first
        points in each block of n rows, n for a cluster without points there."""
        sizes = np.diff(self.offsets)
        places = [
            np.where(row < size, row + offset, self.points)
            for row, offset, size in zip(first, self.offsets[:-1], sizes, strict=True)
        ]
        indices: NDArray[np.int64] = np.stack(places).min(axis=0)
        return indices

    def places(self, centres: Tensor) -> Tensor:
        """(K,) index of the first point that equals each of the centres (K, D), -1 if there is none."""
        matches = self.cluster.ask(_places, self.parts, centres)
        places = torch.full((len(centres),), -1)
        for first, local in reversed(list(zip(self.offsets, matches, strict=False))):
            places = torch.where(local >= 0, local + int(first), places)
        return places


class _Loaded(NamedTuple):
    """Statistics of the rows of a block."""

    points: int
    sums: NDArray[np.float64]
    squares: float
    bad: int  # its first row with values that are not finite, -1 if all are finite
    largest: float

    def check(self, first: int, dtype: str) -> None:
        check_values(first + self.bad if self.bad >= 0 else -1, self.largest, dtype)


def _loaded(chunk: NDArray[Any], dtype: str, normalize: bool) -> Kept:
    values = np.require(chunk, dtype, ["C", "W"])
    bad = first_not_finite(values)
    if bad >= 0:
        return Kept(None, _Loaded(len(values), np.zeros(values.shape[1]), 0.0, bad, 0.0))
    largest = float(np.abs(values).max(initial=0))
    rows = torch.from_numpy(values)
    if normalize:
        rows = unit_rows(rows)
    sums = rows.sum(dim=0, dtype=torch.float64).numpy()
    squares = float(torch.linalg.vecdot(rows, rows).sum(dtype=torch.float64))
    return Kept(rows, _Loaded(len(rows), sums, squares, -1, largest))


def _rows(values: Tensor, origin: Tensor | None) -> Kept:
    rows = Rows(values, origin)
    return Kept(rows, float(rows.squared_norms.max()))


def _values_at(rows: Rows, places: Tensor) -> Tensor:
    return rows.values[places]


def _places(rows: Rows, centres: Tensor) -> Tensor:
    return rows.places(centres)
