"""Neighbour graphs. All that a term needs of a graph is `graph @ S`."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from clustering.errors import InputError

Symmetry = Literal["average", "union", "mutual", "directed"]
"""How the arcs p -> q of the k nearest neighbours become weights: (W + W^T)/2, max, min, or W as it is."""


class Graph(Protocol):
    """Symmetric or directed weights between points, zero diagonal."""

    @property
    def symmetric(self) -> bool: ...

    def __matmul__(self, assignments: Tensor) -> Tensor:
        """W S for (B, N, K) assignments."""
        ...

    def select(self, problems: Tensor) -> "Graph":
        """The graphs of some problems of the batch, given by their indices."""
        ...


@dataclass(frozen=True)
class DenseGraph:
    """A batch of small graphs as dense matrices.

    Up to some 500 points a dense product is faster than a sparse one, and the symmetrised kNN graph has no fixed
    number of neighbours that an index table could hold.

    Attributes:
        weights: (B, N, N), row p holds the weights of p's arcs.
        symmetric: whether weights equal their transpose.
    """

    weights: Tensor
    symmetric: bool = True

    def __matmul__(self, assignments: Tensor) -> Tensor:
        # (W S)^T = S^T W^T: the optimiser keeps classes before points, so both factors are already laid out.
        right = self.weights if self.symmetric else self.weights.mT
        return torch.bmm(assignments.mT, right).mT

    def select(self, problems: Tensor) -> "DenseGraph":
        return DenseGraph(self.weights[problems], self.symmetric)


LARGEST_DENSE = 16_384
"""Points of a dense graph: 1 GiB a matrix in float32."""

_FAR, _CROSSED = 1e30, 1e36  # beyond every real dissimilarity, and beyond that again


def nearest(dissimilarities: Tensor, k: int, *, valid: Tensor | None = None) -> Tensor:
    """A one for each of a point's k nearest others, ties to the lowest index.

    Args:
        dissimilarities: (B, N, N) below 1e29, ordered within a row as distances are. Its diagonal is overwritten.
        k: neighbours besides the point itself; all others where there are fewer.
        valid: (B, N) bool, False for padded points, which are nobody's neighbours.

    Returns:
        (B, N, N) of zeros and ones.
    """
    dissimilarities.diagonal(dim1=1, dim2=2).fill_(_FAR)
    if valid is not None:
        dissimilarities = dissimilarities.masked_fill(~valid[:, None, :], _FAR)
    # Cross out the smallest of every row, k times: passes over whole matrices, several times faster than topk.
    left, smallest = dissimilarities, torch.empty_like(dissimilarities)
    for crossing in range(min(k, dissimilarities.shape[1] - 1)):
        torch.le(left, left.amin(dim=2, keepdim=True), out=smallest)
        left = torch.add(left, smallest, alpha=_CROSSED) if crossing == 0 else left.add_(smallest, alpha=_CROSSED)
    chosen = torch.ge(left, _CROSSED / 2, out=smallest)
    chosen.diagonal(dim1=1, dim2=2).fill_(0.0)
    if valid is not None:
        chosen *= valid[:, None, :]
    # Equal dissimilarities were crossed out together. Without padding, totals are enough to see it.
    count = chosen.flatten(1).sum(dim=1) / chosen.shape[1] if valid is None else chosen.sum(dim=2).amax(dim=1)
    tied = count > k
    if tied.any():
        order = dissimilarities[tied].sort(dim=2, stable=True).indices[..., :k]
        chosen[tied] *= torch.zeros_like(chosen[tied]).scatter_(2, order, 1.0)
    return chosen


def neighbours(
    dissimilarities: Tensor,
    k: int,
    *,
    symmetry: Symmetry = "average",
    include_self: bool = False,
    valid: Tensor | None = None,
) -> DenseGraph:
    """The kNN graphs of a batch of point sets, weights 0/1 before symmetrising (thesis section 4.1).

    Args:
        dissimilarities: (B, N, N), ordered within a row as distances are. Its diagonal is overwritten.
        k: neighbours of a point, itself not counted; where there are fewer others, all of them.
        symmetry: see `Symmetry`. Only a symmetric graph has an objective; "directed" is what the public code does.
        include_self: count the point itself among its k neighbours, and then drop it, as the public code does:
            k - 1 real neighbours.
        valid: (B, N) bool, False for padded points, which get no arcs.

    Raises:
        InputError: too many points for a dense matrix.
    """
    points = dissimilarities.shape[1]
    if points > LARGEST_DENSE:
        raise InputError(
            f"a graph of {points:,} points is {points**2 * 4 / 2**30:.0f} GiB as a dense matrix; this form takes up to "
            f"{LARGEST_DENSE:,} points, so give fewer queries at once"
        )
    weights = nearest(dissimilarities, k - 1 if include_self else k, valid=valid)
    if valid is not None:
        weights *= valid[:, :, None]
    return symmetrised(weights, symmetry)


def symmetrised(arcs: Tensor, symmetry: Symmetry) -> DenseGraph:
    """The graph of directed arcs (B, N, N), see `Symmetry`."""
    if symmetry == "directed":
        return DenseGraph(arcs, symmetric=False)
    if symmetry == "average":
        return DenseGraph(torch.add(arcs, arcs.mT).mul_(0.5))
    combine = torch.maximum if symmetry == "union" else torch.minimum
    return DenseGraph(combine(arcs, arcs.mT))
