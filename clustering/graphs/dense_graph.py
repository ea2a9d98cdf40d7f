"""Neighbour graphs. A term needs only the product `graph @ S`."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Points, in_cache

Symmetry = Literal["average", "union", "mutual", "directed"]
"""How the arcs p -> q of the k nearest neighbours become weights: (W + W^T) / 2, max, min, or W unchanged."""


@dataclass(frozen=True)
class DenseGraph:
    """A batch of small graphs as dense matrices.

    Up to about 500 points a dense product is faster than a sparse one, and the symmetrised kNN graph has no fixed
    number of neighbours for an index table.

    Attributes:
        weights: (B, N, N), row p holds the weights of p's arcs.
        symmetric: whether weights equal their transpose.
    """

    weights: Tensor
    symmetric: bool = True

    @classmethod
    def of_points(
        cls, points: Points, k: int, symmetry: Symmetry = "average", *, first: int = 0, valid: Tensor | None = None
    ) -> "DenseGraph":
        """The kNN graphs of points with known inner products, as `clustering.graphs.neighbourhood.neighbour_graph`
        builds them."""
        batch, size = points.squared_norms.shape
        weights = points.squared_norms.new_empty(batch, size - first, size - first)
        for part in in_cache(weights, _CACHED):
            distances = points.select(part).dissimilarities(first).permute(2, 0, 1).contiguous()
            symmetrised(_arcs(distances, k, None if valid is None else valid[part]), symmetry, out=weights[part])
        return cls(weights, symmetric=symmetry != "directed")

    def __matmul__(self, assignments: Tensor) -> Tensor:
        # (W S)^T = S^T W^T: the optimiser stores classes before points, so both factors have the right layout.
        right = self.weights if self.symmetric else self.weights.mT
        return torch.bmm(assignments.mT, right).mT

    def select(self, problems: Tensor) -> "DenseGraph":
        return DenseGraph(self.weights[problems], self.symmetric)


_CACHED = 100_000
"""Number of pairs of points processed at a time, so that the matrices involved stay in the cache."""

_FAR, _CROSSED = 1e30, 1e36  # above every real dissimilarity, and above that


def nearest(dissimilarities: Tensor, k: int, *, valid: Tensor | None = None) -> Tensor:
    """Indicators of the k nearest other points of each point, ties to the lowest index.

    Args:
        dissimilarities: (B, N, N) below 1e29, ordered within a row as distances are.
        k: number of neighbours besides the point itself; all others if there are fewer.
        valid: (B, N) bool, False for padded points, which neither have nor are neighbours.

    Returns:
        (B, N, N) of zeros and ones.
    """
    arcs = torch.empty_like(dissimilarities)
    for part in in_cache(arcs, _CACHED):
        distances = dissimilarities[part].permute(2, 0, 1).clone(memory_format=torch.contiguous_format)
        arcs[part] = _arcs(distances, k, None if valid is None else valid[part])
    return arcs


def symmetrised(arcs: Tensor, symmetry: Symmetry, out: Tensor | None = None) -> Tensor:
    """(B, N, N) weights of directed arcs, see `Symmetry`."""
    if symmetry == "directed":
        return arcs if out is None else out.copy_(arcs)
    if symmetry == "average":
        return torch.add(arcs, arcs.mT, out=out).mul_(0.5)
    combine = torch.maximum if symmetry == "union" else torch.minimum
    return combine(arcs, arcs.mT, out=out)


def _arcs(distances: Tensor, k: int, valid: Tensor | None) -> Tensor:
    """(b, N, N) `nearest` of some problems, from their dissimilarities (N, b, N), which are overwritten.

    Candidates come first, then problems and points: minima over candidates are then vectorised over long vectors,
    several times faster than minima of rows.
    """
    distances.diagonal(dim1=0, dim2=2).fill_(_FAR)
    if valid is not None:
        distances.masked_fill_(~valid.T[..., None], _FAR)
    # Remove the smallest of every point k - 1 times and take all up to the next: faster than topk or a partition.
    left, chosen = distances, torch.empty_like(distances)
    for crossing in range(min(k, len(distances) - 1) - 1):
        torch.le(left, left.amin(dim=0), out=chosen)
        left = torch.add(left, chosen, alpha=_CROSSED) if crossing == 0 else left.add_(chosen, alpha=_CROSSED)
    if min(k, len(distances) - 1) > 0:
        torch.le(distances, left.amin(dim=0), out=chosen)
        chosen.diagonal(dim1=0, dim2=2).fill_(0.0)
    else:
        chosen.zero_()
    if valid is not None:
        chosen *= valid.T[..., None]
        chosen *= valid
    # Equal dissimilarities were removed together. Without padding the total count reveals it.
    arcs = chosen.permute(1, 2, 0)
    if valid is None and float(chosen.sum()) <= k * chosen[0].numel():
        return arcs
    tied = (chosen.sum(dim=0) > k).any(dim=1)
    if tied.any():
        order = distances.permute(1, 2, 0)[tied].sort(dim=2, stable=True).indices[..., :k]
        arcs[tied] *= torch.zeros_like(arcs[tied]).scatter_(2, order, 1.0)
    return arcs
