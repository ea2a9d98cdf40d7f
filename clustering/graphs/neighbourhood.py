"""Graphs of the nearest neighbours in a batch of problems: matrices for points with inner products (`Gram`), lists for
many points (`Features`)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from clustering.graphs.dense_graph import DenseGraph, Symmetry, nearest, symmetrised
from clustering.graphs.knn import Nearest, nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Points, squared_pairwise
from clustering.optimiser.terms import Graph

Similarity = Literal["cosine", "gaussian"]
"""Weight of an arc of length d: the cosine 1 - d^2 / 2, for points of norm 1 up to rounding, whose neighbours are then
those with the largest inner products; or exp(-d^2 / s^2), with the median length s of the arcs of a problem."""


@dataclass(frozen=True)
class Arcs:
    """Arcs p -> q from every point to its nearest neighbours, with their lengths.

    Attributes:
        found: the neighbours as lists; or as a pair of (B, N, N), 1 from each point to its neighbours, and all squared
            distances.
    """

    found: Nearest | tuple[Tensor, Tensor]

    @property
    def number(self) -> Tensor:
        """(B,) number of arcs."""
        if isinstance(self.found, Nearest):
            return self.found.present.sum(dim=(1, 2)).to(self.found.squared_distances.dtype)
        return self.found[0].sum(dim=(1, 2))

    @property
    def squared_lengths(self) -> Tensor:
        """(B,) sum of their squared lengths."""
        if isinstance(self.found, Nearest):
            return self.found.squared_distances.sum(dim=(1, 2))
        lengths: Tensor = torch.linalg.vecdot(self.found[0].flatten(1), self.found[1].flatten(1))
        return lengths

    def graph(self, symmetry: Symmetry, dtype: torch.dtype) -> Graph:
        """The graph with weights 0/1 before symmetrisation, for assignments of this dtype."""
        if isinstance(self.found, Nearest):
            ones = torch.ones_like(self.found.squared_distances, dtype=dtype)
            return SparseGraph.of_arcs(self.found.indices, ones, symmetry)
        return DenseGraph(symmetrised(self.found[0].to(dtype), symmetry), symmetric=symmetry != "directed")


def nearest_arcs(points: Points, k: int, *, valid: Tensor | None = None) -> Arcs:
    """Arcs from every point to its k nearest neighbours; for the arguments see `neighbour_graph`."""
    if isinstance(points, Features):
        return Arcs(nearest_neighbours(points.values, k, valid=valid))
    squared = squared_pairwise(points)
    return Arcs((nearest(squared, k, valid=valid), squared))


def neighbour_graph(
    points: Points,
    k: int,
    *,
    first: int = 0,
    symmetry: Symmetry = "average",
    valid: Tensor | None = None,
) -> Graph:
    """The kNN graph of each problem, with weights 0/1 before symmetrisation (thesis section 4.1).

    Args:
        points: points of B problems; any displacement of them is ignored.
        k: number of neighbours, not counting the point itself (which public codes count, and then drop); all others if
            there are fewer.
        first: index of the first point of the graph.
        symmetry: see `Symmetry`. Only a symmetric graph has an objective; "directed" is what the public code does.
        valid: (B, N) bool, False for padded points, which get no arcs.
    """
    if isinstance(points, Features):
        return nearest_arcs(Features(points.values[:, first:]), k, valid=valid).graph(symmetry, points.values.dtype)
    return DenseGraph.of_points(points, k, symmetry, first=first, valid=valid)


def similarity_graph(
    points: Points,
    k: int,
    similarity: Similarity,
    *,
    first: int = 0,
    symmetry: Symmetry = "average",
    valid: Tensor | None = None,
) -> Graph:
    """The kNN graph of each problem, weighted by `Similarity`; the other arguments are those of `neighbour_graph`."""
    unit = similarity == "cosine"
    weights_of = cosine_of if unit else _gaussian
    if isinstance(points, Features):
        near = nearest_neighbours(points.values[:, first:], k, valid=valid, unit=unit)
        return SparseGraph.of_arcs(near.indices, weights_of(near.squared_distances, near.present), symmetry)
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
