"""Closest support example (the 1-NN of Wang et al. 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from clustering.foundation.parameters import validate
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class Closest:
    """Each query gets the class of the closest support example.

    Attributes:
        transform: per-feature transform.
    """

    transductive: ClassVar[bool] = False  # may a prediction depend on the other queries?
    assumes_balance: ClassVar[bool] = False  # does it assume equally many queries of every class?

    transform: Transform = "CL2N"

    def __post_init__(self) -> None:
        validate(self)  # checks every field against its annotation

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities (B, Q, K) of a batch of B tasks."""
        episodes = episodes.transformed(self.transform)
        query, support = episodes.query, episodes.support
        products = torch.bmm(query, support.mT)
        distances = support.square().sum(2)[:, None] - 2 * products  # (B, Q, S), less ||query||^2
        if episodes.support_mask is not None:  # padding, where shots differ
            distances = distances.masked_fill(~episodes.support_mask[:, None], torch.inf)
        closest = distances.argmin(dim=2)
        labels = episodes.support_labels.gather(1, closest)
        probabilities = torch.nn.functional.one_hot(labels, episodes.way).to(query.dtype)
        return Predictions(probabilities, iterations=torch.zeros(len(query), dtype=torch.int64))
