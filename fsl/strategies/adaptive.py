"""Transduction with class names that adapts to the number of classes in the batch."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast, validate
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.text_mixture import TextMixture
from fsl.strategies.transclip import TransCLIP
from fsl.transforms import Transform


@dataclass(frozen=True)
class Adaptive:
    """`text_mixture` if the queries use few of the named classes, and `transclip` if they use most of them.

    No single method is good in both cases: TransCLIP loses up to 30 points if few classes are present, and the methods
    that expect this lose up to 15 if all are. Which case applies is estimated from the queries: with the proportions u
    of the classes by `text_mixture`, exp(H(u)) is the effective number of classes. It is close to the number of classes
    that are present, and lower only if many classes have a few queries each. Above `occupancy` times K, `transclip` is
    used.

    The threshold was chosen on WHU-RS19 with three networks (CLIP RN50, CLIP ViT-B/32, GeoRSCLIP), for batches of 64
    with 1 to 4, 2 to 10 and all 19 classes, and for the whole set. See docs/methods/class_names.md for all figures.

    Attributes:
        occupancy: share of the named classes that must be in use for `transclip`, from 0 to 1.
        text_weight: weight of -log yhat in `text_mixture`; `transclip` uses half of it.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False
    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"

    occupancy: Annotated[float, AtLeast(0)] = 0.45
    text_weight: Annotated[float, AtLeast(0)] = 1.0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries. There is no trace, since two objectives are minimised."""
        episodes = episodes.transformed(self.transform)
        few = TextMixture(text_weight=self.text_weight).predict(episodes)
        most = effective_classes(few.probabilities, episodes) > self.occupancy * episodes.way
        if not bool(most.any()):
            return few._replace(trace=None)
        many = TransCLIP(text_weight=0.5 * self.text_weight).predict(episodes)
        return Predictions(
            torch.where(most[:, None, None], many.probabilities, few.probabilities),
            few.iterations + torch.where(most, many.iterations, 0),
        )


def effective_classes(probabilities: Tensor, episodes: Episodes) -> Tensor:
    """(B,) effective number of classes of the queries, exp(H(u)) with the mean u of (B, Q, K) probabilities."""
    counted = episodes.valid[:, episodes.support_size :, None].to(probabilities.dtype)
    proportions = (probabilities * counted).sum(dim=1) / counted.sum(dim=1)
    number: Tensor = torch.special.entr(proportions).sum(dim=1).exp()
    return number
