"""Prototypes of the classes (means, mean-shift modes and by-product modes) and the costs of points at them.

A prototype is a weighted mean of the points and is represented by its weights, a row of (B, K, N) coefficients that sum
to one, so that everything here needs only inner products (see `clustering.optimiser.points`).
`clustering.optimiser.centres` represents the prototypes of one large data set by coordinates instead.
`clustering.optimiser.alternation` alternates prototypes and assignments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from clustering.optimiser.points import Points, squared_distances, squared_distances_by_block

Logits = Callable[[], Tensor]
"""(B, K, N) logits of the assignments without clamping; computed on demand."""


class Prototypes(Protocol):
    """A rule that computes prototypes from assignments."""

    def cost(self, coefficients: Tensor) -> Tensor:
        """(B, K, N) cost of assigning each point to each prototype, in a new tensor."""
        ...

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        """New coefficients (B, K, N) from the current ones and the weights (B, K, N) of points in classes, none of
        which is empty.

        `logits` is None if the weights do not come from an assignment step.
        """
        ...

    def at(self, points: Tensor) -> Tensor:
        """Coefficients (B, K, N) of prototypes located at the points with indices (B, K)."""
        ...

    def select(self, problems: Tensor) -> "Prototypes":
        """The rule for a subset of the problems, given by indices."""
        ...


@dataclass(frozen=True)
class WithCost:
    """Prototypes with an additional cost of the points that does not depend on them.

    Attributes:
        prototypes: the rule that computes prototypes.
        extra: (B, K, N) additional cost.
    """

    prototypes: Prototypes
    extra: Tensor

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.prototypes.cost(coefficients).add_(self.extra)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return self.prototypes.update(coefficients, weights, logits)

    def at(self, points: Tensor) -> Tensor:
        return self.prototypes.at(points)

    def select(self, problems: Tensor) -> "WithCost":
        return WithCost(self.prototypes.select(problems), self.extra[problems])


@dataclass(frozen=True)
class Means:
    """Weighted means, which minimise sum_pk s_pk beta ||x_p - m_k||^2 (journal eq. 20)."""

    points: Points
    beta: float = 1.0

    def cost(self, coefficients: Tensor) -> Tensor:
        return squared_distances(self.points, coefficients).mul_(self.beta)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return weighted_means(weights)

    def at(self, points: Tensor) -> Tensor:
        return one_hot(points, self.points)

    def select(self, problems: Tensor) -> "Means":
        return replace(self, points=self.points.select(problems))


@dataclass(frozen=True)
class Modes:
    """Modes of the kernel densities of the classes, stationary points of -sum_pk s_pk beta w(x_p, m_k) (journal eq.
    14).

    Attributes:
        points: the points.
        variance: (B, 1, 1) sigma^2 of w(x, m) = exp(-||x - m||^2 / (2 sigma^2)); infinite if all w are 1.
        beta: factor of the cost.
    """

    points: Points
    variance: Tensor
    beta: float = 1.0

    def cost(self, coefficients: Tensor) -> Tensor:
        return gaussian(squared_distances(self.points, coefficients), self.variance).mul_(-self.beta)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return mean_shift(self.points, coefficients, weights, self.variance)

    def at(self, points: Tensor) -> Tensor:
        return one_hot(points, self.points)

    def select(self, problems: Tensor) -> "Modes":
        return replace(self, points=self.points.select(problems), variance=self.variance[problems])


@dataclass(frozen=True)
class ByProductModes(Modes):
    """Modes that are points: for each class the member with the best assignment (thesis eq. 2.11).

    Before there are assignments, it is the member of highest density within the class. Clamped rows are ranked by the
    assignment that they would have without clamping. This is not a descent step: the density at the mode may fall.
    """

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        members = (weights == weights.amax(dim=1, keepdim=True)) & (weights > 0)
        if logits is None:
            return best_members(densities(self.points, weights, self.variance), members)
        return best_members(log_odds(logits(), members), members)

    def select(self, problems: Tensor) -> "ByProductModes":
        return replace(self, points=self.points.select(problems), variance=self.variance[problems])


def one_hot(indices: Tensor, points: Points) -> Tensor:
    """(B, K, N) coefficients of the points with indices (B, K)."""
    norms = points.squared_norms
    return norms.new_zeros(*indices.shape, norms.shape[1]).scatter_(2, indices[:, :, None], 1.0)


def gaussian(squared_distances: Tensor, variance: Tensor) -> Tensor:
    """w = exp(-d^2 / (2 sigma^2)), in a new tensor."""
    return torch.mul(squared_distances, -0.5 / variance).exp_()


def densities(points: Points, weights: Tensor, variance: Tensor) -> Tensor:
    """(B, K, N) kernel densities sum_p z_kp w(x_p, x_q) of every class at every point."""
    parts = [torch.bmm(weights, gaussian(squared, variance)) for squared in squared_distances_by_block(points)]
    return torch.cat(parts, dim=2)


def weighted_means(weights: Tensor) -> Tensor:
    """(B, K, N) coefficients of the means of points weighted by `weights` (B, K, N); no class may be empty."""
    return weights / weights.sum(dim=2, keepdim=True)


def mean_shift(
    points: Points,
    start: Tensor,
    weights: Tensor,
    variance: Tensor,
    *,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Tensor:
    """Iterate m <- sum_p z_p w(x_p, m) x_p / sum_p z_p w(x_p, m), for all classes together.

    No step lowers the density sum_p z_p w(x_p, m). The limit is a stationary point that depends on the start. Each step
    takes one product of the coefficients with the points.

    Args:
        points: the points.
        start: (B, K, N) coefficients of the initial m.
        weights: (B, K, N) z >= 0, not all 0 for any class.
        variance: (B, 1, 1) sigma^2 of w.
        tolerance: a problem stops when no m moves by more than this share of the largest initial norm (in the public
            code: 1e-5 of the largest coordinate).
        max_iterations: maximum number of steps.

    Returns:
        (B, K, N) coefficients of the modes.
    """
    # ||m||^2 is the same for all points, so it cancels in the softmax over points.
    offset = torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny).log_(), -torch.inf)
    offset.addcdiv_(points.squared_norms[:, None], variance, value=-0.5)
    coefficients, inner = start, points.inner(start)
    allowed = tolerance**2 * torch.linalg.vecdot(coefficients, inner).amax(1)
    moving = torch.ones_like(variance, dtype=torch.bool)
    for _ in range(max_iterations):
        new = torch.softmax(torch.addcdiv(offset, inner, variance), dim=2)
        new_inner = points.inner(new)
        moved = (new - coefficients).mul_(new_inner - inner).sum(2).amax(1)
        coefficients, inner = torch.where(moving, new, coefficients), new_inner
        moving = moving & (moved > allowed)[:, None, None]
        if not moving.any():
            break
    return coefficients


def log_odds(logits: Tensor, members: Tensor) -> Tensor:
    """(B, 1, N) log s_pk / (1 - s_pk) of each point in its class, from the logits (B, K, N).

    It still ranks the points whose assignments have saturated at one.
    """
    largest = torch.where(members, logits, -torch.inf).amax(dim=1, keepdim=True)
    return largest - torch.logsumexp(logits.masked_fill(members, -torch.inf), dim=1, keepdim=True)


def best_members(scores: Tensor, members: Tensor) -> Tensor:
    """(B, K, N) one-hot coefficients of the member with the highest score in each class, ties to the lowest index."""
    best = torch.where(members, scores, -torch.inf).max(dim=2, keepdim=True).indices
    return torch.zeros(members.shape, dtype=scores.dtype, device=scores.device).scatter_(2, best, 1.0)
