"""Heads that compare each query with all support examples: the nearest one (the 1-NN of Wang et al. 2019,
"SimpleShot"), and Matching Networks (Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra 2016)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from clustering.foundation.parameters import Above
from clustering.lengths import unit_rows
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform


@dataclass(frozen=True)
class Nearest(Method):
    """Each query gets the class of the nearest support example; for the nearest class mean, see SimpleShot.

    The class has probability 1. If several examples are equally near, their classes share it.

    Attributes:
        transform: per-feature transform (Table 1 of the paper has all three).
    """

    transductive: ClassVar[bool] = False

    transform: Transform = "CL2N"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        distances = torch.cdist(episodes.support, episodes.query)
        if episodes.support_mask is not None:
            distances = distances.masked_fill(~episodes.support_mask[..., None], torch.inf)
        nearest = distances == distances.amin(dim=1, keepdim=True)
        shares = torch.bmm(episodes.support_one_hot.mT, nearest.to(distances.dtype)).clamp_max_(1)
        return Predictions((shares / shares.sum(dim=1, keepdim=True)).mT)


@dataclass(frozen=True)
class MatchingNet(Method):
    """Attention over the support examples, without the paper's full context embeddings, which require training.

        P(k | x_q) = sum_{s: y_s = k} softmax_s( temperature cos(x_q, x_s) )

    The softmax runs over the examples of all classes, so classes with more shots have higher probabilities.

    Attributes:
        transform: per-feature transform; the cosine depends on it only if it centres the features (CL2N).
        temperature: factor of the cosine, 1 in the paper (eq. 1 and section 2.1.1).
    """

    transductive: ClassVar[bool] = False

    transform: Transform = "L2N"
    temperature: Annotated[float, Above(0)] = 1.0

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        logits = self.temperature * torch.bmm(unit_rows(episodes.support), unit_rows(episodes.query).mT)
        if episodes.support_mask is not None:
            logits = logits.masked_fill(~episodes.support_mask[..., None], -torch.inf)
        return Predictions(torch.bmm(episodes.support_one_hot.mT, torch.softmax(logits, dim=1)).mT)
