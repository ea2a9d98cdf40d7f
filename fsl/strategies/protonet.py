"""The head of Prototypical Networks (Snell, Swersky and Zemel 2017)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.foundation.parameters import Above, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.simpleshot import SimpleShot
from fsl.transforms import Transform


@dataclass(frozen=True)
class ProtoNet:
    """P(k | x_q) = softmax_k( -temperature ||x_q - m_k||^2 ) with the support means m_k (eq. 2 of the paper). The paper
    trains the network with this head; on given features it is SimpleShot without a transform.

    Attributes:
        transform: per-feature transform; none in the paper.
        temperature: factor of the squared distance, 1 in the paper; the prediction does not depend on it.
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "UN"
    temperature: Annotated[float, Above(0)] = 1.0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        return SimpleShot(transform=self.transform, beta=self.temperature).predict(episodes)
