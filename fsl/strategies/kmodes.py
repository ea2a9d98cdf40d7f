"""K-modes with known support (Ziko, Boudiaf, Dolz, Granger and Ben Ayed 2021, journal section 2.1)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.alternation import Members
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.constrained_clustering import First, SigmaRule, SupportClamp
from fsl.strategies.slk_ms import SLKMS
from fsl.transforms import Transform


@dataclass(frozen=True)
class KModes:
    """K-modes clustering of support and queries, with the support labels fixed: SLK-MS without its graph.

    Probabilities are softmax(beta w(x, m_k)) with w(x, m) = exp(-||x - m||^2 / (2 sigma^2)); they are close to uniform
    for beta = 1.

    Attributes:
        transform: per-feature transform.
        neighbours: number of neighbours for the estimate of sigma, without the point itself (3 in journal section 6.4,
            whose code counts the point).
        include_self: count the point among its own k neighbours, as published, which leaves k - 1 others.
        sigma_rule: sigma^2 is the "mean" squared distance to the neighbours (journal eq. 29), or "published": their sum
            divided by 5 times the number of points, which in the public code is 0.4 times the mean.
        shift: shift the queries so that their mean equals the support's (journal section 6.4). This assumes equal class
            proportions in both.
        beta: factor of the kernel, an inverse temperature (1 in the papers).
        members: each point contributes to the mode of its likeliest class ("hard", public code), or to all modes with
            its assignments as weights ("soft", journal eq. 18).
        clamp: fix the class of support points "always" (journal eq. 3), or at the "start" only (public code).
        first: update the "assignments" first (journal Algorithm 1), or the "prototypes", with each query assigned to
            the nearest support mean (public code).
        max_iterations: maximum number of outer steps (100 in the public code).
        tolerance: a task stops if the relative change of the objective is below this value, from the third step on
            (1e-4 in the public code). It also stops if its prototypes do not change.
        text_weight: weight of the class names' evidence, -log of their probabilities, in the cost of a query; no effect
            without class names. None: min(1, 0.1 beta / n) with n labelled examples per class.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "optional"

    transform: Transform = "CL2N"
    neighbours: Annotated[int, AtLeast(1)] = 3
    include_self: bool = False
    sigma_rule: SigmaRule = "mean"
    shift: bool = True
    beta: Annotated[float, Above(0)] = 1.0
    members: Members = "hard"
    clamp: SupportClamp = "always"
    first: First = "assignments"
    max_iterations: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-4
    text_weight: Annotated[float, AtLeast(0)] | None = None

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "KModes":
        """The settings of the public code, whose stopping rule omits the entropy from the objective; here R is used."""
        published = {
            "include_self": True,
            "sigma_rule": "published",
            "clamp": "start",
            "first": "prototypes",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each step."""
        return SLKMS(weight=0, **vars(self)).predict(episodes)
