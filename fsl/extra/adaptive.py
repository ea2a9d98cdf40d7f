"""Transduction with class names that adapts to the number of classes in the batch."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.extra.text_mixture import TextMixture
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.shared.method import Method
from fsl.strategies.transclip import TransCLIP
from fsl.transforms import Transform


@dataclass(frozen=True)
class Adaptive(Method):
    """Own method, not from a paper: `text_mixture` if the queries use few of the named classes, `transclip` if they use
    most of them, and `laplacianshot` if the class names say little.

    No single method is good in both cases: TransCLIP loses up to 30 points if few classes are present, and the methods
    that expect this lose up to 15 if all are. Which case applies is estimated from the queries: with the proportions u
    of the classes by `text_mixture`, exp(H(u)) is the effective number of classes. It is close to the number of classes
    that are present, and lower only if many classes have a few queries each. Above `occupancy` times K, `transclip` is
    used.

    If the names are right for less than half of the queries, `text_mixture` may lose many points. Therefore, where it
    finds few classes but the mean probability of the likeliest class by name is below `confidence`, `laplacianshot` is
    used, which stays close to zero-shot.

    `occupancy` was chosen on WHU-RS19 with three networks (CLIP RN50, CLIP ViT-B/32, GeoRSCLIP), for batches of 64 with
    1 to 4, 2 to 10 and all 19 classes, and for the whole set. See docs/methods/class_names.md for all figures.

    Attributes:
        occupancy: share of the named classes that must be in use for `transclip`, from 0 to 1.
        confidence: mean probability of the likeliest class by name below which `laplacianshot` is used instead of
            `text_mixture`, from 0 (never) to 1. It was chosen on features of DTD and UCF101 with simulated class names.
        text_weight: weight of -log yhat in `text_mixture`; `transclip` uses half of it.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    occupancy: ClassVar[float] = 0.45
    confidence: ClassVar[float] = 0.4

    text_weight: Annotated[float, AtLeast(0)] = 1.0

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries. There is no trace, since two objectives are minimised."""
        episodes = episodes.transformed(self.transform)
        few = TextMixture(text_weight=self.text_weight).predict(episodes)
        most = effective_classes(few.probabilities, episodes) > self.occupancy * episodes.way
        if not bool(most.all()):
            safe = ~most & (confidence(episodes) < self.confidence)
            if bool(safe.any()):
                near = LaplacianShot(transform=self.transform, weight=1.0, n_neighbors=3, text_weight=self.text_weight)
                few = chosen(safe, near.predict(episodes), few)
        if not bool(most.any()):
            return few._replace(trace=None)
        many = TransCLIP(text_weight=0.5 * self.text_weight).predict(episodes)
        return chosen(most, many, few)


def chosen(which: Tensor, first: Predictions, second: Predictions) -> Predictions:
    """The first predictions for the tasks `which` (B,), after the second, and the second for the others."""
    probabilities = torch.where(which[:, None, None], first.probabilities, second.probabilities)
    if first.iterations is None or second.iterations is None:
        return Predictions(probabilities)
    return Predictions(probabilities, second.iterations + torch.where(which, first.iterations, 0))


def confidence(episodes: Episodes) -> Tensor:
    """(B,) mean probability of the likeliest class of a query by name."""
    counted = episodes.valid[:, episodes.support_size :].to(episodes.dtype)
    likeliest = episodes.log_prior.amax(dim=2).exp()
    mean: Tensor = (likeliest * counted).sum(dim=1) / counted.sum(dim=1)
    return mean


def effective_classes(probabilities: Tensor, episodes: Episodes) -> Tensor:
    """(B,) effective number of classes of the queries, exp(H(u)) with the mean u of (B, Q, K) probabilities."""
    counted = episodes.valid[:, episodes.support_size :, None].to(probabilities.dtype)
    proportions = (probabilities * counted).sum(dim=1) / counted.sum(dim=1)
    number: Tensor = torch.special.entr(proportions).sum(dim=1).exp()
    return number
