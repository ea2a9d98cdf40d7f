"""Heads that compare each query with all support examples: the nearest one (the 1-NN of Wang et al. 2019,
"SimpleShot"), and Matching Networks (Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra 2016)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from clustering.lengths import unit_rows
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform

_AT_ONCE = 1 << 25
"""Pairs of points compared at once in tasks with many points: 128 MiB in float32."""


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

        def head(query: Tensor) -> Tensor:
            distances = torch.cdist(episodes.support, query)
            if episodes.support_mask is not None:
                distances = distances.masked_fill(~episodes.support_mask[..., None], torch.inf)
            nearest = distances == distances.amin(dim=1, keepdim=True)
            return torch.bmm(episodes.support_one_hot.mT, nearest.to(distances.dtype)).clamp_max_(1)

        shares = by_query(episodes, head)
        return Predictions((shares / shares.sum(dim=1, keepdim=True)).mT)


@dataclass(frozen=True)
class MatchingNet(Method):
    """Attention over the support examples, without the paper's full context embeddings, which require training.

        P(k | x_q) = sum_{s: y_s = k} softmax_s( cos(x_q, x_s) )

    The softmax runs over the examples of all classes, so classes with more shots have higher probabilities.

    Attributes:
        transform: per-feature transform; the cosine depends on it only if it centres the features (CL2N).
    """

    transductive: ClassVar[bool] = False

    transform: Transform = "L2N"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        support = unit_rows(episodes.support)

        def head(query: Tensor) -> Tensor:
            logits = torch.bmm(support, unit_rows(query).mT)
            if episodes.support_mask is not None:
                logits = logits.masked_fill(~episodes.support_mask[..., None], -torch.inf)
            return torch.bmm(episodes.support_one_hot.mT, torch.softmax(logits, dim=1))

        return Predictions(by_query(episodes, head).mT)


def by_query(episodes: Episodes, head: Callable[[Tensor], Tensor]) -> Tensor:
    """(B, K, Q) results of a head, which returns (B, K, q) for (B, q, D) queries and treats each independently, so that
    tasks with many points are processed in parts."""
    at_once = max(1, _AT_ONCE // (len(episodes.support_labels) * episodes.support_size))
    return torch.cat([head(part) for part in torch.split(episodes.query, at_once, dim=1)], dim=2)
