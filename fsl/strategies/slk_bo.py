"""SLK-BO: Laplacian K-modes with known support labels, whose modes are a by-product of the assignments (Ziko, Granger
and Ben Ayed 2018; thesis section 2.3.1)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.graphs.dense_graph import Symmetry
from clustering.optimiser.descent import Step
from clustering.optimiser.prototypes import ByProductModes
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.constrained_clustering import (
    PUBLISHED,
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
    """SLK-MS with data points as modes: the mode of a class is its member with the largest assignment (thesis eq.
    2.11).

    For the choice of modes, support points use the assignment they would have without the constraint; otherwise a
    support point would always win, and the modes would never change. Updating such modes is not a descent step: modes
    may return to earlier points, and a task may stop only at `max_iterations`. Usually the modes do not change,
    especially for large beta, because each mode is its own nearest point, and only a stronger influence of the
    neighbours can replace it.

    No paper reports this method for few-shot inference, and the public code of this mode does not run; `as_published`
    has the settings it would use.

    Attributes:
        transform: per-feature transform.
        weight: lambda of the update softmax(-a + lambda W S), >= 0; it multiplies the sum over neighbours. The public
            code tunes it on validation tasks from 0.05 to 1 (0.1 to 1 in journal section 6.4), per method and shot.
        neighbours: k of the kNN graph of support and queries, also used for sigma, without the point itself (3 in
            journal section 6.4, whose code counts the point).
        graph: symmetrisation of the kNN graph; "directed" requires step="published".
        include_self: count the point among its own k neighbours, as published, which leaves k - 1 others.
        sigma_rule: sigma^2 is the "mean" squared distance to the neighbours (journal eq. 29), or "published": their sum
            divided by 5 times the number of points, which in the public code is 0.4 times the mean.
        shift: shift the queries so that their mean equals the support's (journal section 6.4). This assumes equal class
            proportions in both.
        beta: factor of the kernel, an inverse temperature; 1 in the papers.
        clamp: fix the class of support points "always" (journal eq. 3), or at the "start" only (public code).
        first: update the "assignments" first (journal Algorithm 1), or the "prototypes", with each query assigned to
            the nearest support mean (public code).
        warm_start: start the sweeps of an outer step from the last assignments. False starts from softmax(-a), as
            published; the objective may then increase from one outer step to the next.
        step: rule of the sweeps, "monotone" or "published", see `clustering.optimiser.descent.descend`.
        max_iterations: maximum number of outer steps (100 in the public code).
        tolerance: a task stops if the relative change of the objective is below this value, from the third step on
            (1e-4 in the public code). It also stops if its prototypes do not change.
        max_sweeps: maximum number of sweeps per outer step (600 in the public code).
        sweep_tolerance: the sweeps of an outer step end if the relative change of the objective is below this value
            (1e-7 in the public code). Values below 1e-6 use double precision.
        text_weight: weight of the class names' evidence, -log of their probabilities, in the cost of a query; no effect
            without class names. None: min(1, 0.1 beta / n) with n labelled examples per class.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "optional"

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
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def __post_init__(self) -> None:
        validate(self)
        check(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "SLKBO":
        """The settings of the public code for this method; that code does not run."""
        return cls(**{**PUBLISHED, "sigma_rule": "published", **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the iterations are outer steps, the trace holds R after each of them."""
        episodes = episodes.transformed(self.transform)
        points = points_of(episodes, shift=self.shift)
        near = Neighbours.of(episodes, points, self.neighbours, include_self=self.include_self)
        prototypes = ByProductModes(points, near.variance(self.sigma_rule), self.beta)
        return cluster(self, episodes, prototypes, near.terms(self), "hard")
