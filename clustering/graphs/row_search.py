"""Nearest neighbours among the rows of one large data set, by the cheapest suitable search.

- "tree": exact, for few columns. A k-d tree (scipy), queried in the order of its leaves, so that consecutive queries
  read the same part of it, in half the time of any other order. - "blocks": exact, for many columns, and on a GPU:
  products of blocks of rows (`clustering.graphs.knn`). - "sparse": exact, for sparse rows: sparse products
  (scikit-learn). - "hnsw": approximate, for too many points to compare all pairs. Navigable small worlds (Malkov and
  Yashunin 2018, faiss); its recall is measured.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from clustering.foundation.cores import all_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from clustering.graphs.knn import nearest_among, nearest_neighbours
from clustering.graphs.sparse_rows import SparseTable, rows_of

Method = Literal["auto", "exact", "hnsw"]
Search = Literal["tree", "blocks", "sparse", "hnsw"]
Done = Callable[[int, int], None]
"""Progress callback, called with the number of finished points and their total number."""

EXACT_UP_TO = 100_000
"""Number of points up to which `method="auto"` compares all pairs."""

_TREE_COLUMNS = 10
"""Maximum number of columns for a tree; with more independent columns it visits most of its leaves."""

_LEAF = 32
_AT_ONCE = 1 << 14
_SPARE = 2
"""Candidates beyond k and the point itself, among which ties are resolved by the lowest index."""

_LINKS, _BUILD_BREADTH = 16, 80
_BREADTHS = (32, 64, 128, 256, 512)
_ENOUGH = 0.99
"""Recall on the sample at which the search parameters are sufficient."""

_POOR = 0.95
"""Recall below which a warning is raised."""

_SAMPLE = 256

_PRODUCTS = 64
"""Number of multiply-adds of a matrix product that take as long as one pass over a number."""


class NearestRows(NamedTuple):
    """The k nearest other points of every point, nearest first, ties to the lowest index.

    Attributes:
        indices: (N, k) int32, -1 if an approximate search found fewer.
        squared_distances: (N, k) float32 or float64, 0 if there is no neighbour.
        search: the search that was used.
        recall: share of the neighbours of a sample of points that are as near as the true ones; 1 if exact.
    """

    indices: NDArray[np.int32]
    squared_distances: NDArray[Any]
    search: Search
    recall: float


def choose(x: Tensor | SparseTable, method: Method) -> Search:
    """The search for the rows of X according to `method`.

    Raises:
        InputError: hnsw with sparse rows, which it does not support.
    """
    if isinstance(x, SparseTable):
        if method == "hnsw":
            raise InputError("method='hnsw' requires dense rows; set method='exact', or reduce the columns first")
        return "sparse"
    points, columns = x.shape
    if method == "hnsw":
        return "hnsw"
    if columns <= _TREE_COLUMNS and not x.is_cuda:
        return "tree"
    return "blocks" if method == "exact" or x.is_cuda or points <= EXACT_UP_TO else "hnsw"


def nearest_rows(
    x: Tensor | SparseTable, k: int, search: Search, done: Done = lambda finished, total: None
) -> NearestRows:
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
    with all_if_large(_operations(x, len(x), k, search)):
        return _nearest_rows(x, k, search, done)


def _operations(x: Tensor | SparseTable, queries: int, k: int, search: Search) -> float:
    """Cost of a search with this number of queries, in passes over a number.

    A tree visits some leaves per query; the other searches compare all pairs by products with one multiply-add per
    column.
    """
    if search == "tree":
        return float(queries * _LEAF * (k + 1 + _SPARE))
    return float(queries * len(x) * max(1.0, x.shape[1] / _PRODUCTS))


def _nearest_rows(x: Tensor | SparseTable, k: int, search: Search, done: Done) -> NearestRows:
    if isinstance(x, SparseTable):
        return _by_sparse_products(x, k, done)
    if search == "blocks":
        origin = rows_of(x).origin  # centring reduces rounding of products for points far from zero
        near = nearest_neighbours((x if origin is None else x - origin)[None], k, done=done)
        return NearestRows(near.indices[0].int().cpu().numpy(), near.squared_distances[0].cpu().numpy(), search, 1.0)
    values = x.cpu().numpy()
    return _by_tree(values, k, done) if search == "tree" else _by_small_worlds(values, k, done)


def nearest_to(points: Tensor | SparseTable, queries: Tensor | SparseTable, k: int) -> Tensor:
    """(n, k) int64 indices of the k nearest of N points (N, D) to each of n queries (n, D); all if they are fewer."""
    k = min(k, len(points))
    with all_if_large(_operations(points, len(queries), k, choose(points, "exact"))):
        return _nearest_to(points, queries, k)


def _nearest_to(points: Tensor | SparseTable, queries: Tensor | SparseTable, k: int) -> Tensor:
    if isinstance(points, SparseTable) or isinstance(queries, SparseTable):
        known, new = (
            side.scipy() if isinstance(side, SparseTable) else sparse.csr_array(side.cpu().numpy())
            for side in (points, queries)
        )
        nearest = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(known).kneighbors(new, return_distance=False)
        return torch.from_numpy(nearest).to(queries.device)
    if choose(points, "exact") == "blocks":
        return nearest_among(points, queries, k)
    tree = cKDTree(points.numpy(), leafsize=_LEAF)
    indices = tree.query(queries.numpy(), range(1, k + 1), workers=torch.get_num_threads())[1]
    return torch.from_numpy(indices)


def _by_tree(values: NDArray[Any], k: int, done: Done) -> NearestRows:
    points = len(values)
    indices, squared = _empty(values, k)
    tree = cKDTree(values, leafsize=_LEAF)
    order, ranks = tree.indices, range(1, min(k + 1 + _SPARE, points) + 1)
    for first in range(0, points, _AT_ONCE):
        rows = order[first : first + _AT_ONCE]
        distances, near = tree.query(values[rows], ranks, workers=torch.get_num_threads())
        indices[rows], squared[rows] = _others(rows, near, distances**2, k)
        done(min(first + _AT_ONCE, points), points)
    return NearestRows(indices, squared, "tree", 1.0)


def _by_sparse_products(x: SparseTable, k: int, done: Done) -> NearestRows:
    values, points = x.scipy(), len(x)
    indices, squared = _empty(values, k)
    count = min(k + 1 + _SPARE, points)
    known = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(values)
    for first in range(0, points, _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, points))
        distances, near = known.kneighbors(values[rows])
        indices[rows], squared[rows] = _others(rows, near, distances.astype(np.float64) ** 2, k)
        done(int(rows[-1]) + 1, points)
    return NearestRows(indices, squared, "sparse", 1.0)


def _by_small_worlds(values: NDArray[Any], k: int, done: Done) -> NearestRows:
    import faiss  # slow import that most data do not need

    points, dimension = values.shape
    # faiss uses single precision, which is insufficient for points far from zero.
    single = np.ascontiguousarray(values - values.mean(axis=0), dtype=np.float32)
    index = faiss.IndexHNSWFlat(dimension, _LINKS)
    index.hnsw.efConstruction = _BUILD_BREADTH
    with _threads(1, faiss):
        for first in range(0, points, _AT_ONCE):
            index.add(single[first : first + _AT_ONCE])
            done(min(first + _AT_ONCE, points) // 2, points)
    count = min(k + 1 + _SPARE, points)

    def look(rows: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        distances, near = index.search(single[rows], count)
        return _others(rows, near, distances, k)

    sample = np.sort(stream(0, "recall").choice(points, min(_SAMPLE, points), replace=False))
    reach = _reach(single, sample, k)
    indices, squared = _empty(single, k)
    with _threads(torch.get_num_threads(), faiss):
        for breadth in _BREADTHS:
            index.hnsw.efSearch = breadth
            near, distances = look(sample)
            recall = float(((distances <= reach[:, None]) & (near >= 0)).mean())
            if recall >= _ENOUGH:
                break
        if recall < _POOR:
            warnings.warn(
                f"HNSW finds {recall:.0%} of the true neighbours of these points; method='exact' finds all",
                stacklevel=6,
            )
        for first in range(0, points, _AT_ONCE):
            rows = np.arange(first, min(first + _AT_ONCE, points))
            indices[rows], squared[rows] = look(rows)
            done((points + rows[-1] + 1) // 2, points)
    return NearestRows(indices, squared, "hnsw", recall)


def _reach(values: NDArray[np.float32], sample: NDArray[Any], k: int) -> NDArray[Any]:
    """Squared distances of sampled points to their true k-th neighbour, plus rounding error."""
    x = torch.from_numpy(values)
    near = nearest_among(x, x[sample], min(k + 1 + _SPARE, len(x))).numpy()
    exact = np.stack([((values[near[:, i]] - values[sample]) ** 2).sum(axis=1) for i in range(near.shape[1])], axis=1)
    return _others(sample, near, exact, k)[1][:, -1] * (1 + 1e-5)


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


def _empty(values: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
    shape = values.shape[0], k
    return np.empty(shape, dtype=np.int32), np.empty(shape, dtype=values.dtype)


@contextmanager
def _threads(count: int, faiss: Any) -> Iterator[None]:
    """Set the number of faiss threads, shared with torch if both use one OpenMP; restored afterwards."""
    before = torch.get_num_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
