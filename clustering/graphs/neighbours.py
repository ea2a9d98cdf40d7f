"""The neighbour graph of one large data set, built once and shared by all methods.

near = neighbours(X, 5)
SLK(10).fit(X, graph=near)
Ncut(10).fit(X, graph=near)

The search is the cheapest suitable one:

- "tree": exact, for few columns. A k-d tree (scipy), queried in the order of its leaves, so that consecutive queries
  read the same part of it, in half the time of any other order.
- "blocks": exact, for many columns, and on a GPU: products of blocks of rows (`clustering.graphs.knn`).
- "hnsw": approximate, for too many points to compare all pairs. Navigable small worlds (Malkov and Yashunin 2018,
  faiss); its recall is measured.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, mismatch
from clustering.foundation.streams import stream
from clustering.foundation.timing import Stopwatch
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.knn import nearest_among, nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.rows import Rows

Method = Literal["auto", "exact", "hnsw"]
Search = Literal["tree", "blocks", "hnsw"]
Done = Callable[[int, int], None]
"""Progress callback, called with the number of finished points and their total number."""

_EXACT_UP_TO = 100_000
"""Number of points up to which `method="auto"` compares all pairs."""

_TREE_COLUMNS = 10
"""Maximum number of columns for a tree; with more independent columns it visits most of its leaves."""

_MAX_ARCS = 2**31 - 1
"""Largest number of arcs with int32 indices."""

_SAME_ROWS = 1e-4
"""Relative tolerance of the mean squared norm of rows, which allows for single precision."""

_LEAF = 32
_AT_ONCE = 1 << 14
_SPARE = 2
"""Candidates beyond k and the point itself, among which ties are resolved by the lowest index."""

_LINKS, _BUILD_BREADTH, _BREADTHS = 16, 80, (32, 64, 128, 256, 512)
_ENOUGH, _POOR, _SAMPLE = 0.99, 0.95, 256
"""Recall at which the search parameters are sufficient, recall below which a warning is raised, and the number of
points on which it is measured."""


@dataclass(frozen=True)
class NeighbourGraph:
    """W of the k nearest neighbours of every row of a data set.

    Attributes:
        graph: W, one problem of N points, zero diagonal, weights float32.
        mean_squared_distance: mean squared length of the arcs to the k neighbours before symmetrisation: sigma^2 of the
            papers (thesis section 2.4), in the squared unit of X. 0 without arcs.
        recall: share of the true neighbours that were found, measured on a sample of points; 1 if exact.
        seconds: wall time of the search.
        squared_norm: mean squared norm of the rows, used to recognise them.
    """

    graph: SparseGraph
    mean_squared_distance: float
    recall: float
    seconds: float
    squared_norm: float

    def is_of(self, rows: Tensor) -> bool:
        """Whether the rows can be those of the graph, by their mean norm; normalised rows are not the original ones."""
        return abs(_mean_squared_norm(rows) - self.squared_norm) <= _SAME_ROWS * self.squared_norm


def neighbours(
    X: ArrayLike | Tensor,
    k: int = 5,
    *,
    symmetry: Symmetry = "average",
    method: Method = "auto",
    done: Done = lambda finished, total: None,
) -> NeighbourGraph:
    """The graph of the k nearest neighbours of every row (thesis section 2.4).

    Args:
        X: (N, D) finite numbers; for a tensor on a GPU the graph is built and stays there.
        k: number of neighbours besides the point itself, which is excluded by its index, so that duplicates are
            neighbours; at most N - 1 are used.
        symmetry: how arcs p -> q become weights: "average" (W + W^T) / 2, "union" (max), "mutual" (min), "directed".
        method: "exact", "hnsw" (approximate), or "auto": exact up to 100,000 points, or 10 columns, or on a GPU.
        done: progress callback, called with (finished, total) points.

    Raises:
        InputError: X is not a finite table of numbers, a parameter is invalid, or there would be 2^31 arcs or more.
    """
    for name, value, hint in (
        ("k", k, Annotated[int, AtLeast(1)]),
        ("symmetry", symmetry, Symmetry),
        ("method", method, Method),
    ):
        problem = mismatch(value, hint)
        if problem:
            raise InputError(f"neighbours: {name} must be {problem}, not {value!r}")
    x, watch = _checked(X), Stopwatch()
    points = len(x)
    k = min(k, points - 1)
    if 2 * points * k > _MAX_ARCS:
        raise InputError(
            f"{points:,} points with {k} neighbours may have {2 * points * k:,} arcs, but 32-bit indices allow "
            f"{_MAX_ARCS:,}; use k={_MAX_ARCS // (2 * points)} or fewer points"
        )
    nearest = NearestRows(np.empty((points, 0), np.int32), np.empty((points, 0), np.float32))
    if k:
        nearest = nearest_rows(x, k, choose(x, method), done)
    seconds = watch.lap()
    mean = float(nearest.squared_distances.sum(dtype=np.float64)) / max(1, int((nearest.indices >= 0).sum()))
    graph = _symmetrised(nearest.indices, symmetry).to(torch.float32, x.device)
    return NeighbourGraph(graph, mean, nearest.recall, seconds, _mean_squared_norm(x))


def _checked(X: ArrayLike | Tensor) -> Tensor:
    """(N, D) finite float32 or float64."""
    try:
        x = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements="W"))  # else torch warns
    except (TypeError, ValueError) as error:
        raise InputError(f"neighbours: X must be a dense table of numbers (N, D): {error}") from error
    if x.ndim != 2 or not x.numel() or x.is_complex():
        raise InputError(f"neighbours: X must be a table of numbers (N, D), not {x.dtype} {tuple(x.shape)}")
    if x.dtype not in (torch.float32, torch.float64):
        # float32 has every integer up to 2^24; the difference of two timestamps would be lost.
        is_whole = not x.is_floating_point() and x.dtype != torch.bool
        x = x.double() if is_whole and max(-int(x.min()), int(x.max())) > 1 << 24 else x.float()
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


def _symmetrised(indices: NDArray[np.int32], symmetry: Symmetry) -> SparseGraph:
    """The graph of arcs (N, k), -1 for none.

    It uses scipy, which for one problem of millions of points takes a quarter of the time and 0.4 of the memory of
    `SparseGraph.of_arcs`.
    """
    points, present = len(indices), indices >= 0
    pointers = np.concatenate([[0], present.sum(axis=1).cumsum()]).astype(np.int32)
    ones = np.ones(int(pointers[-1]), dtype=np.float32)
    arcs = sparse.csr_array((ones, indices[present], pointers), shape=(points, points))
    arcs.sort_indices()
    if symmetry == "average":
        arcs = (arcs + arcs.T) * np.float32(0.5)
    elif symmetry != "directed":
        arcs = arcs.maximum(arcs.T) if symmetry == "union" else arcs.minimum(arcs.T)
    return SparseGraph.of_matrix(arcs, symmetric=symmetry != "directed")


class NearestRows(NamedTuple):
    """The k nearest other points of every point, nearest first, ties to the lowest index.

    Attributes:
        indices: (N, k) int32, -1 if an approximate search found fewer.
        squared_distances: (N, k) float32 or float64, 0 if there is no neighbour.
        recall: share of the neighbours of a sample of points that are as near as the true ones; 1 if exact.
    """

    indices: NDArray[np.int32]
    squared_distances: NDArray[Any]
    recall: float = 1.0


def choose(x: Tensor, method: Method) -> Search:
    """The search for the rows of X according to `method`."""
    points, columns = x.shape
    if method == "hnsw":
        return "hnsw"
    if columns <= _TREE_COLUMNS and not x.is_cuda:
        return "tree"
    return "blocks" if method == "exact" or x.is_cuda or points <= _EXACT_UP_TO else "hnsw"


def nearest_rows(x: Tensor, k: int, search: Search, done: Done = lambda finished, total: None) -> NearestRows:
    """The k nearest other rows of every row by Euclidean distance.

    Memory besides X and N rows of k: 12 bytes per value and 16 per point for the tree, 4 bytes per value and 136 per
    point for HNSW. It uses as many threads as torch, except for building the HNSW graph, which would otherwise differ
    between runs.

    Args:
        x: (N, D) finite.
        k: in 1..N - 1.
        search: see the docstring of the module.
        done: progress callback.
    """
    if search == "blocks":
        near = nearest_neighbours(Rows.of(x).values[None], k, done=done)
        return NearestRows(near.indices[0].int().cpu().numpy(), near.squared_distances[0].cpu().numpy())
    values = x.cpu().numpy()
    return _by_tree(values, k, done) if search == "tree" else _by_small_worlds(values, k, done)


def nearest_to(points: Tensor, queries: Tensor, k: int) -> Tensor:
    """(n, k) int64 indices of the k nearest of N points (N, D) to each of n queries (n, D); all if they are fewer."""
    k = min(k, len(points))
    if choose(points, "exact") == "blocks":
        return nearest_among(points, queries, k)
    tree = cKDTree(points.numpy(), leafsize=_LEAF)
    return torch.from_numpy(tree.query(queries.numpy(), range(1, k + 1), workers=torch.get_num_threads())[1])


def _by_tree(values: NDArray[Any], k: int, done: Done) -> NearestRows:
    points = len(values)
    indices, squared = np.empty((points, k), np.int32), np.empty((points, k), values.dtype)
    tree = cKDTree(values, leafsize=_LEAF)
    order, ranks = tree.indices, range(1, min(k + 1 + _SPARE, points) + 1)
    for first in range(0, points, _AT_ONCE):
        rows = order[first : first + _AT_ONCE]
        distances, near = tree.query(values[rows], ranks, workers=torch.get_num_threads())
        indices[rows], squared[rows] = _others(rows, near, distances**2, k)
        done(min(first + _AT_ONCE, points), points)
    return NearestRows(indices, squared)


def _by_small_worlds(values: NDArray[Any], k: int, done: Done) -> NearestRows:
    import faiss  # slow import that most data do not need

    points, dimension = values.shape
    # faiss uses single precision, which is insufficient for points far from zero.
    single = np.ascontiguousarray(values - values.mean(axis=0), dtype=np.float32)
    index = faiss.IndexHNSWFlat(dimension, _LINKS)
    index.hnsw.efConstruction = _BUILD_BREADTH
    with threadpool_limits(1, user_api="openmp"):
        for first in range(0, points, _AT_ONCE):
            index.add(single[first : first + _AT_ONCE])
            done(min(first + _AT_ONCE, points) // 2, points)
    count = min(k + 1 + _SPARE, points)

    def look(rows: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        distances, near = index.search(single[rows], count)
        return _others(rows, near, distances, k)

    sample = np.sort(stream(0, "recall").choice(points, min(_SAMPLE, points), replace=False))
    near = nearest_among(torch.from_numpy(single), torch.from_numpy(single[sample]), count).numpy()
    exact = np.stack([((single[near[:, i]] - single[sample]) ** 2).sum(axis=1) for i in range(count)], axis=1)
    reach = _others(sample, near, exact, k)[1][:, -1] * (1 + 1e-5)  # distance of the true k-th neighbour, and rounding
    indices, squared = np.empty((points, k), np.int32), np.empty((points, k), np.float32)
    for breadth in _BREADTHS:
        index.hnsw.efSearch = breadth
        found, distances = look(sample)
        recall = float(((distances <= reach[:, None]) & (found >= 0)).mean())
        if recall >= _ENOUGH:
            break
    if recall < _POOR:
        warnings.warn(
            f"HNSW finds {recall:.0%} of the true neighbours of these points; method='exact' finds all", stacklevel=5
        )
    for first in range(0, points, _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, points))
        indices[rows], squared[rows] = look(rows)
        done((points + rows[-1] + 1) // 2, points)
    return NearestRows(indices, squared, recall)


def _others(
    rows: NDArray[Any], near: NDArray[Any], squared: NDArray[Any], k: int
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """The k nearest (n, k) among candidates (n, c), without the rows themselves; -1 and distance 0 if there are
    fewer."""
    order = near.argsort(axis=1)  # then a stable sort by distance leaves ties to the lowest index
    near, squared = np.take_along_axis(near, order, axis=1), np.take_along_axis(squared, order, axis=1)
    squared = np.where((near == rows[:, None]) | (near < 0), np.inf, squared)
    order = squared.argsort(axis=1, kind="stable")[:, :k]
    near, squared = np.take_along_axis(near, order, axis=1), np.take_along_axis(squared, order, axis=1)
    missing = np.isinf(squared)
    return np.where(missing, -1, near).astype(np.int32), np.where(missing, 0, squared)
