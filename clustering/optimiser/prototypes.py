"""Prototypes of the classes (means, mean-shift modes and by-product modes) and the costs of points at them.

A rule works on `clustering.optimiser.rows.Rows`, where a prototype is a row of D coordinates, or on
`clustering.optimiser.points.Points`, where it is a row of coefficients over the points.
`clustering.optimiser.alternation` alternates prototypes and assignments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from clustering.optimiser.points import Points
from clustering.optimiser.rows import Rows

_BLOCK = 1 << 20
"""Number of points of a class that are ranked at a time."""

Logits = Callable[[], Tensor]
"""(B, K, N) logits of the assignments without clamping; computed on demand."""


class Prototypes(Protocol):
    """A rule that computes prototypes from assignments."""

    def cost(self, coefficients: Tensor) -> Tensor:
        """(B, K, N) cost of assigning each point to each prototype, in a new tensor."""
        ...

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        """New prototypes (B, K, *) from the current ones and the weights (B, K, N) of points in classes, none of which
        is empty.

        `logits` is None if the weights do not come from an assignment step.
        """
        ...

    def at(self, points: Tensor) -> Tensor:
        """Prototypes (B, K, *) located at the points with indices (B, K)."""
        ...

    def select(self, problems: Tensor) -> "Prototypes":
        """The rule for a subset of the problems, given by indices."""
        ...


S = TypeVar("S", Rows, Points)
"""Points and the prototypes among them."""


@dataclass(frozen=True)
class _Rule(Generic[S]):
    rows: S

    def at(self, points: Tensor) -> Tensor:
        return self.rows.at(points)

    def select(self, problems: Tensor) -> Self:
        return replace(self, rows=self.rows.select(problems))


@dataclass(frozen=True)
class Means(_Rule[S]):
    """Weighted means, which minimise sum_pk s_pk beta ||x_p - m_k||^2 (journal eq. 20)."""

    beta: float = 1.0

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.rows.squared_distances(coefficients).mul_(self.beta)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return self.rows.means(weights)


@dataclass(frozen=True)
class Modes(_Rule[S]):
    """Modes of the kernel densities of the classes, stationary points of -sum_pk s_pk beta w(x_p, m_k) (thesis eq. 2.9,
    journal eq. 14).

    Attributes:
        rows: the points.
        variance: sigma^2 > 0 of w(x, m) = exp(-||x - m||^2 / (2 sigma^2)); (B, 1, 1) if it differs between problems,
            and infinite if all w are 1.
        beta: factor of the cost.
        steps: maximum number of mean-shift steps per update; a single step from the means already lowers the objective.
    """

    variance: float | Tensor
    beta: float = 1.0
    steps: int = 1000

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.rows.squared_distances(coefficients).mul_(-0.5 / self.variance).exp_().mul_(-self.beta)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return self.rows.mean_shift(coefficients, weights, self.variance, max_iterations=self.steps)

    def select(self, problems: Tensor) -> Self:
        variance = self.variance[problems] if isinstance(self.variance, Tensor) else self.variance
        return replace(super().select(problems), variance=variance)


@dataclass(frozen=True)
class ByProductModes(Modes[S]):
    """Modes that are points: for each class the member with the best assignment (thesis eq. 2.11).

    Before there are assignments, it is the densest member of the class, see `Rows.densest`. Clamped points are ranked
    by the assignment that they would have without clamping. Among `Rows`, a new mode is accepted only if the density
    sum_p s_pk w(x_p, m) is not lower there, so that the objective cannot rise. The papers, and so the rule of small
    tasks, have no such condition, and their modes may cycle.
    """

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        members = members_of(weights)
        if logits is None:
            return self.at(self.rows.densest(weights, members, self.variance))
        new = self.at(best_assigned(logits(), members))
        if not isinstance(self.rows, Rows):
            return new
        better = self._density(new, weights) >= self._density(coefficients, weights)
        return torch.where(better[:, :, None], new, coefficients)

    def _density(self, modes: Tensor, weights: Tensor) -> Tensor:
        kernel = self.rows.squared_distances(modes).mul_(-0.5 / self.variance).exp_()
        density: Tensor = torch.linalg.vecdot(kernel, weights)
        return density


Rule = Means[Rows] | Modes[Rows]
"""A rule for one large data set."""


def members_of(weights: Tensor) -> Tensor:
    """(B, K, N) bool, the class in which each point has its largest weight, from weights (B, K, N)."""
    return (weights == weights.amax(dim=1, keepdim=True)) & (weights > 0)


def best_assigned(logits: Tensor, members: Tensor) -> Tensor:
    """(B, K) for each class the member with the highest log s_pk / (1 - s_pk), ties to the lowest index, from logits
    (B, K, N). It still ranks the points whose assignments have saturated at one."""
    best = logits.new_full(members.shape[:2], -torch.inf)
    indices = torch.zeros_like(best, dtype=torch.int64)
    for first in range(0, members.shape[2], _BLOCK):
        block, inside = logits[:, :, first : first + _BLOCK], members[:, :, first : first + _BLOCK]
        largest = torch.where(inside, block, -torch.inf).amax(dim=1, keepdim=True)
        odds = largest - torch.logsumexp(block.masked_fill(inside, -torch.inf), dim=1, keepdim=True)
        values, places = torch.where(inside, odds, -torch.inf).max(dim=2)
        higher = values > best
        best, indices = torch.where(higher, values, best), torch.where(higher, places + first, indices)
    return indices
