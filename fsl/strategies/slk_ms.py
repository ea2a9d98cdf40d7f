"""SLK-MS: Laplacian K-modes by mean shift with known support labels (Ziko, Boudiaf, Dolz, Granger and Ben Ayed 2021,
journal section 2)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.graphs.dense_graph import Symmetry
from clustering.optimiser.alternation import Members
from clustering.optimiser.descent import Step
from clustering.optimiser.prototypes import Modes
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
class SLKMS:
    """K-modes clustering of support and queries, with fixed support labels and Laplacian regularisation.

    Minimises -sum_pk s_pk beta w(x_p, m_k) + <S, log S> - (weight / 2) <S, W S> alternately over the assignments S of
    the queries and the modes M (journal eqs. 11, 14 and 18), where w(x, m) = exp(-||x - m||^2 / (2 sigma^2)) and W is
    the kNN graph of support and queries. The objective is guaranteed to decrease with soft members, a warm start and
    the monotone step.

    The defaults are the correct form, with the hard members of the published tables; `as_published` has all settings of
    the public code.

    Attributes:
        transform: per-feature transform.
        weight: lambda of the update softmax(-a + lambda W S), >= 0; it multiplies the sum over neighbours. The public
            code tunes it on validation tasks from 0.05 to 1 (0.1 to 1 in journal section 6.4), per method and shot.
            0.3 was best on validation classes of mini-ImageNet (Conv-4).
        neighbours: k of the kNN graph of support and queries, also used for sigma, without the point itself (3 in
            journal section 6.4, whose code counts the point).
        graph: symmetrisation of the kNN graph; "directed" requires step="published".
        include_self: count the point among its own k neighbours, as published, which leaves k - 1 others.
        sigma_rule: sigma^2 is the "mean" squared distance to the neighbours (journal eq. 29), or "published": their sum
            divided by 5 times the number of points, which in the public code is 0.4 times the mean.
        shift: shift the queries so that their mean equals the support's (journal section 6.4). This assumes equal class
            proportions in both.
        beta: factor of the kernel, an inverse temperature. At 1, as in the papers, the costs of the classes differ so
            little that one neighbouring support point outweighs them, and fixing the support labels lowers the
            accuracy. 20 worked well on validation classes of mini-ImageNet (Conv-4).
        members: each point contributes to the mode of its likeliest class ("hard", public code), or to all modes with
            its assignments as weights ("soft", journal eq. 18).
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
    weight: Annotated[float, AtLeast(0)] = 0.3
    neighbours: Annotated[int, AtLeast(1)] = 3
    graph: Symmetry = "average"
    include_self: bool = False
    sigma_rule: SigmaRule = "mean"
    shift: bool = True
    beta: Annotated[float, Above(0)] = 20.0
    members: Members = "hard"
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
    def as_published(cls, **changes: Any) -> "SLKMS":
        """The settings of the public code, whose stopping rule omits the entropy from the objective; here R is used."""
        return cls(**{**PUBLISHED, "beta": 1.0, "sigma_rule": "published", **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the iterations are outer steps, the trace holds R after each of them."""
        episodes = episodes.transformed(self.transform)
        points = points_of(episodes, shift=self.shift)
        near = Neighbours.of(episodes, points, self.neighbours, include_self=self.include_self)
        prototypes = Modes(points, near.variance(self.sigma_rule), self.beta)
        return cluster(self, episodes, prototypes, near.terms(self), self.members)
