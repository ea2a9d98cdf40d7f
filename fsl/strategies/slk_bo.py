"""SLK-BO: Laplacian K-modes by the by-product modes of the assignments (Ziko, Granger and Ben Ayed 2018; thesis
section 2.3.1), with known support."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.graphs.dense_graph import Symmetry
from clustering.optimiser.descent import Step
from clustering.optimiser.prototypes import ByProductModes
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.constrained_clustering import (
    First,
    Neighbours,
    SigmaRule,
    SupportClamp,
    check,
    cluster,
    points_of,
)
from fsl.transforms import Transform


@dataclass(frozen=True)
class SLKBO:
    """As SLK-MS, but the mode of a class is a point, its member with the best assignment (thesis eq. 2.11).

    Support points compete by the assignment that they would have were they not clamped: clamped ones would win always,
    and the modes never move. Updating such modes is no descent step, and they may return to points they have left, so
    that a task may stop at `max_iterations` only. Mostly they stay where they are, the larger beta the more: a mode is
    its own nearest point, which only a stronger vote of the neighbours outweighs.

    No paper reports it for few-shot inference and the public code of that mode does not run; `as_published` has the
    settings that it would run with.

    Attributes:
        transform: per-feature transform.
        weight: lambda of the update softmax(-a + lambda W S), >= 0; multiplies the sum over neighbours. Tuned on
            validation tasks from 0.05 to 1 in the public code (0.1 to 1 in journal section 6.4), by method and shot.
        neighbours: k of the kNN graph of support and queries, which also gives sigma, the point itself not counted
            (journal section 6.4 uses 3; its code counts the point).
        graph: how arcs become weights; "directed" needs step="published".
        include_self: count the point among its own k neighbours, as published: k - 1 real ones.
        sigma_rule: sigma^2 is the "mean" squared distance to the neighbours (journal eq. 29), or "published": their sum
            over 5 times the number of points, 0.4 times the mean in the public code.
        shift: move the queries so that their mean is the support's (journal section 6.4). Takes the classes to be mixed
            alike in both.
        beta: factor of the kernel, an inverse temperature (1 in the papers).
        clamp: support points keep their class "always" (journal eq. 3), or have it at the "start" only (public code).
        first: what is updated first: the "assignments" (journal Algorithm 1) or, from the nearest support means, the
            "prototypes" (public code).
        warm_start: start the sweeps of an outer step from the last assignments; False starts from softmax(-a), as
            published, which voids the descent over outer steps.
        step: of the sweeps, "monotone" or "published", see `clustering.optimiser.descent.descend`.
        max_iterations: outer steps at most (100 in the public code).
        tolerance: relative change of the objective at which a task stops, from its third step on (1e-4 in the public
            code); it stops too when its prototypes stay.
        max_sweeps: sweeps of an outer step at most (600 in the public code).
        sweep_tolerance: relative change of the objective at which the sweeps of an outer step end (1e-7 in the public
            code). Below 1e-6 they are done in double precision.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    weight: Annotated[float, AtLeast(0)] = 0.7
    neighbours: Annotated[int, AtLeast(1)] = 3
    graph: Symmetry = "average"
    include_self: bool = False
    sigma_rule: SigmaRule = "mean"
    shift: bool = True
    beta: Annotated[float, Above(0)] = 1.0
    clamp: SupportClamp = "always"
    first: First = "assignments"
    warm_start: bool = True
    step: Step = "monotone"
    max_iterations: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-4
    max_sweeps: Annotated[int, AtLeast(1)] = 100
    sweep_tolerance: Annotated[float, AtLeast(0)] = 1e-6

    def __post_init__(self) -> None:
        validate(self)
        check(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "SLKBO":
        """The settings of the public code for this mode, which does not run."""
        published = {
            "graph": "directed",
            "include_self": True,
            "clamp": "start",
            "first": "prototypes",
            "warm_start": False,
            "step": "published",
            "max_sweeps": 600,
            "sweep_tolerance": 1e-7,
            "sigma_rule": "published",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; iterations are the outer ones, and the trace R after each of them."""
        episodes = episodes.transformed(self.transform)
        points = points_of(episodes, shift=self.shift)
        near = Neighbours.of(episodes, points, self.neighbours, include_self=self.include_self)
        prototypes = ByProductModes(points, near.variance(self.sigma_rule), self.beta)
        return cluster(self, episodes, prototypes, near.terms(self), "hard")
