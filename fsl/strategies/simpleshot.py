"""SimpleShot: nearest support mean (Wang, Chao, Weinberger and van der Maaten 2019)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from clustering.parameters import Above, validate
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class SimpleShot:
    """Each query gets the class of the nearest support mean (thesis section 1.2.3).

    Probabilities are softmax(-beta d), d the squared Euclidean distance or 1 - cosine. The means of transformed
    features are not normalised again, so the two metrics differ for more than one shot; the thesis writes the
    cosine, the public code takes the Euclidean distance.

    Attributes:
        transform: per-feature transform.
        metric: "euclidean" or "cosine".
        beta: inverse temperature of the probabilities; the prediction does not depend on it.
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    beta: Annotated[float, Above(0)] = 1.0

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; nothing is iterated."""
        episodes = episodes.transformed(self.transform)
        one_hot = episodes.support_one_hot
        means = torch.bmm(one_hot.mT, episodes.support) / one_hot.sum(1)[..., None]
        distances = _cosine(episodes.query, means) if self.metric == "cosine" else _euclidean(episodes.query, means)
        return Predictions(
            probabilities=torch.softmax(-self.beta * distances, dim=1).mT,
            iterations=torch.zeros(len(means), dtype=torch.int64, device=means.device),
        )


def _euclidean(query: Tensor, means: Tensor) -> Tensor:
    """(B, K, Q) squared distances, less ||x_q||^2, which no class sees."""
    return means.square().sum(2)[..., None] - 2 * torch.bmm(means, query.mT)


def _cosine(query: Tensor, means: Tensor) -> Tensor:
    """(B, K, Q) 1 - cosine."""
    return 1 - torch.bmm(normalize(means, dim=2), normalize(query, dim=2).mT)
