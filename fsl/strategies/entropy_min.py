"""Entropy minimisation of the classifier head: the transductive baseline of Dhillon, Chaudhari, Ravichandran and Soatto
2020 ("A Baseline for Few-Shot Image Classification"), restricted to fixed features."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.information import maximise_information
from fsl.transforms import Transform


@dataclass(frozen=True)
class EntropyMin:
    """The prototypes of the head minimise the support's cross-entropy plus the mean entropy of the queries, by Adam
    from the support means:

        mean_s( -log p_s,y_s ) + weight mean_q H(p_q),   p_ik = softmax_k( -(temperature / 2) ||x_i - w_k||^2 )

    The paper's transductive fine-tuning differs: it trains the whole network on augmented images, and starts from the
    logits of the base classes. A few small steps of the head change the predictions little.

    Attributes:
        transform: per-feature transform.
        temperature: factor of the squared distances; 15 as in TIM, which has the same head.
        weight: weight of the entropy; 1 in the paper (eq. 8). 0 leaves the support's cross-entropy only.
        learning_rate: Adam's step size; 5e-5 in the paper (section 4).
        iterations: Adam's steps; 25 epochs in the paper.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    temperature: Annotated[float, Above(0)] = 15.0
    weight: Annotated[float, AtLeast(0)] = 1.0
    learning_rate: Annotated[float, Above(0)] = 5e-5
    iterations: Annotated[int, AtLeast(0)] = 25

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "EntropyMin":
        """The head's settings in the alpha-TIM benchmark's public code, which trains the network as well."""
        return cls(**{"transform": "L2N", **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss, which may increase in single steps of Adam."""
        return maximise_information(
            episodes,
            transform=self.transform,
            temperature=self.temperature,
            cross_entropy=1.0,
            marginal=0.0,
            conditional=self.weight,
            learning_rate=self.learning_rate,
            iterations=self.iterations,
            moments="coordinates",
        )
