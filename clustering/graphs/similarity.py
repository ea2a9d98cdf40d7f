"""Nearest-neighbour graphs whose weights are similarities instead of 0/1."""

from collections.abc import Callable

from torch import Tensor

from clustering.graphs.dense_graph import DenseGraph, Graph, Symmetry, nearest, symmetrised
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Points


def similarity_graph(
    points: Points,
    k: int,
    similarity: Callable[[Tensor], Tensor],
    *,
    first: int = 0,
    symmetry: Symmetry = "average",
    valid: Tensor | None = None,
) -> Graph:
    """The kNN graph of unit vectors, weighted by a function of the squared distance 2 - 2 <x_i, x_j>.

    Args:
        points: points of B problems, of norm 1 up to rounding.
        k: number of neighbours, not counting the point itself; all others if there are fewer.
        similarity: weights of squared Euclidean distances (..., k) or (B, N, N).
        first: index of the first point of the graph.
        symmetry: see `Symmetry`.
        valid: (B, N) bool, False for padded points, which get no arcs.
    """
    if isinstance(points, Features):
        near = nearest_neighbours(points.values[:, first:], k, valid=valid, unit=True)
        return SparseGraph.of_arcs(near.indices, similarity(near.squared_distances), symmetry)
    squared = points.pairwise()[:, first:, first:].mul(-2).add_(2)
    weights = nearest(squared, k, valid=valid).mul_(similarity(squared))
    return DenseGraph(symmetrised(weights, symmetry), symmetric=symmetry != "directed")


def cosine_of(squared: Tensor) -> Tensor:
    """Cosines of unit vectors at these squared distances."""
    return squared.mul(-0.5).add_(1)
