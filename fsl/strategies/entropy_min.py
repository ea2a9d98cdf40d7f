"""Entropy minimisation of the classifier head: on features at hand, what is left of the transductive baseline of
Dhillon, Chaudhari, Ravichandran and Soatto 2020 ("A Baseline for Few-Shot Image Classification")."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.information import maximise_information
from fsl.transforms import Transform


@dataclass(frozen=True)
class EntropyMin:
    """The head's prototypes minimise the support's cross-entropy plus the queries' mean entropy, by Adam from the
    support means on:

        mean_s( -log p_s,y_s ) + weight mean_q H(p_q),   p_ik = softmax_k( -(temperature / 2) ||x_i - w_k||^2 )

    It is not the paper's transductive fine-tuning, which moves the whole network on augmented images and starts from
    the base classes' logits. With so few small steps of the head alone, little changes.

    Attributes:
        transform: per-feature transform.
        temperature: factor of the squared distances; 15 as in TIM, whose head this is.
        weight: of the entropy, 1 in the paper (eq. 8); 0 leaves the support's cross-entropy.
        learning_rate: of Adam, 5e-5 in the paper (section 4).
        iterations: steps of Adam; 25 epochs in the paper.
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
        """The settings of the head in the public code of the alpha-TIM benchmark, which moves the network as well."""
        return cls(**{"transform": "L2N", **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss, which Adam need not lower in every step."""
        return maximise_information(
            episodes.transformed(self.transform),
            temperature=self.temperature,
            cross_entropy=1.0,
            marginal=0.0,
            conditional=self.weight,
            learning_rate=self.learning_rate,
            iterations=self.iterations,
            moments="coordinates",
        )
