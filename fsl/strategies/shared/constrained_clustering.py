"""Few-shot inference as clustering of support and queries with known support labels (journal section 2.1 and
Algorithm 1): the parts shared by K-means, K-modes, SLK-Means, SLK-MS and SLK-BO."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.foundation.errors import InputError
from clustering.graphs.dense_graph import Symmetry
from clustering.graphs.neighbourhood import Arcs, nearest_arcs
from clustering.optimiser.alternation import Members, Sweeps, alternate
from clustering.optimiser.descent import Step
from clustering.optimiser.points import Gram, Points
from clustering.optimiser.prototypes import Prototypes, WithCost
from clustering.optimiser.terms import Laplacian
from fsl.episodes import Episodes, Predictions

SupportClamp = Literal["always", "start"]
"""Whether the class of support points is fixed always, or only at the start (public code)."""

First = Literal["assignments", "prototypes"]
"""Which variables are updated first. With "assignments", the initial prototypes are the support means. With
"prototypes" (public code), they are computed from the support and the queries, each in the class of its nearest support
mean."""

SigmaRule = Literal["mean", "published"]
"""sigma^2 is the mean squared distance to the neighbours (journal eq. 29), or their sum divided by 5 times the number
of points (public code; 0.4 times the mean for its 2 neighbours other than the point itself)."""

PUBLISHED: Mapping[str, Any] = {
    "graph": "directed",
    "include_self": True,
    "clamp": "start",
    "first": "prototypes",
    "warm_start": False,
    "step": "published",
    "max_sweeps": 600,
    "sweep_tolerance": 1e-7,
}
"""The settings of the public code that the SLK strategies share."""


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
    @property
    def text_weight(self) -> float | None: ...
    @property
    def beta(self) -> float: ...


def check(settings: Settings) -> None:
    """Reject contradictory settings.

    Raises:
        InputError: a monotone step is combined with a directed graph.
    """
    if settings.weight > 0 and settings.graph == "directed" and settings.step == "monotone":
        raise InputError(
            f"{type(settings).__name__}: the monotone step minimises an objective, which a directed graph does not "
            "have; set graph=average, or step=published"
        )


def points_of(episodes: Episodes, *, shift: bool) -> Points:
    """Support and queries, optionally shifted. The inner products of shifted points are computed once, which is cheaper
    than correcting each product with prototypes."""
    points = episodes.shifted_points if shift else episodes.points
    return Gram(points.pairwise()) if isinstance(points, Gram) else points


@dataclass(frozen=True)
class Neighbours:
    """The k nearest neighbours of support and queries among themselves.

    Attributes:
        arcs: arcs from each point to its neighbours.
        count: (B,) number of points without padding.
        smallest: (B,) variance below which all points are equal up to rounding.
    """

    arcs: Arcs
    count: Tensor
    smallest: Tensor

    @classmethod
    def of(cls, episodes: Episodes, points: Points, k: int, *, include_self: bool) -> "Neighbours":
        """Find the neighbours. `include_self` counts the point among its own k, as published, which leaves k - 1."""
        valid = None if episodes.support_mask is None and episodes.query_mask is None else episodes.valid
        arcs = nearest_arcs(points, k, include_self=include_self, valid=valid)
        size = points.squared_norms.amax(dim=1)
        return cls(
            arcs, episodes.valid.sum(dim=1).to(size.dtype), (64 * torch.finfo(size.dtype).eps * size).clamp_min(1e-12)
        )

    def variance(self, rule: SigmaRule) -> Tensor:
        """(B, 1, 1) sigma^2; infinite if all points are equal, so that all kernel values are 1."""
        per_point = 5.0 if rule == "published" else self.arcs.number / self.count
        variance = self.arcs.squared_lengths / (self.count * per_point).clamp_min(1.0)
        return torch.where(variance > self.smallest, variance, torch.inf)[:, None, None]

    def terms(self, settings: Settings) -> list[Laplacian]:
        """The Laplacian term on the kNN graph; empty if its weight is 0."""
        if settings.weight == 0:
            return []
        dtype = torch.float64 if _double(settings) else self.count.dtype
        return [Laplacian(self.arcs.graph(settings.graph, dtype), settings.weight)]


def cluster(
    settings: Settings, episodes: Episodes, prototypes: Prototypes, terms: Sequence[Laplacian], members: Members
) -> Predictions:
    """Class probabilities of the queries; the iterations are outer steps, the trace holds R after each of them."""
    support = torch.zeros_like(episodes.valid)
    support[:, : episodes.support_size] = True
    labels = torch.cat(
        [episodes.support_labels, episodes.support_labels.new_zeros(len(support), episodes.query_size)], 1
    )
    start = episodes.class_means
    unlabelled = episodes.named and not bool(episodes.support_one_hot.sum(dim=1).all())
    if episodes.named and settings.text_weight != 0:
        none = start.new_zeros(len(start), episodes.query_size, episodes.way)
        evidence = episodes.with_text(none, settings.text_weight, settings.beta)
        prototypes = WithCost(prototypes, pad(evidence.mT, (episodes.support_size, 0)))
    if settings.first == "prototypes":
        nearest = prototypes.cost(start).min(dim=1).indices
        joined = torch.where(support, labels, nearest)
        classes = torch.arange(episodes.way, device=labels.device)[:, None]
        one_hot = (joined[:, None] == classes) & episodes.valid[:, None]
        start = prototypes.update(start, one_hot.to(start.dtype), None)
    padded = episodes.support_mask is not None or episodes.query_mask is not None
    always = settings.clamp == "always"
    clamped = support | ~episodes.valid if always else ~episodes.valid
    result = alternate(
        prototypes,
        start,
        terms,
        clamp=(clamped, labels) if always or padded else None,
        hint=None if always else (support, labels),
        valid=episodes.valid if padded else None,
        members=members,
        empty="keep" if unlabelled else "rollback",
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
    return Predictions(result.assignments[:, episodes.support_size :], result.iterations, result.trace)


def _double(settings: Settings) -> bool:
    """Whether the sweeps need double precision, because their tolerance is below the resolution of float32."""
    return settings.weight > 0 and settings.sweep_tolerance < 1e-6
