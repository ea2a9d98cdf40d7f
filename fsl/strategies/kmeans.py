"""K-means with known support (Ziko, Boudiaf, Dolz, Granger and Ben Ayed 2021, journal section 2.1)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.alternation import Members
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.constrained_clustering import First, SupportClamp
from fsl.strategies.slk_means import SLKMeans
from fsl.transforms import Transform


@dataclass(frozen=True)
class KMeans:
    """K-means clustering of support and queries, with the support labels fixed: SLK-Means without its graph.

    With hard members these are Lloyd's iterations from the support means. Probabilities are
    softmax(-beta ||x - m_k||^2).

    Attributes:
        transform: per-feature transform.
        shift: shift the queries so that their mean equals the support's (journal section 6.4). This assumes equal class
            proportions in both.
        beta: factor of the squared distances, an inverse temperature (1 in the papers).
        members: each point contributes to the mean of its likeliest class ("hard", public code), or to all means with
            its assignments as weights ("soft", journal eq. 20). For unit-length features, soft assignments are almost
            uniform, and the means almost equal.
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
    def as_published(cls, **changes: Any) -> "KMeans":
        """The settings of the public code, whose stopping rule omits the entropy from the objective; here R is used."""
        published = {
            "clamp": "start",
            "first": "prototypes",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each step."""
        return SLKMeans(weight=0, **vars(self)).predict(episodes)
