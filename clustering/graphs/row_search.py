"""Nearest neighbours among the rows of one large data set, by the cheapest suitable search.

- "tree": exact, for few columns. A k-d tree (scipy), queried in the order of its leaves, so that consecutive queries
  read the same part of it, in half the time of any other order.
- "blocks": exact, for many columns, and on a GPU: products of blocks of rows (`clustering.graphs.knn`).
- "hnsw": approximate, for too many points to compare all pairs. Navigable small worlds (Malkov and Yashunin 2018,
  faiss); its recall is measured.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits
from torch import Tensor

from clustering.foundation.streams import stream
from clustering.graphs.knn import nearest_among, nearest_neighbours
from clustering.optimiser.points import Rows

Method = Literal["auto", "exact", "hnsw"]
Search = Literal["tree", "blocks", "hnsw"]
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


def choose(x: Tensor, method: Method) -> Search:
    """The search for the rows of X according to `method`."""
    points, columns = x.shape
    if method == "hnsw":
        return "hnsw"
    if columns <= _TREE_COLUMNS and not x.is_cuda:
        return "tree"
    return "blocks" if method == "exact" or x.is_cuda or points <= EXACT_UP_TO else "hnsw"


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
        origin = Rows.of(x).origin  # centring reduces rounding of products for points far from zero
        near = nearest_neighbours((x if origin is None else x - origin)[None], k, done=done)
        indices, squared = near.indices[0].int().cpu().numpy(), near.squared_distances[0].cpu().numpy()
        return NearestRows(indices, squared, search, 1.0)
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
    return NearestRows(indices, squared, "tree", 1.0)


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
    reach = _reach(single, sample, k)
    indices, squared = np.empty((points, k), np.int32), np.empty((points, k), np.float32)
    for breadth in _BREADTHS:
        index.hnsw.efSearch = breadth
        near, distances = look(sample)
        recall = float(((distances <= reach[:, None]) & (near >= 0)).mean())
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
