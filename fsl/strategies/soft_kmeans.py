"""Soft K-means with labelled support (Ren et al. 2018, in the form of the PADDLE benchmark, Martin et al. 2022)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.paddle import PADDLE, Scaling
from fsl.transforms import Transform


@dataclass(frozen=True)
class SoftKMeans:
    """Rounds of y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2) and w_k the mean of support and softly assigned queries.

    PADDLE without the entropy of the proportions, see there why scaling is off; its objective never rises. With a small
    beta unit vectors are assigned almost evenly to all classes, and the means then meet. `as_published` has the
    settings of PADDLE's public code.

    Attributes:
        transform: per-feature transform; UN in the public code.
        scaling: None, or "min-max", which maps every channel so that the task's queries span 0 to 1 (public code).
        beta: factor of the squared distances; 1 in the public code. None is 50 times the square root of the shots, as
            of PADDLE.
        rounds: at most; 20 in the public configurations.
        tolerance: relative change of the objective at which a task stops; 0 goes on to rounding, None takes all rounds,
            as published.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    scaling: Scaling = None
    beta: Annotated[float, Above(0)] | None = None
    rounds: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] | None = 1e-6

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "SoftKMeans":
        """The settings of PADDLE's public code."""
        published = {"transform": "UN", "scaling": "min-max", "beta": 1.0, "rounds": 20, "tolerance": None}
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective."""
        paddle = PADDLE(
            transform=self.transform,
            scaling=self.scaling,
            beta=self.beta,
            weight=0.0,
            rounds=self.rounds,
            tolerance=self.tolerance,
        )
        return paddle.predict(episodes)
