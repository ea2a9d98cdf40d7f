"""The N points of one large data set, shared by all problems of a batch.

A prototype is a row of D coordinates, points are read in blocks, and no array has the size of all pairs of points, or
of points times classes times dimensions. Points of small problems are `clustering.optimiser.points.Points`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_BLOCK = 1 << 20
"""Number of coordinates of rows processed at a time: 4 MiB in float32, so that they stay in the cache."""

_REFERENCES = 25_000
"""Number of reference members to which members of a class are compared if the class has more."""

_DUPLICATES = 16
"""Number of nearest rows among which a prototype that equals a row is searched, since rounding may rank others
first."""


@dataclass(frozen=True)
class Rows:
    """N points with D coordinates, shared by all problems of a batch.

    Attributes:
        values: (N, D), from the origin on.
        origin: (D,) what was subtracted from the points to avoid cancellation in distances between points far from
            zero; None for nothing.
    """

    values: Tensor
    origin: Tensor | None = None

    @classmethod
    def of(cls, values: Tensor) -> "Rows":
        """The rows, with their mean as origin if it is large compared with their spread."""
        mean = values.mean(dim=0)
        plain = cls(values)
        spread = plain.squared_norms.mean() - mean.square().sum()
        return cls(values - mean, mean) if mean.square().sum() > 4 * spread else plain

    def without_points(self) -> "Rows":
        """The origin alone."""
        return Rows(self.values.new_empty(0, self.values.shape[1]), self.origin)

    def relative(self, places: Tensor) -> Tensor:
        """Coordinates (…, D) from the origin on."""
        return places if self.origin is None else places - self.origin

    def absolute(self, places: Tensor) -> Tensor:
        """Coordinates (…, D) whose origin is zero."""
        return places if self.origin is None else places + self.origin

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
            yield block, self.values[block]

    def at(self, indices: Tensor) -> Tensor:
        """(…, D) the points with these indices."""
        return self.values[indices]

    def places(self, centres: Tensor) -> Tensor:
        """(K,) index of the first point equal to each of the centres (K, D), -1 if there is none."""
        near = self.squared_distances(centres).topk(min(_DUPLICATES, len(self.values)), dim=1, largest=False).indices
        near = near.sort(dim=1).values
        equal = (self.at(near) == centres[:, None]).all(dim=2)
        first = equal.int().argmax(dim=1, keepdim=True)
        return torch.where(equal.any(dim=1), near.gather(1, first)[:, 0], -1)

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
        sums = flat.new_zeros(len(flat), self.values.shape[1])
        for block, rows in self.blocks():
            sums.addmm_(flat[:, block], rows)
        return (sums / mass).view(*weights.shape[:-1], -1)

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

    def select(self, problems: Tensor) -> "Rows":
        """The rows themselves, which all problems share."""
        return self

    def densest(self, weights: Tensor, members: Tensor, variance: float | Tensor) -> Tensor:
        """(B, K) the member nearest to the mean of its class, found in one pass; the member of highest density would
        take quadratic time."""
        distances = self.squared_distances(self.means(weights))
        return distances.masked_fill_(~members, torch.inf).min(dim=2).indices

    def central(self, members: Tensor, variance: float) -> Tensor:
        """(B, K) for each class the member with the highest density of its members, ties to the lowest index.

        Exact if a class has at most 25,000 members; in larger classes members are compared with that many, evenly
        spaced.

        Args:
            members: (B, K, N) bool, at least one in every class.
            variance: sigma^2 of the kernel.
        """
        best = []
        for class_members in members.flatten(0, -2):
            indices = class_members.nonzero()[:, 0]
            places = torch.linspace(0, len(indices) - 1, min(len(indices), _REFERENCES), device=indices.device)
            class_rows = Rows(self.at(indices))
            sums = class_rows.values.new_zeros(len(indices))
            for references in torch.split(class_rows.values[places.round().long()], 128):
                sums += class_rows.squared_distances(references).div_(-2 * variance).exp_().sum(dim=0)
            best.append(indices[sums.argmax()])
        return torch.stack(best).view(members.shape[:2])

    def mean_shift(
        self,
        start: Tensor,
        weights: Tensor,
        variance: float | Tensor,
        *,
        tolerance: float = 1e-5,
        max_iterations: int = 1000,
    ) -> Tensor:
        """Iterate m <- sum_p z_p g(x_p, m) x_p / sum_p z_p g(x_p, m), for all classes of all problems together.

        No step lowers the density sum_p z_p g(x_p, m). A mode whose density at the start is 0 restarts at the weighted
        mean of its class, or at the point nearest to it. The points are read once per step.

        Args:
            start: (B, K, D) initial m.
            weights: (B, K, N) z >= 0, not all 0 for any class.
            variance: sigma^2 of g.
            tolerance: largest change of a coordinate of a mode, relative to its largest one, at which it stops, as in
                the public code.
            max_iterations: maximum number of steps.

        Returns:
            (B, K, D) modes.
        """
        variance, mass = float(variance), weights.flatten(0, -2)
        modes = start.flatten(0, -2)
        modes_of_all, left = modes.clone(), torch.arange(len(modes), device=start.device)
        mass_of_left = mass  # gathered once until a mode stops
        for iteration in range(max_iterations):
            sums, density = self.shifted(modes, mass_of_left, variance)
            if iteration == 0 and (density == 0).any():
                unseen, modes = (density == 0).nonzero()[:, 0], modes.clone()
                modes[unseen] = self._restarts(mass[unseen], variance)
                sums[unseen], density[unseen] = self.shifted(modes[unseen], mass[unseen], variance)
            new = sums / density[:, None].clamp_min(torch.finfo(sums.dtype).tiny)
            moved, lengths = ((new - modes).abs().amax(dim=1), new.abs().amax(dim=1))
            moving, modes = moved > tolerance * lengths, new
            if not moving.all():
                modes_of_all[left] = modes
                left, modes = left[moving], modes[moving]
                if len(left) == 0:
                    break
                mass_of_left = mass[left]
        modes_of_all[left] = modes
        return modes_of_all.view(start.shape)

    def _restarts(self, mass: Tensor, variance: float) -> Tensor:
        """(a, D) means of the points with weights (a, N), or the nearest points where no point is seen from there."""
        means = self.means(mass)
        squared = self.squared_distances(means).masked_fill(mass == 0, torch.inf)
        sees = self.shifted(means, mass, variance)[1] > 0
        return torch.where(sees[:, None], means, self.at(squared.min(dim=1).indices))


def nearest_centres(values: Tensor, centres: Tensor) -> Tensor:
    """(n,) index of the centre (K, D) nearest to each row (n, D), ties to the lowest index."""
    origin = centres.mean(dim=0)
    return Rows(values - origin).squared_distances(centres - origin).min(dim=0).indices
