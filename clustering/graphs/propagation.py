"""Label propagation on a graph (Zhou et al. 2004): F = (I - alpha W)^-1 Y, with W normalised to a spectral radius of at
most 1.

Small graphs use the inverse, sparse ones conjugate gradients.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clustering.graphs.sparse_graph import SparseGraph

_TOLERANCE = 1e-12
"""Residual of each class, relative to the norm of its labels; smaller entries of F count as 0."""

_MAX_ITERATIONS = 1000
"""About 100 are needed at alpha = 0.99, and 30 at 0.8, in proportion to the square root of the condition number."""


@dataclass(frozen=True)
class DensePropagation:
    """Propagation by the inverse (B, N, N), which is symmetric."""

    inverse: Tensor

    def spread(self, labels: Tensor) -> Tensor:
        """(B, K, N) F, non-negative up to rounding, from (B, K, N) Y >= 0."""
        return torch.bmm(labels, self.inverse)

    def select(self, problems: Tensor) -> "DensePropagation":
        return DensePropagation(self.inverse[problems])


@dataclass(frozen=True)
class SparsePropagation:
    """Propagation by conjugate gradients (Hestenes and Stiefel 1952), independently for each class and problem.

    It uses double precision, because the values at points far from all labels are small but still decide.

    Attributes:
        graph: symmetric W without its diagonal.
        alpha: weight of the neighbours, 0 <= alpha < 1.
        diagonal: (B, N) diagonal of W; None if it is 0.
    """

    graph: SparseGraph
    alpha: float
    diagonal: Tensor | None = None

    def spread(self, labels: Tensor) -> Tensor:
        """As `DensePropagation.spread`."""
        graph, alpha = self.graph.to(torch.float64), self.alpha
        left = labels.double()
        diagonal = left.new_ones(1) if self.diagonal is None else (1 - alpha * self.diagonal.double())[:, None]
        solution, direction = torch.zeros_like(left), left.clone()
        squared = left.square().sum(dim=2, keepdim=True)
        enough = _TOLERANCE**2 * squared
        for _ in range(_MAX_ITERATIONS):
            image = (graph @ direction.mT).mT.mul_(-alpha).addcmul_(direction, diagonal)
            curvature = torch.linalg.vecdot(direction, image)[..., None]
            step = torch.where(squared > enough, squared / curvature.clamp_min(1e-300), 0.0)
            solution.addcmul_(step, direction)
            left.addcmul_(step, image, value=-1)
            before, squared = squared, left.square().sum(dim=2, keepdim=True)
            if bool((squared <= enough).all()):
                break
            direction = direction.mul_(squared / before.clamp_min(1e-300)).add_(left)
        return torch.where(solution > enough.sqrt(), solution, 0.0).to(labels.dtype)

    def select(self, problems: Tensor) -> "SparsePropagation":
        diagonal = None if self.diagonal is None else self.diagonal[problems]
        return replace(self, graph=self.graph.select(problems), diagonal=diagonal)


Propagation = DensePropagation | SparsePropagation
"""The map from labels Y to F for B problems; `select` gives that of a subset of them."""
