"""The head of Matching Networks (Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra 2016)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.support_products import by_query, support_norms
from fsl.transforms import Transform


@dataclass(frozen=True)
class MatchingNet:
    """Attention over the support examples, without the paper's full context embeddings, which require training.

        P(k | x_q) = sum_{s: y_s = k} softmax_s( temperature cos(x_q, x_s) )

    The softmax runs over the examples of all classes, so classes with more shots have higher probabilities.

    Attributes:
        transform: per-feature transform; the cosine depends on it only if it centres the features (CL2N).
        temperature: factor of the cosine, 1 in the paper (eq. 1 and section 2.1.1).
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "L2N"
    temperature: Annotated[float, Above(0)] = 1.0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        norms = support_norms(episodes)[..., None].clamp_min(0).sqrt()
        classes = episodes.support_one_hot.mT

        def head(products: Tensor, query_norms: Tensor) -> Tensor:
            lengths = (norms * query_norms[:, None].clamp_min(0).sqrt()).clamp_min(1e-12)
            logits = self.temperature * products / lengths
            if episodes.support_mask is not None:
                logits = logits.masked_fill(~episodes.support_mask[..., None], -torch.inf)
            return torch.bmm(classes, torch.softmax(logits, dim=1))

        probabilities = by_query(episodes, head)
        return Predictions(
            probabilities.mT, torch.zeros(len(probabilities), dtype=torch.int64, device=probabilities.device)
        )
