"""Nearest-neighbour graphs whose weights are similarities instead of 0/1."""

from typing import Literal

import torch
from torch import Tensor

from clustering.graphs.dense_graph import DenseGraph, Symmetry, nearest, symmetrised
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Points, squared_pairwise
from clustering.optimiser.terms import Graph

Similarity = Literal["cosine", "gaussian"]
"""Weight of an arc of length d: the cosine 1 - d^2 / 2, for points of norm 1 up to rounding, whose neighbours are then
those with the largest inner products; or exp(-d^2 / s^2), with the median length s of the arcs of a problem."""


def similarity_graph(
    points: Points,
    k: int,
    similarity: Similarity,
    *,
    first: int = 0,
    symmetry: Symmetry = "average",
    valid: Tensor | None = None,
) -> Graph:
    """The kNN graph of each problem, weighted by similarity.

    Args:
        points: points of B problems.
        k: number of neighbours, not counting the point itself; all others if there are fewer.
        similarity: see `Similarity`.
        first: index of the first point of the graph.
        symmetry: see `Symmetry`.
        valid: (B, N) bool, False for padded points, which get no arcs.
    """
    unit = similarity == "cosine"
    weights_of = cosine_of if unit else _gaussian
    if isinstance(points, Features):
        near = nearest_neighbours(points.values[:, first:], k, valid=valid, unit=unit)
        weights = weights_of(near.squared_distances, near.present)
        return SparseGraph.of_arcs(near.indices, weights, symmetry)
    squared = points.pairwise().mul(-2).add_(2) if unit else squared_pairwise(points)
    squared = squared[:, first:, first:].contiguous()
    arcs = nearest(squared, k, valid=valid)
    weights = arcs.mul_(weights_of(squared, arcs > 0))
    return DenseGraph(symmetrised(weights, symmetry), symmetric=symmetry != "directed")


def cosine_of(squared: Tensor, arcs: Tensor | None = None) -> Tensor:
    """Cosines of unit vectors at these squared distances."""
    return squared.mul(-0.5).add_(1)


def _gaussian(squared: Tensor, arcs: Tensor) -> Tensor:
    """exp(-d^2 / s^2), with the median s^2 of the squared lengths (B, ...) where `arcs` is True."""
    lengths = squared.masked_fill(~arcs, torch.nan).flatten(1)
    median = lengths.nanmedian(dim=1).values.nan_to_num(1.0)  # nan without arcs
    scale = median.clamp_min(torch.finfo(squared.dtype).eps)  # 0 if most neighbours are equal points
    return torch.exp(-squared / scale.view(-1, *[1] * (squared.dim() - 1)))
