"""Points of a batch of problems, of which the methods need inner products alone.

Every prototype here is a weighted sum of the points, so it is kept as its coefficients: a (B, K, M) row of weights
over the M points. Distances to prototypes then need either the features (`Features`) or the matrix of the points'
inner products (`Gram`), in which the D of the features has vanished: the cheaper form for tasks of a hundred points.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

_AT_ONCE = 1 << 24
"""Distances at a time where there are many points: 64 MiB in float32."""


class Points(Protocol):
    """M points of each of B problems."""

    @property
    def squared_norms(self) -> Tensor:
        """(B, M) ||x_i||^2."""
        ...

    def inner(self, coefficients: Tensor) -> Tensor:
        """(B, K, M) inner products of the prototypes sum_j c_kj x_j with every point."""
        ...

    def dissimilarities(self, first: int = 0) -> Tensor:
        """(B, M - first, M - first) squared distances less ||x_i||^2 between the points from `first` on, as they
        were before any was moved: ordered within a row as the distances are. A tensor of its own."""
        ...

    def pairwise(self) -> Tensor:
        """(B, M, M) inner products of all points, a tensor of their own or one that is shared: not to be written to."""
        ...

    def moved(self, which: Tensor, direction: Tensor) -> "Points":
        """The points with sum_j d_j x_j added to some: `which` (B, M) of 0 and 1, `direction` (B, M) of d."""
        ...

    def select(self, problems: Tensor | slice) -> "Points":
        """The points of some problems of the batch, given by their indices."""
        ...


@dataclass(frozen=True)
class Features:
    """Points by their features (B, M, D)."""

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
    """Points by their inner products (B, M, M).

    A displacement is carried along as rank-one corrections, so that the matrix itself is never rewritten.

    Attributes:
        values: G_ij = <x_i, x_j> of the points before they were moved.
        which: (B, M) 1 for the points that were moved; None where none was.
        products: (B, M) <x_i, step>, the step being what was added.
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
        mass, along = torch.bmm(coefficients, self._moves).tensor_split(2, dim=2)
        inner.addcmul_(mass, self.products[:, None])
        inner.addcmul_(torch.addcmul(along, mass, self.squared_step[:, :, None]), self.which[:, None])
        return inner

    @cached_property
    def _moves(self) -> Tensor:
        """(B, M, 2) `which` and `products`."""
        return torch.stack([self.which, self.products], dim=2)  # type: ignore[list-item]

    def dissimilarities(self, first: int = 0) -> Tensor:
        values = self.values[:, first:, first:]
        # Laid out as `clustering.graphs.dense_graph` works on them: columns first, then problems, then rows.
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
            raise ValueError("points that were moved once cannot be moved again")
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
    """(B, M, M) squared Euclidean distances between the points, clamped at 0. A tensor of its own."""
    norms = points.squared_norms
    return torch.sub(norms[:, :, None] + norms[:, None], points.pairwise(), alpha=2).clamp_min_(0)


def squared_distances_by_block(points: Points) -> Iterator[Tensor]:
    """(B, M, m) squared Euclidean distances, clamped at 0, of all points to some of them at a time, in order: at once
    where all inner products are at hand."""
    if not isinstance(points, Features):
        yield squared_pairwise(points)
        return
    norms, values = points.squared_norms, points.values
    at_once = max(1, _AT_ONCE // norms.numel())
    for some, lengths in zip(torch.split(values, at_once, 1), torch.split(norms, at_once, 1), strict=True):
        products = torch.bmm(values, some.mT)
        yield torch.sub(norms[:, :, None] + lengths[:, None], products, alpha=2).clamp_min_(0)


def cosines(points: Points, coefficients: Tensor) -> Tensor:
    """(B, K, M) cosines between every point and the prototypes; 0 where one of them is zero."""
    inner = points.inner(coefficients)
    prototype_norms = (inner * coefficients).sum(dim=2, keepdim=True).clamp_min(0).sqrt()
    return inner / (prototype_norms * points.squared_norms[:, None].clamp_min(0).sqrt()).clamp_min(1e-12)
