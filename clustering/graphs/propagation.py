"""Labels spread over a graph (Zhou et al. 2004): F = (I - alpha W)^-1 Y, W normalised so that its spectral radius is at
most 1. By the inverse for graphs of a few points, by conjugate gradients for sparse ones."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph

_TOLERANCE = 1e-12
"""Of the residual of each class, as a share of its labels' norm. What is smaller in F counts as 0."""

_MAX_ITERATIONS = 1000
"""At alpha = 0.99 some 100 are needed, at 0.8 some 30: in proportion to the square root of the condition number."""


class Propagation(Protocol):
    """The map from labels Y to F, of B problems."""

    def spread(self, labels: Tensor) -> Tensor:
        """(B, K, N) F >= 0, but for rounding, from (B, K, N) Y >= 0."""
        ...

    def select(self, problems: Tensor) -> "Propagation":
        """The map of some problems of the batch, given by their indices."""
        ...


@dataclass(frozen=True)
class DensePropagation:
    """By the inverse (B, N, N), which is symmetric."""

    inverse: Tensor

    def spread(self, labels: Tensor) -> Tensor:
        return torch.bmm(labels, self.inverse)

    def select(self, problems: Tensor) -> "DensePropagation":
        return DensePropagation(self.inverse[problems])


@dataclass(frozen=True)
class SparsePropagation:
    """By conjugate gradients (Hestenes and Stiefel 1952), every class of every problem on its own.

    In double precision: what reaches a point far from all labels is small beside the labels, and still decides.

    Attributes:
        graph: W without its diagonal, symmetric.
        alpha: share of the neighbours, 0 to below 1.
        diagonal: (B, N) diagonal of W; None where it is 0.
    """

    graph: SparseGraph
    alpha: float
    diagonal: Tensor | None = None

    def spread(self, labels: Tensor) -> Tensor:
        graph, alpha = self.graph.to(torch.float64), self.alpha
        left = labels.double()
        own = left.new_ones(1) if self.diagonal is None else (1 - alpha * self.diagonal.double())[:, None]
        found, direction = torch.zeros_like(left), left.clone()
        squared = left.square().sum(dim=2, keepdim=True)
        enough = _TOLERANCE**2 * squared
        for _ in range(_MAX_ITERATIONS):
            image = (graph @ direction.mT).mT.mul_(-alpha).addcmul_(direction, own)
            along = torch.linalg.vecdot(direction, image)[..., None]
            step = torch.where(squared > enough, squared / along.clamp_min(1e-300), 0.0)
            found.addcmul_(step, direction)
            left.addcmul_(step, image, value=-1)
            before, squared = squared, left.square().sum(dim=2, keepdim=True)
            if bool((squared <= enough).all()):
                break
            direction = direction.mul_(squared / before.clamp_min(1e-300)).add_(left)
        return torch.where(found > enough.sqrt(), found, 0.0).to(labels.dtype)

    def select(self, problems: Tensor) -> "SparsePropagation":
        diagonal = None if self.diagonal is None else self.diagonal[problems]
        return replace(self, graph=self.graph.select(problems), diagonal=diagonal)
