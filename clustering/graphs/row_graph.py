"""The neighbour graph of the rows of a data set, built here or passed by the user and validated."""

import warnings
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse

from clustering.foundation.errors import InputError
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbours import NeighbourGraph, neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.rows import Rows

Bandwidth = Literal["estimate", "published"] | float
"""sigma of the kernel, see `graph_and_variance`."""

_ASYMMETRY = 1e-6
"""Tolerance of asymmetric weights, relative to the largest weight."""

_GATHERED = 1 << 22
"""Number of coordinates of arc ends processed at a time: 16 MiB in float32."""


def graph_and_variance(
    source: Any, rows: Rows, k: int, symmetry: Symmetry, bandwidth: Bandwidth
) -> tuple[SparseGraph, float]:
    """W of the rows, and sigma^2 of the kernel on them.

    Args:
        source: a graph, see `given_graph`; None builds it.
        rows: N points.
        k: number of neighbours; at most N - 1 are used.
        symmetry: how arcs become W; for a given graph, only whether it may stay directed.
        bandwidth: sigma. "estimate" sets sigma^2 to the mean squared distance to the neighbours (thesis section 2.4);
            "published" sets it to k / (k + 1) of that, as the public code does. If all distances are 0, sigma is 1.
    """
    values = rows.values
    if source is None:
        source = neighbours(values, k, symmetry=symmetry)
    graph = given_graph(source, len(values), directed=symmetry == "directed").to(values.dtype, values.device)
    if not isinstance(bandwidth, str):
        return graph, float(bandwidth) ** 2
    if isinstance(source, NeighbourGraph) and source.is_of(rows.absolute(values)):
        squared = source.mean_squared_distance
    else:
        squared = mean_squared_length(graph, rows)
    if bandwidth == "published":
        squared *= k / (k + 1)
    if squared > 64 * torch.finfo(values.dtype).eps * float(rows.squared_norms.max()):
        return graph, squared
    if len(values) > 1:  # the distances are rounding errors
        warnings.warn(
            "every point coincides with its neighbours, so bandwidth 1 is used; set bandwidth to a number", stacklevel=3
        )
    return graph, 1.0


def neighbours_used(n_neighbors: int, points: int, clusters: int) -> int:
    """Neighbours of a point in the graph: at most as many as other points are in a cluster of mean size. With more,
    the graph would join clusters however far they are apart."""
    return int(min(n_neighbors, max(1, points // clusters - 1)))


def mean_squared_length(graph: SparseGraph, rows: Rows) -> float:
    """Weighted mean of ||x_p - x_q||^2 over the arcs; symmetrisation by the average does not change it."""
    sources, values = torch.repeat_interleave(graph.pointers.diff()), rows.values
    total = mass = 0.0
    at_once = max(1, _GATHERED // max(1, values.shape[1]))
    parts = (torch.split(part, at_once) for part in (sources, graph.columns, graph.weights))
    for source, column, weight in zip(*parts, strict=True):
        lengths = (values[source] - values[column]).square().sum(dim=1)
        total += float((lengths * weight.abs()).sum(dtype=torch.float64))
        mass += float(weight.abs().sum(dtype=torch.float64))
    return total / mass if mass else 0.0


def given_graph(graph: Any, points: int, *, directed: bool = False) -> SparseGraph:
    """W of a graph given as `NeighbourGraph`, `SparseGraph` of one problem, or square (sparse) matrix of weights.

    The diagonal is ignored: for labels it is a constant, and for assignments it would reward confidence. If W is not
    symmetric, (W + W^T) / 2 is used, which has the same objective and the correct gradient.

    Args:
        graph: weights w_pq, with the arcs of point p in row p; stored zeros are ignored.
        points: required number of points N.
        directed: whether to keep an asymmetric W.

    Raises:
        InputError: the graph has another type or number of points, or its weights are not finite.
    """
    if isinstance(graph, NeighbourGraph):
        graph = graph.graph
    if isinstance(graph, SparseGraph):
        if len(graph.pointers) - 1 != points:
            raise InputError(
                f"graph has {len(graph.pointers) - 1} points, but X has {points}; pass the graph of these rows"
            )
        return graph if graph.symmetric or directed else _both_ways(graph.matrix())
    try:
        matrix = sparse.csr_matrix(graph)
    except (TypeError, ValueError) as error:
        raise InputError(f"graph must be a square sparse matrix of weights, not {type(graph).__name__}") from error
    if matrix.shape != (points, points):
        raise InputError(f"graph has shape {matrix.shape}, but X has {points} rows; pass the graph of these rows")
    matrix = matrix.astype(np.promote_types(matrix.dtype, np.float32), copy=True)
    if not np.isfinite(matrix.data).all():
        raise InputError("graph has weights that are NaN or infinite; remove these arcs")
    if len(matrix.data) and matrix.data.min() < 0:
        warnings.warn(
            "graph has negative weights, which separate neighbours; remove these arcs if this is not intended",
            stacklevel=3,
        )
    matrix.setdiag(0)
    asymmetry = abs(matrix - matrix.T)
    symmetric = not asymmetry.nnz or asymmetry.max() <= _ASYMMETRY * abs(matrix).max()
    if not symmetric and not directed:
        return _both_ways(matrix)
    matrix.eliminate_zeros()
    return SparseGraph.of_matrix(matrix, symmetric=bool(symmetric))


def _both_ways(matrix: Any) -> SparseGraph:
    warnings.warn("graph is not symmetric; (W + W^T) / 2 is used, which has the same objective", stacklevel=4)
    both = sparse.csr_array((matrix + matrix.T) / 2)
    both.eliminate_zeros()
    return SparseGraph.of_matrix(both)


def scipy_graph(graph: SparseGraph) -> sparse.csr_array:
    """(N, N) float64 weights of a graph of one problem, for eigensolvers.

    Raises:
        InputError: negative weights, which are not affinities.
    """
    if (graph.weights < 0).any():
        raise InputError("graph has negative weights, which are not affinities; remove these arcs")
    return graph.matrix().astype(np.float64)
