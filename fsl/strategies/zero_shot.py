"""Zero-shot classification by class names (Radford et al. 2021, CLIP)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform


@dataclass(frozen=True)
class ZeroShot(Method):
    """Each query gets the class whose name is most similar to it; labelled examples are not used.

    Probabilities are softmax_k(logit_scale cos(x_q, t_k)), with the features t_k of the class names, or the `prior` of
    the episodes.
    """

    transductive: ClassVar[bool] = False
    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        return Predictions(torch.softmax(episodes.log_prior, dim=2))
