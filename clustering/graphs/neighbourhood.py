"""Arcs from every point to its nearest neighbours: matrices for points with inner products (`Gram`), lists for many
points (`Features`), with a common interface."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from clustering.graphs.dense_graph import DenseGraph, Symmetry, nearest, symmetrised
from clustering.graphs.knn import Nearest, nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.optimiser.points import Features, Points, squared_pairwise
from clustering.optimiser.terms import Graph


class Arcs(Protocol):
    """Arcs p -> q from every point to its nearest neighbours, with their lengths."""

    @property
    def number(self) -> Tensor:
        """(B,) number of arcs."""
        ...

    @property
    def squared_lengths(self) -> Tensor:
        """(B,) sum of their squared lengths."""
        ...

    def graph(self, symmetry: Symmetry, dtype: torch.dtype) -> Graph:
        """The graph with weights 0/1 before symmetrisation, for assignments of this dtype."""
        ...


@dataclass(frozen=True)
class DenseArcs:
    """Arcs as matrices: `ones` (B, N, N), 1 from each point to its neighbours, and `squared` distances in the same
    layout."""

    ones: Tensor
    squared: Tensor

    @property
    def number(self) -> Tensor:
        return self.ones.sum(dim=(1, 2))

    @property
    def squared_lengths(self) -> Tensor:
        lengths: Tensor = torch.linalg.vecdot(self.ones.flatten(1), self.squared.flatten(1))
        return lengths

    def graph(self, symmetry: Symmetry, dtype: torch.dtype) -> Graph:
        return DenseGraph(symmetrised(self.ones.to(dtype), symmetry), symmetric=symmetry != "directed")


@dataclass(frozen=True)
class ListedArcs:
    """Arcs as lists of neighbours."""

    found: Nearest

    @property
    def number(self) -> Tensor:
        return self.found.present.sum(dim=(1, 2)).to(self.found.squared_distances.dtype)

    @property
    def squared_lengths(self) -> Tensor:
        return self.found.squared_distances.sum(dim=(1, 2))

    def graph(self, symmetry: Symmetry, dtype: torch.dtype) -> Graph:
        ones = torch.ones_like(self.found.squared_distances, dtype=dtype)
        return SparseGraph.of_arcs(self.found.indices, ones, symmetry)


def nearest_arcs(points: Points, k: int, *, include_self: bool = False, valid: Tensor | None = None) -> Arcs:
    """Arcs from every point to its k nearest neighbours; for the arguments see `neighbour_graph`."""
    if isinstance(points, Features):
        return ListedArcs(nearest_neighbours(points.values, k - include_self, valid=valid))
    squared = squared_pairwise(points)
    return DenseArcs(nearest(squared, k - include_self, valid=valid), squared)


def neighbour_graph(
    points: Points,
    k: int,
    *,
    first: int = 0,
    symmetry: Symmetry = "average",
    include_self: bool = False,
    valid: Tensor | None = None,
) -> Graph:
    """The kNN graph of each problem, with weights 0/1 before symmetrisation (thesis section 4.1).

    Args:
        points: points of B problems; any displacement of them is ignored.
        k: number of neighbours, not counting the point itself; all others if there are fewer.
        first: index of the first point of the graph.
        symmetry: see `Symmetry`. Only a symmetric graph has an objective; "directed" is what the public code does.
        include_self: whether to count the point itself among its k neighbours and then drop it, as the public code
            does, which leaves k - 1 neighbours.
        valid: (B, N) bool, False for padded points, which get no arcs.
    """
    real = k - include_self
    if isinstance(points, Features):
        neighbours = nearest_neighbours(points.values[:, first:], real, valid=valid)
        return ListedArcs(neighbours).graph(symmetry, points.values.dtype)
    return DenseGraph.of_points(points, real, symmetry, first=first, valid=valid)
