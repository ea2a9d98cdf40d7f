"""K-modes with known support (Ziko, Boudiaf, Dolz, Granger and Ben Ayed 2021, journal section 2.1)."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.alternation import Members
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.constrained_clustering import First, SigmaRule, SupportClamp
from fsl.strategies.slk_ms import SLKMS
from fsl.transforms import Transform


@dataclass(frozen=True)
class KModes:
    """Support and queries are clustered around the modes of the classes: SLK-MS without its graph.

    Probabilities are softmax(beta w(x, m_k)), w(x, m) = exp(-||x - m||^2 / (2 sigma^2)): with beta = 1 close to
    uniform.

    Attributes:
        transform: per-feature transform.
        neighbours: neighbours of a point that sigma is estimated from, itself not counted (journal section 6.4 uses 3;
            its code counts the point).
        include_self: count the point among its own k neighbours, as published: k - 1 real ones.
        sigma_rule: sigma^2 is the "mean" squared distance to the neighbours (journal eq. 29), or "published": their sum
            over 5 times the number of points, 0.4 times the mean in the public code.
        shift: move the queries so that their mean is the support's (journal section 6.4). Takes the classes to be mixed
            alike in both.
        beta: factor of the kernel, an inverse temperature (1 in the papers).
        members: a point counts for the mode of its likeliest class ("hard", the public code), or for all by its
            assignments ("soft", journal eq. 18).
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

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "KModes":
        """The settings of the public code. It stops by its objective without the entropy, here R stops it."""
        published = {
            "include_self": True,
            "sigma_rule": "published",
            "clamp": "start",
            "first": "prototypes",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each step."""
        return SLKMS(weight=0, **{field.name: getattr(self, field.name) for field in fields(self)}).predict(episodes)
