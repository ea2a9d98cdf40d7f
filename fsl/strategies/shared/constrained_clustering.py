"""Few-shot inference as clustering of support and queries, the support's classes being known (journal section 2.1 and
Algorithm 1): what K-means, K-modes, SLK-Means, SLK-MS and SLK-BO have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbourhood import Arcs, nearest_arcs
from clustering.optimiser.alternation import Members, Sweeps, alternate
from clustering.optimiser.descent import Step
from clustering.optimiser.points import Gram, Points
from clustering.optimiser.prototypes import Prototypes
from clustering.optimiser.terms import Laplacian
from fsl.episodes import Episodes, Predictions

SupportClamp = Literal["always", "start"]
"""Support points keep their class, or (public code) only begin in it."""

First = Literal["assignments", "prototypes"]
"""What is updated first. With the assignments first, the first prototypes are the support means; with the prototypes
first (public code), they are those of the support and the queries nearest to each support mean."""

SigmaRule = Literal["mean", "published"]
"""sigma^2 is the mean squared distance to the neighbours (journal eq. 29), or their sum divided by 5 times the number
of points (public code; 0.4 times the mean for its 2 real neighbours)."""


class Settings(Protocol):
    """The fields that the SLK strategies share."""

    @property
    def weight(self) -> float: ...
    @property
    def graph(self) -> Symmetry: ...
    @property
    def clamp(self) -> SupportClamp: ...
    @property
    def first(self) -> First: ...
    @property
    def warm_start(self) -> bool: ...
    @property
    def step(self) -> Step: ...
    @property
    def max_iterations(self) -> int: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def max_sweeps(self) -> int: ...
    @property
    def sweep_tolerance(self) -> float: ...


def check(settings: Settings) -> None:
    """Refuse settings that contradict each other.

    Raises:
        InputError: a monotone step on a directed graph.
    """
    if settings.weight > 0 and settings.graph == "directed" and settings.step == "monotone":
        raise InputError(
            f"{type(settings).__name__}: a directed graph has no objective that a monotone step could lower; "
            "set graph=average, or step=published"
        )


def points_of(episodes: Episodes, *, shift: bool) -> Points:
    """Support and queries, moved by the cross-class shift where asked for. Displaced inner products are written out
    once, which is cheaper than to correct every product with prototypes."""
    points = episodes.shifted_points if shift else episodes.points
    return Gram(points.pairwise()) if isinstance(points, Gram) else points


@dataclass(frozen=True)
class Neighbours:
    """The k nearest neighbours of support and queries among themselves.

    Attributes:
        arcs: from each point to its neighbours.
        count: (B,) points, padding left out.
        smallest: (B,) variance below which all points are equal up to rounding.
    """

    arcs: Arcs
    count: Tensor
    smallest: Tensor

    @classmethod
    def of(cls, episodes: Episodes, points: Points, k: int, *, include_self: bool) -> "Neighbours":
        """`include_self` counts the point among its own k, as published: k - 1 real ones."""
        valid = None if episodes.support_mask is None and episodes.query_mask is None else episodes.valid
        arcs = nearest_arcs(points, k, include_self=include_self, valid=valid)
        size = points.squared_norms.amax(dim=1)
        return cls(
            arcs, episodes.valid.sum(dim=1).to(size.dtype), (64 * torch.finfo(size.dtype).eps * size).clamp_min(1e-12)
        )

    def variance(self, rule: SigmaRule) -> Tensor:
        """(B, 1, 1) sigma^2; infinite, so that all kernel values are 1, where all points are equal."""
        per_point = 5.0 if rule == "published" else self.arcs.number / self.count
        variance = self.arcs.squared_lengths / (self.count * per_point).clamp_min(1.0)
        return torch.where(variance > self.smallest, variance, torch.inf)[:, None, None]

    def terms(self, settings: Settings) -> list[Laplacian]:
        """The Laplacian term on their graph, if it has a weight."""
        if settings.weight == 0:
            return []
        dtype = torch.float64 if _double(settings) else self.count.dtype
        return [Laplacian(self.arcs.graph(settings.graph, dtype), settings.weight)]


def cluster(
    settings: Settings, episodes: Episodes, prototypes: Prototypes, terms: Sequence[Laplacian], members: Members
) -> Predictions:
    """Class probabilities of the queries; iterations are the outer ones, and the trace R after each of them."""
    support = torch.zeros_like(episodes.valid)
    support[:, : episodes.support_size] = True
    labels = torch.cat(
        [episodes.support_labels, episodes.support_labels.new_zeros(len(support), episodes.query_size)], 1
    )
    start = episodes.class_means
    if settings.first == "prototypes":
        nearest = prototypes.cost(start).min(dim=1).indices
        joined = torch.where(support, labels, nearest)
        classes = torch.arange(episodes.way, device=labels.device)[:, None]
        one_hot = (joined[:, None] == classes) & episodes.valid[:, None]
        start = prototypes.update(start, one_hot.to(start.dtype), None)
    padded = episodes.support_mask is not None or episodes.query_mask is not None
    always = settings.clamp == "always"
    clamped = support | ~episodes.valid if always else ~episodes.valid
    found = alternate(
        prototypes,
        start,
        terms,
        clamp=(clamped, labels) if always or padded else None,
        hint=None if always else (support, labels),
        valid=episodes.valid if padded else None,
        members=members,
        sweeps=Sweeps(
            settings.step,
            settings.max_sweeps,
            settings.sweep_tolerance,
            warm=settings.warm_start,
            double=_double(settings),
        ),
        max_iterations=settings.max_iterations,
        tolerance=settings.tolerance,
    )
    return Predictions(found.assignments[:, episodes.support_size :], found.iterations, found.trace)


def _double(settings: Settings) -> bool:
    """Whether the sweeps are to end by a change that single precision does not resolve."""
    return settings.weight > 0 and settings.sweep_tolerance < 1e-6
