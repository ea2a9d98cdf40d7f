"""Prototypes of one large data set, represented by coordinates; all problems of a batch share the points.

The rules are those of `clustering.optimiser.prototypes`, which represents prototypes by B K N weights of the points and
is meant for small tasks with known inner products. Here a prototype is a row of D coordinates, points are read in
blocks, and no array has the size of all pairs of points, or of points times classes times dimensions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.prototypes import Logits, log_odds

_BLOCK = 1 << 20
"""Number of coordinates of points processed at a time: 4 MiB in float32, so that they stay in the cache."""

_REFERENCES = 1024
"""Number of reference members to which members of a class are compared if the class has more."""

_DUPLICATES = 16
"""Number of nearest points among which a prototype that equals a point is searched, since rounding may rank others
first."""


@dataclass(frozen=True)
class Rows:
    """N points with D coordinates, shared by all problems of a batch.

    Attributes:
        values: (N, D).
        origin: (D,) subtracted from coordinates on the fly to avoid cancellation in distances between points far from
            zero; None for no shift.
    """

    values: Tensor
    origin: Tensor | None = None

    @classmethod
    def of(cls, values: Tensor) -> "Rows":
        """The rows, with their mean as origin if it is large compared with their spread."""
        mean = values.mean(dim=0)
        plain = cls(values)
        spread = plain.squared_norms.mean() - mean.square().sum()
        return cls(values, mean) if mean.square().sum() > 4 * spread else plain

    @cached_property
    def squared_norms(self) -> Tensor:
        """(N,) squared distances from the origin."""
        return torch.cat([rows.square().sum(dim=1) for _, rows in self.blocks()])

    def blocks(self, beside: int = 1) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows (n, D) and their positions; smaller if `beside` numbers per row are processed along with
        them."""
        points, dimension = self.values.shape
        count = max(1, _BLOCK // max(1, dimension, beside))
        for first in range(0, points, count):
            block = slice(first, min(first + count, points))
            rows = self.values[block]
            yield block, rows if self.origin is None else rows - self.origin

    def at(self, indices: Tensor) -> Tensor:
        """(…, D) the points with these indices."""
        points = self.values[indices]
        return points if self.origin is None else points - self.origin

    def places(self, centres: Tensor) -> Tensor:
        """(K,) index of the first point equal to each of the centres (K, D), -1 if there is none."""
        near = self.squared_distances(centres).topk(min(_DUPLICATES, len(self.values)), dim=1, largest=False).indices
        near = near.sort(dim=1).values
        equal = (self.at(near) == centres[:, None]).all(dim=2)
        first = equal.int().argmax(dim=1, keepdim=True)
        return torch.where(equal.any(dim=1), near.gather(1, first)[:, 0], -1)

    def nearest(self, centres: Tensor) -> Tensor:
        """(B, K) index of the point nearest to each of the centres (B, K, D), ties to the lowest index."""
        return self.squared_distances(centres).min(dim=2).indices

    def squared_distances(self, centres: Tensor) -> Tensor:
        """(B, K, N) squared Euclidean distances to centres (B, K, D), clamped at 0, in a new tensor."""
        flat = centres.flatten(0, -2)
        distances = flat.new_empty(len(flat), len(self.values))
        lengths = flat.square().sum(dim=1, keepdim=True)
        for block, rows in self.blocks():
            torch.addmm(self.squared_norms[block], flat, rows.T, alpha=-2, out=distances[:, block])
        return distances.add_(lengths).clamp_min_(0).view(*centres.shape[:-1], -1)

    def squared_distances_to_draw_by(self, centres: Tensor) -> Tensor:
        """(…, N) `squared_distances` to centres (…, D), computed in float64 and then rounded.

        Random draws based on them do not depend on the batch or processor: rounding in float64 changes a draw about
        once in 10^10 times, in float32 occasionally.
        """
        flat = centres.flatten(0, -2).double()
        distances = centres.new_empty(len(flat), len(self.values))
        for block, rows in self.blocks(len(flat)):
            distances[:, block] = Rows(rows.double()).squared_distances(flat)
        return distances.view(*centres.shape[:-1], -1)

    def means(self, weights: Tensor) -> Tensor:
        """(B, K, D) means of the points weighted by `weights` (B, K, N); every class must have positive weight."""
        flat = weights.flatten(0, -2)
        mass = flat.sum(dim=1, keepdim=True, dtype=torch.float64).to(flat.dtype)
        return (self.sums(flat) / mass).view(*weights.shape[:-1], -1)

    def sums(self, weights: Tensor) -> Tensor:
        """(A, D) sums of the points weighted by `weights` (A, N)."""
        sums = weights.new_zeros(len(weights), self.values.shape[1])
        for block, rows in self.blocks():
            sums.addmm_(weights[:, block], rows)
        return sums

    def shifted(self, modes: Tensor, mass: Tensor, variance: float) -> tuple[Tensor, Tensor]:
        """(A, D) sums of the points and (A,) of their weights z_p g(x_p, m), for modes (A, D) and z (A, N)."""
        sums, density = torch.zeros_like(modes), modes.new_zeros(len(modes))
        scaled, lengths = modes / variance, modes.square().sum(dim=1, keepdim=True) / (2 * variance)
        for block, points in self.blocks():
            kernel = torch.addmm(self.squared_norms[block], scaled, points.T, beta=-0.5 / variance)
            kernel = kernel.sub_(lengths).clamp_max_(0).exp_().mul_(mass[:, block])
            sums.addmm_(kernel, points)
            density += kernel.sum(dim=1)
        return sums, density


@dataclass(frozen=True)
class Means:
    """Weighted means, which minimise sum_pk s_pk ||x_p - m_k||^2 (journal eq. 20)."""

    rows: Rows

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.rows.squared_distances(coefficients)

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return self.rows.means(weights)

    def at(self, points: Tensor) -> Tensor:
        return self.rows.at(points)

    def select(self, problems: Tensor) -> "Means":
        return self  # all problems share the points


@dataclass(frozen=True)
class Modes:
    """Modes of the kernel densities of the classes, stationary points of -sum_pk s_pk g(x_p, m_k) (thesis eq. 2.9).

    Attributes:
        rows: the points.
        variance: sigma^2 of g(x, m) = exp(-||x - m||^2 / (2 sigma^2)), > 0.
        steps: maximum number of mean-shift steps per update; a single step from the means already lowers the objective.
    """

    rows: Rows
    variance: float
    steps: int = 1000

    def cost(self, coefficients: Tensor) -> Tensor:
        distances = self.rows.squared_distances(coefficients)
        return distances.mul_(-0.5 / self.variance).exp_().neg_()

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        return mean_shift(self.rows, coefficients, weights, self.variance, max_iterations=self.steps)

    def at(self, points: Tensor) -> Tensor:
        return self.rows.at(points)

    def select(self, problems: Tensor) -> "Modes":
        return self


@dataclass(frozen=True)
class ByProductModes(Modes):
    """Modes that are points: for each class the member with the best assignment (thesis eq. 2.11).

    Before there are assignments, it is the member nearest to the mean of its class, found in one pass; the member of
    highest density, as defined, would take quadratic time. A new mode is accepted only if the density sum_p s_pk g(x_p,
    m) is not lower there, so that the objective cannot rise. The papers have no such condition, and their modes may
    cycle.
    """

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        members = members_of(weights)
        if logits is None:
            distances = self.rows.squared_distances(self.rows.means(weights))
            return self.rows.at(distances.masked_fill_(~members, torch.inf).min(dim=2).indices)
        new = self.rows.at(_best_assigned(logits(), members))
        better = self._density(new, weights) >= self._density(coefficients, weights)
        return torch.where(better[:, :, None], new, coefficients)

    def _density(self, modes: Tensor, weights: Tensor) -> Tensor:
        kernel = self.rows.squared_distances(modes).mul_(-0.5 / self.variance).exp_()
        density: Tensor = torch.linalg.vecdot(kernel, weights)
        return density


@dataclass(frozen=True)
class Medoids:
    """The points with the lowest sum of distances to the members of their class, sum_pk s_pk ||x_p - m_k||.

    A new medoid is accepted only if this sum does not rise, so that the objective cannot rise.
    """

    rows: Rows

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.rows.squared_distances(coefficients).sqrt_()

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        members = members_of(weights)
        new = self.rows.at(best_by_members(self.rows, members, lambda squared: -squared.sqrt()))
        if logits is None:
            return new
        old_sum, new_sum = (torch.linalg.vecdot(self.cost(values), weights) for values in (coefficients, new))
        return torch.where((new_sum <= old_sum)[:, :, None], new, coefficients)

    def at(self, points: Tensor) -> Tensor:
        return self.rows.at(points)

    def select(self, problems: Tensor) -> "Medoids":
        return self


def members_of(weights: Tensor) -> Tensor:
    """(B, K, N) bool, the class in which each point has its largest weight, from weights (B, K, N)."""
    return (weights == weights.amax(dim=1, keepdim=True)) & (weights > 0)


Kind = Literal["mean", "mean_shift", "byproduct", "medoid"]
"""The function F of an objective, as in `clustering.SLK`."""

Rule = Means | Modes | Medoids
"""How prototypes follow from assignments, and the costs of points at them."""


def mean_shift(
    rows: Rows,
    start: Tensor,
    weights: Tensor,
    variance: float,
    *,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Tensor:
    """Iterate m <- sum_p z_p g(x_p, m) x_p / sum_p z_p g(x_p, m), for all classes of all problems together.

    No step lowers the density sum_p z_p g(x_p, m). A mode whose density at the start is 0 restarts at the weighted mean
    of its class, or at the point nearest to it. The points are read once per step.

    Args:
        rows: the points.
        start: (B, K, D) initial m.
        weights: (B, K, N) z >= 0, not all 0 for any class.
        variance: sigma^2 of g.
        tolerance: movement of a mode, relative to its norm, at which it stops (public code: 1e-5).
        max_iterations: maximum number of steps.

    Returns:
        (B, K, D) modes.
    """
    mass = weights.flatten(0, -2)

    def elsewhere(chosen: Tensor) -> Tensor:
        means = rows.means(mass[chosen])
        squared = rows.squared_distances(means).masked_fill(mass[chosen] == 0, torch.inf)
        sees = rows.shifted(means, mass[chosen], variance)[1] > 0
        return torch.where(sees[:, None], means, rows.at(squared.min(dim=1).indices))

    chosen, mass_of_chosen = None, mass  # data of the modes that still move, gathered once

    def density_step(modes: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal chosen, mass_of_chosen
        if indices is not chosen:
            chosen, mass_of_chosen = indices, mass if len(indices) == len(mass) else mass[indices]
        return rows.shifted(modes, mass_of_chosen, variance)

    return ascend(start.flatten(0, -2), density_step, elsewhere, tolerance, max_iterations).view(start.shape)


def ascend(
    start: Tensor,
    density_step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    elsewhere: Callable[[Tensor], Tensor],
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Tensor:
    """The iteration of `mean_shift`, independent of how the points are stored.

    Args:
        start: (A, D) initial m.
        density_step: computes weighted sums (a, D) and weights (a,) of the points from modes (a, D) and their indices
            among the A. The index tensor is the same object until a mode stops.
        elsewhere: computes restarts (a, D) of the modes whose density is 0.
        tolerance: as in `mean_shift`.
        max_iterations: as in `mean_shift`.
    """
    modes_of_all, modes = start.clone(), start
    left = torch.arange(len(modes_of_all), device=modes_of_all.device)
    for iteration in range(max_iterations):
        sums, density = density_step(modes, left)
        if iteration == 0 and (density == 0).any():
            unseen, modes = (density == 0).nonzero()[:, 0], start.clone()
            modes[unseen] = elsewhere(unseen)
            sums[unseen], density[unseen] = density_step(modes[unseen], unseen)
        new = sums / density[:, None].clamp_min(torch.finfo(sums.dtype).tiny)
        moved, lengths = (torch.linalg.vector_norm(vectors, dim=1) for vectors in (new - modes, new))
        moving, modes = moved > tolerance * lengths, new
        if not moving.all():
            modes_of_all[left] = modes
            left, modes = left[moving], modes[moving]
            if len(left) == 0:
                break
    modes_of_all[left] = modes
    return modes_of_all


def _best_assigned(logits: Tensor, members: Tensor) -> Tensor:
    """(B, K) for each class the member with the highest log-odds, ties to the lowest index; processed in blocks of
    points."""
    best = logits.new_full(members.shape[:2], -torch.inf)
    indices = torch.zeros_like(best, dtype=torch.int64)
    for first in range(0, members.shape[2], _BLOCK):
        block, block_members = logits[:, :, first : first + _BLOCK], members[:, :, first : first + _BLOCK]
        best_of_block = torch.where(block_members, log_odds(block, block_members), -torch.inf).max(dim=2)
        higher = best_of_block.values > best
        best, indices = (
            torch.where(higher, best_of_block.values, best),
            torch.where(higher, best_of_block.indices + first, indices),
        )
    return indices


def best_by_members(
    rows: Rows, members: Tensor, likeness: Callable[[Tensor], Tensor], references: int = _REFERENCES
) -> Tensor:
    """(B, K) for each class the member most similar in sum to the members, ties to the lowest index.

    Exact if a class has at most `references` members; in larger classes members are compared with that many, evenly
    spaced.

    Args:
        rows: the points.
        members: (B, K, N) bool, at least one in every class.
        likeness: elementwise similarity as a function of squared distances.
        references: maximum number of members that each member is compared with.
    """
    best = []
    for class_members in members.flatten(0, -2):
        indices = class_members.nonzero()[:, 0]
        places = torch.linspace(0, len(indices) - 1, min(len(indices), references), device=indices.device)
        class_rows = Rows(rows.at(indices))
        sums = class_rows.values.new_zeros(len(indices))
        for references_in_block in torch.split(class_rows.values[places.round().long()], 128):
            sums += likeness(class_rows.squared_distances(references_in_block[None])).sum(dim=(0, 1))
        best.append(indices[sums.argmax()])
    return torch.stack(best).view(members.shape[:2])


def nearest_centres(values: Tensor, centres: Tensor) -> Tensor:
    """(n,) index of the centre (K, D) nearest to each row (n, D), ties to the lowest index."""
    origin = centres.mean(dim=0)
    return Rows(values, origin).squared_distances((centres - origin)[None])[0].min(dim=0).indices
