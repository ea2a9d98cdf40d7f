"""Terms of the objective."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from clustering.optimiser.objective import inner

CURVATURE = 0.1
"""Curvature of a Laplacian term relative to its weight, the unit of its proximal weight."""


class Graph(Protocol):
    """Symmetric or directed weights between points, with zero diagonal."""

    @property
    def symmetric(self) -> bool: ...

    def __matmul__(self, assignments: Tensor) -> Tensor:
        """W S for (B, N, K) assignments."""
        ...

    def select(self, problems: Tensor) -> "Graph":
        """The graphs of a subset of the problems, given by indices."""
        ...


@dataclass(frozen=True)
class Laplacian:
    """The graph Laplacian term in its concave form, f(S) = -(weight / 2) <S, W S>.

    On one-hot rows it is (weight / 2) times the Laplacian sum_pq w_pq ||s_p - s_q||^2 / 2, up to a constant (thesis eq.
    4.4). `weight` is the lambda of the papers' update softmax(-a + lambda W S); it is 2 lambda of their objective,
    whose tangent was printed without its factor 2 (thesis eq. 2.13).

    Attributes:
        graph: weights W. A directed graph has this gradient but not this value, see the published step of `descend`.
        weight: >= 0, multiplies the sum over pairs, not the mean; (B, 1, 1) if it differs between problems.
    """

    graph: Graph
    weight: float | Tensor

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        gradient = (self.graph @ assignments).mul_(-self.weight)
        return 0.5 * inner(assignments.mT, gradient.mT), gradient

    def curvature(self, assignments: Tensor) -> Tensor:
        if isinstance(self.weight, Tensor):
            return CURVATURE * self.weight[:, :, 0]
        return assignments.new_full((1, 1), CURVATURE * self.weight)

    def select(self, problems: Tensor) -> "Laplacian":
        weight = self.weight[problems] if isinstance(self.weight, Tensor) else self.weight
        return Laplacian(self.graph.select(problems), weight)
