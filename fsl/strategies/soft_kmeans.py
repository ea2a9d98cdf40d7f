"""Soft K-means with labelled support (Ren et al. 2018, in the form of the PADDLE benchmark, Martin et al. 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.paddle import PADDLE, Scaling
from fsl.transforms import Transform


@dataclass(frozen=True)
class SoftKMeans:
    """Rounds of y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2) and w_k the mean of support and softly assigned queries.

    PADDLE without the entropy of the proportions; its objective never rises. The scale of the features is a
    temperature: unit vectors are assigned almost evenly to all classes, and the means then meet.

    Attributes:
        transform: per-feature transform; UN in the public code.
        scaling: "min-max" maps every channel so that the task's queries span 0 to 1, as in the public code; "none".
        beta: factor of the squared distances; 1 in the public code. None is 640 / D after min-max scaling, else 1: see
            `fsl.strategies.paddle.PADDLE`.
        rounds: at most; 20 in the public configurations.
        tolerance: relative change of the objective at which a task stops; 0 goes on to rounding, as published.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "UN"
    scaling: Scaling = "min-max"
    beta: Annotated[float, Above(0)] | None = None
    rounds: Annotated[int, AtLeast(1)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-6

    def __post_init__(self) -> None:
        validate(self)

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
