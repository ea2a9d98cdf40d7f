"""Prototypes of one large data set, kept by their coordinates, of which all problems of a batch see the same points.

The rules are those of `clustering.optimiser.prototypes`, which keeps prototypes as weights over the points, B K N
numbers: right for small tasks whose inner products are at hand. Here a prototype is a row of D coordinates, points are
read a block at a time, and nothing has the size of all pairs of points, or of points, classes and dimensions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from clustering.optimiser.prototypes import Logits, log_odds

_BLOCK = 1 << 20
"""Coordinates of points at a time: 4 MiB in float32, so that they are in the cache when they are used again."""

_REFERENCES = 1024
"""Members of a class to which its members are compared where all pairs of them would be too many."""

_DUPLICATES = 16
"""Nearest points among which the one that a prototype is, is looked for: rounding may rank others before it."""


@dataclass(frozen=True)
class Rows:
    """N points of D coordinates, the same for every problem of a batch.

    Attributes:
        values: (N, D).
        origin: (D,) from which coordinates are counted, subtracted on the way: distances between points that lie far
            from zero would drown in rounding. None where zero will do.
    """

    values: Tensor
    origin: Tensor | None = None

    @classmethod
    def of(cls, values: Tensor) -> "Rows":
        """The rows, counted from their mean where that is far away for their spread."""
        mean = values.mean(dim=0)
        plain = cls(values)
        spread = plain.squared_norms.mean() - mean.square().sum()
        return cls(values, mean) if mean.square().sum() > 4 * spread else plain

    @cached_property
    def squared_norms(self) -> Tensor:
        """(N,) squared distances from the origin."""
        return torch.cat([some.square().sum(dim=1) for _, some in self.blocks()])

    def blocks(self, beside: int = 1) -> Iterator[tuple[slice, Tensor]]:
        """Some rows (n, D) at a time, and where they stand; fewer where `beside` numbers of each are worked on too."""
        points, dimension = self.values.shape
        count = max(1, _BLOCK // max(1, dimension, beside))
        for first in range(0, points, count):
            block = slice(first, min(first + count, points))
            some = self.values[block]
            yield block, some if self.origin is None else some - self.origin

    def at(self, indices: Tensor) -> Tensor:
        """(…, D) the points of these indices."""
        found = self.values[indices]
        return found if self.origin is None else found - self.origin

    def places(self, centres: Tensor) -> Tensor:
        """(K,) index of the first point that is each of the centres (K, D), -1 where none is."""
        near = self.squared_distances(centres).topk(min(_DUPLICATES, len(self.values)), dim=1, largest=False).indices
        near = near.sort(dim=1).values
        same = (self.at(near) == centres[:, None]).all(dim=2)
        first = same.int().argmax(dim=1, keepdim=True)
        return torch.where(same.any(dim=1), near.gather(1, first)[:, 0], -1)

    def nearest(self, centres: Tensor) -> Tensor:
        """(B, K) index of the point nearest to each of the centres (B, K, D), ties to the first."""
        return self.squared_distances(centres).min(dim=2).indices

    def squared_distances(self, centres: Tensor) -> Tensor:
        """(B, K, N) squared Euclidean distances to centres (B, K, D), clamped at 0; a tensor of its own."""
        flat = centres.flatten(0, -2)
        found = flat.new_empty(len(flat), len(self.values))
        lengths = flat.square().sum(dim=1, keepdim=True)
        for block, some in self.blocks():
            torch.addmm(self.squared_norms[block], flat, some.T, alpha=-2, out=found[:, block])
        return found.add_(lengths).clamp_min_(0).view(*centres.shape[:-1], -1)

    def squared_distances_to_draw_by(self, centres: Tensor) -> Tensor:
        """(…, N) `squared_distances` to centres (…, D), computed in float64 and then rounded.

        What is drawn by them is the same for every batch of centres and on every processor: rounding in float64 moves a
        draw about once in 10^10 times, that in float32 now and then.
        """
        flat = centres.flatten(0, -2).double()
        found = centres.new_empty(len(flat), len(self.values))
        for block, some in self.blocks(len(flat)):
            found[:, block] = Rows(some.double()).squared_distances(flat)
        return found.view(*centres.shape[:-1], -1)

    def means(self, weights: Tensor) -> Tensor:
        """(B, K, D) means of the points weighted by `weights` (B, K, N); every class has some weight."""
        flat = weights.flatten(0, -2)
        mass = flat.sum(dim=1, keepdim=True, dtype=torch.float64).to(flat.dtype)
        return (self.sums(flat) / mass).view(*weights.shape[:-1], -1)

    def sums(self, weights: Tensor) -> Tensor:
        """(A, D) sums of the points weighted by `weights` (A, N)."""
        sums = weights.new_zeros(len(weights), self.values.shape[1])
        for block, some in self.blocks():
            sums.addmm_(weights[:, block], some)
        return sums

    def shifted(self, modes: Tensor, mass: Tensor, variance: float) -> tuple[Tensor, Tensor]:
        """(A, D) sums of the points and (A,) of their weights z_p g(x_p, m), for modes (A, D) and z (A, N)."""
        sums, density = torch.zeros_like(modes), modes.new_zeros(len(modes))
        scaled, lengths = modes / variance, modes.square().sum(dim=1, keepdim=True) / (2 * variance)
        for block, some in self.blocks():
            kernel = torch.addmm(self.squared_norms[block], scaled, some.T, beta=-0.5 / variance)
            kernel = kernel.sub_(lengths).clamp_max_(0).exp_().mul_(mass[:, block])
            sums.addmm_(kernel, some)
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
        return self  # the points are those of every problem


@dataclass(frozen=True)
class Modes:
    """Modes of the classes' kernel densities, stationary points of -sum_pk s_pk g(x_p, m_k) (thesis eq. 2.9).

    Attributes:
        rows: the points.
        variance: sigma^2 of g(x, m) = exp(-||x - m||^2 / (2 sigma^2)), > 0.
        steps: mean-shift steps of an update at most; one, from the means, already lowers the objective.
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
    """Modes that are points: of each class the member with the best assignment (thesis eq. 2.11).

    Before there are assignments it is the member next to the mean of its class, found in one pass; by definition (the
    member of highest density) it would cost the square of their number. A new mode is taken only where the density
    sum_p s_pk g(x_p, m) is no lower there, so that the objective cannot rise; the papers do not ask for it, and their
    modes may wander in circles.
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
        found: Tensor = torch.linalg.vecdot(kernel, weights)
        return found


@dataclass(frozen=True)
class Medoids:
    """Points with the least sum of distances to the members of their class, sum_pk s_pk ||x_p - m_k||.

    A new medoid is taken only where the sum of the class is no larger, so that the objective cannot rise.
    """

    rows: Rows

    def cost(self, coefficients: Tensor) -> Tensor:
        return self.rows.squared_distances(coefficients).sqrt_()

    def update(self, coefficients: Tensor, weights: Tensor, logits: Logits | None) -> Tensor:
        members = members_of(weights)
        new = self.rows.at(best_by_members(self.rows, members, lambda squared: -squared.sqrt()))
        if logits is None:
            return new
        old_sum, new_sum = (torch.linalg.vecdot(self.cost(some), weights) for some in (coefficients, new))
        return torch.where((new_sum <= old_sum)[:, :, None], new, coefficients)

    def at(self, points: Tensor) -> Tensor:
        return self.rows.at(points)

    def select(self, problems: Tensor) -> "Medoids":
        return self


def members_of(weights: Tensor) -> Tensor:
    """(B, K, N) bool, the classes in which each of the points weighs most, of weights (B, K, N)."""
    return (weights == weights.amax(dim=1, keepdim=True)) & (weights > 0)


Rule = Means | Modes | Medoids
"""How prototypes follow from assignments, and what a point pays for one."""


def mean_shift(
    rows: Rows,
    start: Tensor,
    weights: Tensor,
    variance: float,
    *,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Tensor:
    """Iterate m <- sum_p z_p g(x_p, m) x_p / sum_p z_p g(x_p, m), for all classes of all problems at once.

    No step lowers the density sum_p z_p g(x_p, m). One that sees no point from where it starts begins at the weighted
    mean of its class instead, or at the point next to that. The points are read once a step.

    Args:
        rows: the points.
        start: (B, K, D) first m.
        weights: (B, K, N) z >= 0, some of them positive for every class.
        variance: sigma^2 of g.
        tolerance: a mode is done when it moves by no more than this share of its length (public code: 1e-5).
        max_iterations: steps at most.

    Returns:
        (B, K, D) modes.
    """
    mass = weights.flatten(0, -2)

    def elsewhere(which: Tensor) -> Tensor:
        means = rows.means(mass[which])
        far = rows.squared_distances(means).masked_fill(mass[which] == 0, torch.inf)
        sees = rows.shifted(means, mass[which], variance)[1] > 0
        return torch.where(sees[:, None], means, rows.at(far.min(dim=1).indices))

    chosen, own = None, mass  # of the modes that still move, gathered once

    def density_step(modes: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal chosen, own
        if which is not chosen:
            chosen, own = which, mass if len(which) == len(mass) else mass[which]
        return rows.shifted(modes, own, variance)

    return ascend(start.flatten(0, -2), density_step, elsewhere, tolerance, max_iterations).view(start.shape)


def ascend(
    start: Tensor,
    density_step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    elsewhere: Callable[[Tensor], Tensor],
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Tensor:
    """The iteration of `mean_shift`, wherever the points lie.

    Args:
        start: (A, D) first m.
        density_step: of modes (a, D), and which of the A they are, in order: (a, D) sums and (a,) weights of the
            points. The same tensor says which for as long as none of them is done.
        elsewhere: (a, D) where those begin that see no point.
        tolerance: as in `mean_shift`.
        max_iterations: likewise.
    """
    found, modes = start.clone(), start
    left = torch.arange(len(found), device=found.device)
    for iteration in range(max_iterations):
        sums, density = density_step(modes, left)
        if iteration == 0 and (density == 0).any():
            unseen, modes = (density == 0).nonzero()[:, 0], start.clone()
            modes[unseen] = elsewhere(unseen)
            sums[unseen], density[unseen] = density_step(modes[unseen], unseen)
        new = sums / density[:, None].clamp_min(torch.finfo(sums.dtype).tiny)
        moved, lengths = (torch.linalg.vector_norm(each, dim=1) for each in (new - modes, new))
        moving, modes = moved > tolerance * lengths, new
        if not moving.all():
            found[left] = modes
            left, modes = left[moving], modes[moving]
            if len(left) == 0:
                break
    found[left] = modes
    return found


def _best_assigned(logits: Tensor, members: Tensor) -> Tensor:
    """(B, K) of each class the member with the best log-odds, ties to the lowest index; some points at a time."""
    best = logits.new_full(members.shape[:2], -torch.inf)
    indices = torch.zeros_like(best, dtype=torch.int64)
    for first in range(0, members.shape[2], _BLOCK):
        some, own = logits[:, :, first : first + _BLOCK], members[:, :, first : first + _BLOCK]
        found = torch.where(own, log_odds(some, own), -torch.inf).max(dim=2)
        higher = found.values > best
        best, indices = torch.where(higher, found.values, best), torch.where(higher, found.indices + first, indices)
    return indices


def best_by_members(
    rows: Rows, members: Tensor, likeness: Callable[[Tensor], Tensor], references: int = _REFERENCES
) -> Tensor:
    """(B, K) of each class the member that is most like its members in sum, ties to the lowest index.

    Exact up to as many members as `references`; in larger classes every member is compared to that many, evenly spaced.

    Args:
        rows: the points.
        members: (B, K, N) bool, some of every class.
        likeness: of squared distances, elementwise.
        references: members to which every member is compared, at most.
    """
    best = []
    for own in members.flatten(0, -2):
        indices = own.nonzero()[:, 0]
        places = torch.linspace(0, len(indices) - 1, min(len(indices), references), device=indices.device)
        class_rows = Rows(rows.at(indices))
        sums = class_rows.values.new_zeros(len(indices))
        for some in torch.split(class_rows.values[places.round().long()], 128):
            sums += likeness(class_rows.squared_distances(some[None])).sum(dim=(0, 1))
        best.append(indices[sums.argmax()])
    return torch.stack(best).view(members.shape[:2])
