"""Nearest support example (the 1-NN of Wang et al. 2019, "SimpleShot")."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from clustering.foundation.parameters import validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.support_products import by_query, support_norms
from fsl.transforms import Transform


@dataclass(frozen=True)
class Nearest:
    """Each query gets the class of the nearest support example; for the nearest class mean, see SimpleShot.

    The class has probability 1. If several examples are equally near, their classes share it.

    Attributes:
        transform: per-feature transform (Table 1 of the paper has all three).
        metric: "euclidean" or "cosine"; they differ unless all features have unit length.
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    metric: Literal["euclidean", "cosine"] = "euclidean"

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        norms = support_norms(episodes)[..., None]
        classes = episodes.support_one_hot.mT

        def head(products: Tensor, _: Tensor) -> Tensor:
            if self.metric == "cosine":  # the query's own norm is the same for all examples
                distances = -products / norms.clamp_min(0).sqrt().clamp_min(1e-12)
            else:
                distances = norms - 2 * products
            if episodes.support_mask is not None:
                distances = distances.masked_fill(~episodes.support_mask[..., None], torch.inf)
            nearest = distances == distances.amin(dim=1, keepdim=True)
            return torch.bmm(classes, nearest.to(classes.dtype)).clamp_max_(1)

        shares = by_query(episodes, head)
        return Predictions(
            probabilities=(shares / shares.sum(dim=1, keepdim=True)).mT,
            iterations=torch.zeros(len(shares), dtype=torch.int64, device=shares.device),
        )
