"""K-means with known support (Ziko, Boudiaf, Dolz, Granger and Ben Ayed 2021, journal section 2.1)."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.alternation import Members
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.constrained_clustering import First, SupportClamp
from fsl.strategies.slk_means import SLKMeans
from fsl.transforms import Transform


@dataclass(frozen=True)
class KMeans:
    """Support and queries are clustered around the classes' means: SLK-Means without its graph.

    With hard members these are Lloyd's iterations from the support means, the support's classes kept. Probabilities are
    softmax(-beta ||x - m_k||^2).

    Attributes:
        transform: per-feature transform.
        shift: move the queries so that their mean is the support's (journal section 6.4). Takes the classes to be mixed
            alike in both.
        beta: factor of the squared distances, an inverse temperature (1 in the papers).
        members: a point counts in the mean of its likeliest class ("hard", the public code), or in all by its
            assignments ("soft", journal eq. 20; on unit-length features these are nearly uniform and so are the means).
        clamp: support points keep their class "always" (journal eq. 3), or have it at the "start" only (public code).
        first: what is updated first: the "assignments" (journal Algorithm 1) or, from the nearest support means, the
            "prototypes" (public code).
        max_iterations: outer steps at most (100 in the public code).
        tolerance: relative change of the objective at which a task stops, from its third step on (1e-4 in the public
            code); it stops too when its prototypes stay.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    shift: bool = True
    beta: Annotated[float, Above(0)] = 1.0
    members: Members = "hard"
    clamp: SupportClamp = "always"
    first: First = "assignments"
    max_iterations: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-4

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "KMeans":
        """The settings of the public code. It stops by its objective without the entropy, here R stops it."""
        published = {
            "clamp": "start",
            "first": "prototypes",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each step."""
        return SLKMeans(weight=0, **{field.name: getattr(self, field.name) for field in fields(self)}).predict(episodes)
