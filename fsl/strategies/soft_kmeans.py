"""Soft K-means with labelled support (Ren et al. 2018, in the form of the PADDLE benchmark, Martin et al. 2022)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.paddle import PADDLE, Scaling
from fsl.transforms import Transform


@dataclass(frozen=True)
class SoftKMeans:
    """Soft K-means: alternate y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2) and w_k, the mean of the support and the
    softly assigned queries.

    This is PADDLE without the entropy of the proportions; see there for the reason why scaling is off by default. The
    objective never increases. With a small beta, unit vectors are assigned almost uniformly, and the means collapse to
    one point. `as_published` has the settings of PADDLE's public code.

    Attributes:
        transform: per-feature transform; UN in the public code.
        scaling: None, or "min-max", which scales each channel so that the task's queries range from 0 to 1 (public
            code).
        beta: factor of the squared distances; 1 in the public code. None is 50 times the square root of the shots, as
            in PADDLE.
        rounds: maximum number of rounds; 20 in the public configurations.
        tolerance: a task stops if the relative change of the objective is below this value; 0 continues to rounding
            precision, None runs all rounds, as published.
        text_weight: weight of the class names' evidence, -log of their probabilities, in the cost of a query; no effect
            without class names.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "optional"

    transform: Transform = "CL2N"
    scaling: Scaling = None
    beta: Annotated[float, Above(0)] | None = None
    rounds: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] | None = 1e-6
    text_weight: Annotated[float, AtLeast(0)] = 1.0

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "SoftKMeans":
        """The settings of PADDLE's public code."""
        published = {"transform": "UN", "scaling": "min-max", "beta": 1.0, "rounds": 20, "tolerance": None}
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective."""
        return PADDLE(weight=0.0, **vars(self)).predict(episodes)
