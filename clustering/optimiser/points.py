"""Points, for methods that need distances of them to prototypes.

`Rows` are the N points of one large data set, shared by all problems of a batch. A prototype is a row of D coordinates,
points are read in blocks, and no array has the size of all pairs of points, or of points times classes times
dimensions.

`Points` are those of a batch of small problems. Every prototype is a weighted sum of the points and is represented by
its coefficients, a (B, K, M) row of weights over the M points. Distances to prototypes then need either the features
(`Features`) or the matrix of inner products of the points (`Gram`). The latter does not depend on D and is cheaper for
tasks of a hundred points.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_AT_ONCE = 1 << 24
"""Number of distances computed at a time: 64 MiB in float32."""

_BLOCK = 1 << 20
"""Number of coordinates of rows processed at a time: 4 MiB in float32, so that they stay in the cache."""

_REFERENCES = 1024
"""Number of reference members to which members of a class are compared if the class has more."""

_DUPLICATES = 16
"""Number of nearest rows among which a prototype that equals a row is searched, since rounding may rank others
first."""


class Points(ABC):
    """M points in each of B problems."""

    @property
    @abstractmethod
    def squared_norms(self) -> Tensor:
        """(B, M) ||x_i||^2."""

    @abstractmethod
    def inner(self, coefficients: Tensor) -> Tensor:
        """(B, K, M) inner products of the prototypes sum_j c_kj x_j with every point."""

    @abstractmethod
    def dissimilarities(self, first: int = 0) -> Tensor:
        """(B, M - first, M - first) squared distances minus ||x_i||^2 between the points from index `first` on, before
        any displacement.

        Within a row they have the order of the distances. The result is a new tensor.
        """

    @abstractmethod
    def pairwise(self) -> Tensor:
        """(B, M, M) inner products of all points, possibly a shared tensor that must not be modified."""

    @abstractmethod
    def moved(self, which: Tensor, direction: Tensor) -> "Points":
        """The points displaced by sum_j d_j x_j where `which` (B, M) is 1; `direction` (B, M) is d."""

    @abstractmethod
    def select(self, problems: Tensor | slice) -> "Points":
        """The points of a subset of the problems, given by indices."""

    def squared_distances(self, coefficients: Tensor) -> Tensor:
        """(B, K, M) squared Euclidean distances of every point to the prototypes sum_j c_kj x_j, clamped at 0."""
        inner = self.inner(coefficients)
        prototype_norms = (inner * coefficients).sum(dim=2, keepdim=True)
        return torch.sub(self.squared_norms[:, None], inner, alpha=2).add_(prototype_norms).clamp_min_(0)

    def means(self, weights: Tensor) -> Tensor:
        """(B, K, M) coefficients of the means of points weighted by `weights` (B, K, M); no class may be empty."""
        return weights / weights.sum(dim=2, keepdim=True)

    def at(self, indices: Tensor) -> Tensor:
        """(B, K, M) coefficients of the points with indices (B, K)."""
        norms = self.squared_norms
        return norms.new_zeros(*indices.shape, norms.shape[1]).scatter_(2, indices[:, :, None], 1.0)

    def densest(self, weights: Tensor, members: Tensor, variance: float | Tensor) -> Tensor:
        """(B, K) the member of highest kernel density sum_p z_kp w(x_p, x_q) in each class."""
        blocks = _squared_distances_by_block(self)
        parts = [torch.bmm(weights, torch.mul(squared, -0.5 / variance).exp_()) for squared in blocks]
        return torch.where(members, torch.cat(parts, dim=2), -torch.inf).max(dim=2).indices

    def mean_shift(
        self,
        start: Tensor,
        weights: Tensor,
        variance: float | Tensor,
        *,
        tolerance: float = 1e-5,
        max_iterations: int = 1000,
    ) -> Tensor:
        """Iterate m <- sum_p z_p w(x_p, m) x_p / sum_p z_p w(x_p, m), for all classes together.

        No step lowers the density sum_p z_p w(x_p, m). The limit is a stationary point that depends on the start. Each
        step takes one product of the coefficients with the points.

        Args:
            start: (B, K, M) coefficients of the initial m.
            weights: (B, K, M) z >= 0, not all 0 for any class.
            variance: (B, 1, 1) sigma^2 of w.
            tolerance: a problem stops when no m moves by more than this share of the largest initial norm (in the
                public code: 1e-5 of the largest coordinate).
            max_iterations: maximum number of steps.

        Returns:
            (B, K, M) coefficients of the modes.
        """
        # ||m||^2 is the same for all points, so it cancels in the softmax over points.
        variance = torch.as_tensor(variance)
        offset = torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny).log_(), -torch.inf)
        offset.addcdiv_(self.squared_norms[:, None], variance, value=-0.5)
        coefficients, inner = start, self.inner(start)
        allowed = tolerance**2 * torch.linalg.vecdot(coefficients, inner).amax(1)
        moving = torch.ones_like(variance, dtype=torch.bool)
        for _ in range(max_iterations):
            new = torch.softmax(torch.addcdiv(offset, inner, variance), dim=2)
            new_inner = self.inner(new)
            moved = (new - coefficients).mul_(new_inner - inner).sum(2).amax(1)
            coefficients, inner = torch.where(moving, new, coefficients), new_inner
            moving = moving & (moved > allowed)[:, None, None]
            if not moving.any():
                break
        return coefficients


@dataclass(frozen=True)
class Features(Points):
    """Points given by features (B, M, D)."""

    values: Tensor

    @cached_property
    def squared_norms(self) -> Tensor:
        return self.values.square().sum(dim=2)

    def inner(self, coefficients: Tensor) -> Tensor:
        return torch.bmm(torch.bmm(coefficients, self.values), self.values.mT)

    def dissimilarities(self, first: int = 0) -> Tensor:
        values = self.values[:, first:]
        return torch.baddbmm(values.square().sum(2)[:, None], values, values.mT, alpha=-2)

    def pairwise(self) -> Tensor:
        return torch.bmm(self.values, self.values.mT)

    def moved(self, which: Tensor, direction: Tensor) -> "Features":
        step = torch.bmm(direction[:, None], self.values)
        return Features(torch.addcmul(self.values, which[:, :, None], step))

    def select(self, problems: Tensor | slice) -> "Features":
        return Features(self.values[problems])


@dataclass(frozen=True)
class Gram(Points):
    """Points given by inner products (B, M, M).

    A displacement is represented by rank-one corrections, so that the matrix is never rewritten.

    Attributes:
        values: G_ij = <x_i, x_j> of the points before any displacement.
        which: (B, M) 1 for displaced points; None without a displacement.
        products: (B, M) <x_i, step>, where step is the displacement.
        squared_step: (B, 1) ||step||^2.
    """

    values: Tensor
    which: Tensor | None = None
    products: Tensor | None = None
    squared_step: Tensor | None = None

    @cached_property
    def squared_norms(self) -> Tensor:
        norms = self.values.diagonal(dim1=1, dim2=2)
        if self.which is None or self.products is None or self.squared_step is None:
            return norms
        return norms + self.which * (2 * self.products + self.squared_step)

    def inner(self, coefficients: Tensor) -> Tensor:
        inner = torch.bmm(coefficients, self.values)
        if self.which is None or self.products is None or self.squared_step is None:
            return inner
        # <x_i + u_i s, x_j + u_j s> = G_ij + u_i <s, x_j> + u_j <s, x_i> + u_i u_j ||s||^2, summed over c.
        mass, direction = torch.bmm(coefficients, self._moves).tensor_split(2, dim=2)
        inner.addcmul_(mass, self.products[:, None])
        inner.addcmul_(torch.addcmul(direction, mass, self.squared_step[:, :, None]), self.which[:, None])
        return inner

    @cached_property
    def _moves(self) -> Tensor:
        """(B, M, 2) `which` and `products`."""
        return torch.stack([self.which, self.products], dim=2)  # type: ignore[list-item]

    def dissimilarities(self, first: int = 0) -> Tensor:
        values = self.values[:, first:, first:]
        # The layout that `clustering.graphs.dense_graph` uses: columns first, then problems, then rows.
        out = values.new_empty(values.shape[1], len(values), values.shape[1])
        torch.sub(values.diagonal(dim1=1, dim2=2)[:, :, None], values, alpha=2, out=out.transpose(0, 1))
        return out.permute(1, 2, 0)

    def pairwise(self) -> Tensor:
        if self.which is None or self.products is None or self.squared_step is None:
            return self.values
        rows = torch.stack([self.which, self.products + self.which * self.squared_step], dim=2)
        return torch.baddbmm(self.values, rows, torch.stack([self.products, self.which], dim=1))

    def moved(self, which: Tensor, direction: Tensor) -> "Gram":
        if self.which is not None:
            raise ValueError("points can be displaced only once")
        products = torch.bmm(self.values, direction[:, :, None])[..., 0]
        return Gram(self.values, which, products, (products * direction).sum(1, keepdim=True))

    def select(self, problems: Tensor | slice) -> "Gram":
        parts = (self.values, self.which, self.products, self.squared_step)
        return Gram(*(None if part is None else part[problems] for part in parts))  # type: ignore[arg-type]


squared_distances = Points.squared_distances


def squared_pairwise(points: Points) -> Tensor:
    """(B, M, M) squared Euclidean distances between the points, clamped at 0, in a new tensor."""
    norms = points.squared_norms
    return torch.sub(norms[:, :, None] + norms[:, None], points.pairwise(), alpha=2).clamp_min_(0)


def _squared_distances_by_block(points: Points) -> Iterator[Tensor]:
    """(B, M, m) blocks of squared Euclidean distances between all points and consecutive points, clamped at 0.

    If all inner products are available, there is a single block.
    """
    if not isinstance(points, Features):
        yield squared_pairwise(points)
        return
    norms, values = points.squared_norms, points.values
    at_once = max(1, _AT_ONCE // norms.numel())
    for block, lengths in zip(torch.split(values, at_once, 1), torch.split(norms, at_once, 1), strict=True):
        products = torch.bmm(values, block.mT)
        yield torch.sub(norms[:, :, None] + lengths[:, None], products, alpha=2).clamp_min_(0)


def cosines(points: Points, coefficients: Tensor) -> Tensor:
    """(B, K, M) cosines between every point and the prototypes; 0 if one of them is zero."""
    inner = points.inner(coefficients)
    prototype_norms = (inner * coefficients).sum(dim=2, keepdim=True).clamp_min(0).sqrt()
    return inner / (prototype_norms * points.squared_norms[:, None].clamp_min(0).sqrt()).clamp_min(1e-12)


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

    def select(self, problems: Tensor) -> "Rows":
        """The rows themselves, which all problems share."""
        return self

    def densest(self, weights: Tensor, members: Tensor, variance: float | Tensor) -> Tensor:
        """(B, K) the member nearest to the mean of its class, found in one pass; the member of highest density would
        take quadratic time."""
        distances = self.squared_distances(self.means(weights))
        return distances.masked_fill_(~members, torch.inf).min(dim=2).indices

    def central(self, members: Tensor, likeness: Callable[[Tensor], Tensor], references: int = _REFERENCES) -> Tensor:
        """(B, K) for each class the member most similar in sum to the members, ties to the lowest index.

        Exact if a class has at most `references` members; in larger classes members are compared with that many, evenly
        spaced.

        Args:
            members: (B, K, N) bool, at least one in every class.
            likeness: elementwise similarity as a function of squared distances.
            references: maximum number of members that each member is compared with.
        """
        best = []
        for class_members in members.flatten(0, -2):
            indices = class_members.nonzero()[:, 0]
            places = torch.linspace(0, len(indices) - 1, min(len(indices), references), device=indices.device)
            class_rows = Rows(self.at(indices))
            sums = class_rows.values.new_zeros(len(indices))
            for references_in_block in torch.split(class_rows.values[places.round().long()], 128):
                sums += likeness(class_rows.squared_distances(references_in_block[None])).sum(dim=(0, 1))
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
            tolerance: movement of a mode, relative to its norm, at which it stops (public code: 1e-5).
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
            moved, lengths = (torch.linalg.vector_norm(vectors, dim=1) for vectors in (new - modes, new))
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
    return Rows(values, origin).squared_distances((centres - origin)[None])[0].min(dim=0).indices
