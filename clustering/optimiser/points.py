"""Points of a batch of problems, for methods that need only inner products.

Every prototype here is a weighted sum of the points and is represented by its coefficients, a (B, K, M) row of weights
over the M points. Distances to prototypes then need either the features (`Features`) or the matrix of inner products of
the points (`Gram`). The latter does not depend on D and is cheaper for tasks of a hundred points.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

_AT_ONCE = 1 << 24
"""Number of distances computed at a time: 64 MiB in float32."""


class Points(Protocol):
    """M points in each of B problems."""

    @property
    def squared_norms(self) -> Tensor:
        """(B, M) ||x_i||^2."""
        ...

    def inner(self, coefficients: Tensor) -> Tensor:
        """(B, K, M) inner products of the prototypes sum_j c_kj x_j with every point."""
        ...

    def dissimilarities(self, first: int = 0) -> Tensor:
        """(B, M - first, M - first) squared distances minus ||x_i||^2 between the points from index `first` on, before
        any displacement.

        Within a row they have the order of the distances. The result is a new tensor.
        """
        ...

    def pairwise(self) -> Tensor:
        """(B, M, M) inner products of all points, possibly a shared tensor that must not be modified."""
        ...

    def moved(self, which: Tensor, direction: Tensor) -> "Points":
        """The points displaced by sum_j d_j x_j where `which` (B, M) is 1; `direction` (B, M) is d."""
        ...

    def select(self, problems: Tensor | slice) -> "Points":
        """The points of a subset of the problems, given by indices."""
        ...


@dataclass(frozen=True)
class Features:
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
class Gram:
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


def squared_distances(points: Points, coefficients: Tensor) -> Tensor:
    """(B, K, M) squared Euclidean distances of every point to the prototypes sum_j c_kj x_j, clamped at 0."""
    inner = points.inner(coefficients)
    prototype_norms = (inner * coefficients).sum(dim=2, keepdim=True)
    return torch.sub(points.squared_norms[:, None], inner, alpha=2).add_(prototype_norms).clamp_min_(0)


def squared_pairwise(points: Points) -> Tensor:
    """(B, M, M) squared Euclidean distances between the points, clamped at 0, in a new tensor."""
    norms = points.squared_norms
    return torch.sub(norms[:, :, None] + norms[:, None], points.pairwise(), alpha=2).clamp_min_(0)


def squared_distances_by_block(points: Points) -> Iterator[Tensor]:
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
