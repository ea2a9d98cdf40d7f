"""Points of a batch of small problems, for methods that need distances of them to prototypes.

Every prototype is a weighted sum of the points and is represented by its coefficients, a (B, K, M) row of weights over
the M points. Distances to prototypes then need either the features (`Features`) or the matrix of inner products of the
points (`Gram`). The latter does not depend on D and is cheaper for tasks of a hundred points. The points of one large
data set are `clustering.optimiser.rows.Rows`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_AT_ONCE = 1 << 24
"""Number of distances computed at a time: 64 MiB in float32."""


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


def in_cache(values: Tensor, at_once: int) -> list[slice]:
    """Batches of problems (B, ...) to process together: of at most so many values, which then stay in the cache of a
    processor."""
    count = len(values) if values.is_cuda else max(1, at_once // max(1, values[0].numel()))
    return [slice(start, start + count) for start in range(0, len(values), count)]


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
