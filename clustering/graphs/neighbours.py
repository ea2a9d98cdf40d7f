"""The neighbour graph of one large data set, built once and shared by all methods.

near = neighbours(X, 5)
SLK(10).fit(X, graph=near)
Ncut(10).fit(X, graph=near)
"""

import time
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, mismatch
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.row_search import Done, Method, NearestRows, Search, choose, nearest_rows
from clustering.graphs.sparse_graph import SparseGraph

_MAX_ARCS = 2**31 - 1
"""Largest number of arcs with int32 indices."""

_SAME_ROWS = 1e-4
"""Relative tolerance of the mean squared norm of rows, which allows for single precision."""


@dataclass(frozen=True)
class NeighbourGraph:
    """W of the k nearest neighbours of every row of a data set, with the settings of its construction.

    Attributes:
        graph: W, one problem of N points, zero diagonal, weights float32.
        mean_squared_distance: mean squared length of the arcs to the k neighbours before symmetrisation: sigma^2 of the
            papers (thesis section 2.4), in the squared unit of X. 0 without arcs.
        k: number of neighbours, not counting the point itself.
        symmetry: how arcs became weights.
        method: search method, see `clustering.graphs.row_search`.
        recall: share of the true neighbours that were found, measured on a sample of points; 1 if exact.
        seconds: wall time of the search.
        points: N.
        squared_norm: mean squared norm of the rows, used to recognise them.
    """

    graph: SparseGraph
    mean_squared_distance: float
    k: int
    symmetry: Symmetry
    method: Search
    recall: float
    seconds: float
    points: int
    squared_norm: float

    def is_of(self, rows: Tensor) -> bool:
        """Whether the rows can be those of the graph, by their mean norm; normalised rows are not the original ones."""
        return abs(_mean_squared_norm(rows) - self.squared_norm) <= _SAME_ROWS * self.squared_norm

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> "NeighbourGraph":
        """The same graph, for assignments of this dtype and device."""
        return replace(self, graph=self.graph.to(dtype, device))


def neighbours(
    X: ArrayLike | Tensor,
    k: int = 5,
    *,
    symmetry: Symmetry = "average",
    weights: Literal["binary", "gaussian"] = "binary",
    bandwidth: float | None = None,
    method: Method = "auto",
    done: Done = lambda finished, total: None,
) -> NeighbourGraph:
    """The graph of the k nearest neighbours of every row (thesis section 2.4).

    Args:
        X: (N, D) finite numbers; for a tensor on a GPU the graph is built and stays there.
        k: number of neighbours besides the point itself, which is excluded by its index, so that duplicates are
            neighbours; at most N - 1 are used.
        symmetry: how arcs p -> q become weights: "average" (W + W^T) / 2, "union" (max), "mutual" (min), "directed".
        weights: weights of arcs before symmetrisation: 1, or exp(-||x_p - x_q||^2 / (2 sigma^2)).
        bandwidth: sigma; None sets sigma^2 to the mean squared length of the arcs.
        method: "exact", "hnsw" (approximate), or "auto": exact up to 100,000 points, or 10 columns, or on a GPU.
        done: progress callback, called with (finished, total) points.

    Raises:
        InputError: X is not a finite table of numbers, a parameter is invalid, or there would be 2^31 arcs or more.
    """
    for name, value, hint in (
        ("k", k, Annotated[int, AtLeast(1)]),
        ("symmetry", symmetry, Symmetry),
        ("weights", weights, Literal["binary", "gaussian"]),
        ("method", method, Method),
        ("bandwidth", bandwidth, Annotated[float, Above(0)] | None),
    ):
        problem = mismatch(value, hint)
        if problem:
            raise InputError(f"neighbours: {name} must be {problem}, not {value!r}")
    x = _checked(X)
    points = len(x)
    k = min(k, points - 1)
    if 2 * points * k > _MAX_ARCS:
        raise InputError(
            f"{points:,} points with {k} neighbours may have {2 * points * k:,} arcs, but 32-bit indices allow "
            f"{_MAX_ARCS:,}; use k={_MAX_ARCS // (2 * points)} or fewer points"
        )
    search, began = choose(x, method), time.perf_counter()
    nearest = NearestRows(np.empty((points, 0), np.int32), np.empty((points, 0), np.float32), search, 1.0)
    if k:
        nearest = nearest_rows(x, k, search, done)
    seconds = time.perf_counter() - began
    lengths = nearest.squared_distances
    present = nearest.indices >= 0
    mean = float(lengths.sum(dtype=np.float64)) / max(1, int(present.sum()))
    variance = mean if bandwidth is None else bandwidth**2
    values = np.ones(lengths.shape, dtype=np.float32)
    if weights == "gaussian" and variance > 0:
        values = np.exp(lengths / (-2 * variance)).astype(np.float32)
    graph = symmetrised(nearest.indices, values, symmetry).to(torch.float32, x.device)
    found = nearest.search, nearest.recall, seconds
    return NeighbourGraph(graph, mean, k, symmetry, *found, points, _mean_squared_norm(x))


def _checked(X: ArrayLike | Tensor) -> Tensor:
    """(N, D) finite float32 or float64."""
    if sparse.issparse(X):
        raise InputError("neighbours: X is sparse, but dense rows are required; reduce it, as by TruncatedSVD")
    try:
        x = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements="W"))  # else torch warns
        if x.is_complex():
            raise TypeError("they are complex")
        x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    except (TypeError, ValueError) as error:
        raise InputError(f"neighbours: X must be a table of numbers: {error}") from error
    if x.ndim != 2 or not x.numel():
        raise InputError(f"neighbours: X must be a table (N, D) with N > 0 and D > 0, not {tuple(x.shape)}")
    finite = x.sum(dim=1, dtype=torch.float64).isfinite()
    if not finite.all():
        row = int((~finite).nonzero()[0])
        raise InputError(f"neighbours: X contains NaN or infinity in row {row}; remove such rows or fill in the values")
    if float(torch.stack(x.aminmax()).abs().max()) > torch.finfo(x.dtype).max ** 0.5 / 4e4:
        raise InputError(f"neighbours: X has values whose squares exceed {x.dtype}; rescale its columns")
    return x.detach().contiguous()


def _mean_squared_norm(x: Tensor) -> float:
    norms: Tensor = torch.linalg.vector_norm(x, dim=1)
    return float(norms.double().square().mean())


def symmetrised(indices: NDArray[np.int32], weights: NDArray[np.float32], symmetry: Symmetry) -> SparseGraph:
    """The graph of arcs (N, k) with weights.

    It uses scipy, which for one problem of millions of points takes a quarter of the time and 0.4 of the memory of
    `SparseGraph.of_arcs`.
    """
    points = len(indices)
    present = indices >= 0
    pointers = np.concatenate([[0], present.sum(axis=1).cumsum()]).astype(np.int32)
    arcs = sparse.csr_array((weights[present], indices[present], pointers), shape=(points, points))
    arcs.sort_indices()
    if symmetry == "average":
        arcs = (arcs + arcs.T) * np.float32(0.5)
    elif symmetry != "directed":
        arcs = arcs.maximum(arcs.T) if symmetry == "union" else arcs.minimum(arcs.T)
    arcs = sparse.csr_array(arcs)
    arcs.sort_indices()
    return SparseGraph(
        torch.from_numpy(arcs.indptr.astype(np.int32, copy=False)),
        torch.from_numpy(arcs.indices.astype(np.int32, copy=False)),
        torch.from_numpy(arcs.data),
        points,
        symmetric=symmetry != "directed",
    )
