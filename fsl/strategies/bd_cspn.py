"""BD-CSPN: support means rectified by the queries that look like them (Liu, Song and Qin 2020, "Prototype Rectification
for Few-Shot Learning")."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from clustering.parameters import Above, AtLeast, validate
from clustering.points import cosines, squared_distances
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class BDCSPN:
    """The queries are moved so that their mean is the support's, every point joins the class of the support mean with
    the highest cosine, and a class's prototype becomes the weighted sum of its members.

        m'_k = sum_{p in members(k)} w_pk x_p,   w_pk = exp(temperature cos(x_p, m_k)) / normaliser

    The paper's words leave the normaliser open: public code sums over the members of the class, or over the classes
    and then divides by the number of members. By cosine, only the second kind of weight differs.

    Attributes:
        transform: per-feature transform.
        shift: move the queries so that their mean is the support's. Takes the classes to be mixed alike in both.
        temperature: factor of the cosine in the weights and in the probabilities, 10 in the paper's experiments.
        weights: normalised over the "members" of a class, or over the "classes" and divided by the count of members
            (public code of the alpha-TIM benchmark).
        confident: let only the most similar queries of each class join, at most so many; null for all. The paper
            speaks of 8, public code takes all.
        support_labels: support points join their "given" class, or the "predicted" one like any query (public code).
            A class that then has no member keeps its support mean.
        metric: "cosine" (paper) or "euclidean" (public code) to the rectified prototypes.
        classified: the "shifted" queries, or the "original" ones (public code), in the last step.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = False

    transform: Transform = "CL2N"
    shift: bool = True
    temperature: Annotated[float, Above(0)] = 10.0
    weights: Literal["members", "classes"] = "members"
    confident: Annotated[int, AtLeast(1)] | None = None
    support_labels: Literal["given", "predicted"] = "given"
    metric: Literal["cosine", "euclidean"] = "cosine"
    classified: Literal["shifted", "original"] = "shifted"

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "BDCSPN":
        """The settings of the public code of the alpha-TIM benchmark (Veilleux et al. 2021), whose tables show it."""
        published = {
            "weights": "classes",
            "support_labels": "predicted",
            "metric": "euclidean",
            "classified": "original",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries, softmax of temperature x cosine or of minus the squared distance."""
        episodes = episodes.transformed(self.transform)
        points = episodes.shifted_points if self.shift else episodes.points
        prototypes = self._rectified(episodes, cosines(points, episodes.class_means))
        if self.shift and self.classified == "original":
            prototypes, points = _over_original_points(episodes, prototypes), episodes.points
        if self.metric == "cosine":
            logits = self.temperature * cosines(points, prototypes)
        else:
            logits = -squared_distances(points, prototypes)
        probabilities = torch.softmax(logits[:, :, episodes.support_size :], dim=1).mT
        return Predictions(probabilities, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))

    def _rectified(self, episodes: Episodes, cosine: Tensor) -> Tensor:
        """(B, K, S + Q) coefficients of the rectified prototypes, from the (B, K, S + Q) cosines to the means."""
        joined = cosine.max(dim=1).indices
        if self.support_labels == "given":
            joined = torch.cat([episodes.support_labels, joined[:, episodes.support_size :]], dim=1)
        classes = torch.arange(episodes.way, device=joined.device)
        members = (joined[:, None] == classes[:, None]) & episodes.valid[:, None]
        if self.confident is not None and self.confident < episodes.query_size:
            members[:, :, episodes.support_size :] &= self._most_similar(
                cosine[:, :, episodes.support_size :], members[:, :, episodes.support_size :]
            )
        if self.weights == "members":
            likeness = (self.temperature * cosine).masked_fill(~members, -torch.inf)
            highest = likeness.amax(dim=2, keepdim=True).clamp_min(-self.temperature * 2)  # finite without members
            weights = (likeness - highest).exp()
            scale = weights.sum(dim=2, keepdim=True)
        else:
            weights = torch.softmax(self.temperature * cosine, dim=1) * members
            scale = members.sum(dim=2, keepdim=True)
        if self.support_labels == "given":  # so that no class is without a member
            return weights / scale
        alone = ~members.any(dim=2, keepdim=True)
        return torch.where(alone, episodes.class_means, weights / scale.clamp_min(1e-12))

    def _most_similar(self, cosine: Tensor, members: Tensor) -> Tensor:
        """(B, K, Q) bool, the `confident` members with the highest cosine of each class, ties to the lowest index."""
        order = cosine.masked_fill(~members, -torch.inf).sort(dim=2, descending=True, stable=True).indices
        return torch.zeros_like(members).scatter_(2, order[:, :, : self.confident], True)


def _over_original_points(episodes: Episodes, coefficients: Tensor) -> Tensor:
    """Coefficients over the points as they were, of prototypes that are given over the shifted ones."""
    support, query = episodes.valid.to(coefficients.dtype).tensor_split([episodes.support_size], dim=1)
    step = torch.cat([support / support.sum(1, keepdim=True), -query / query.sum(1, keepdim=True)], dim=1)
    mass = coefficients[:, :, episodes.support_size :].sum(dim=2, keepdim=True)
    return coefficients + mass * step[:, None]
