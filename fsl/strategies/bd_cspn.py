"""BD-CSPN: support means rectified by the queries that look like them (Liu, Song and Qin 2020, "Prototype Rectification
for Few-Shot Learning")."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast, validate
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.rectification import SupportLabels, likeliest
from fsl.transforms import Transform


@dataclass(frozen=True)
class BDCSPN:
    """The queries are moved so that their mean is the support's, every point joins the class of the support mean with
    the highest cosine, and a class's prototype becomes the weighted sum of its members.

        m'_k = sum_{p in members(k)} w_pk x_p,   w_pk = exp(temperature cos(x_p, m_k)) / normaliser

    Of the normaliser, public code sums over the classes, and divides by the number of members, or over the members
    of the class. Over the members, a factor of 10 leaves little to any but a single support example, whose cosine
    with its own mean is 1; that reading goes with a factor of 1. On validation classes of mini-ImageNet (Conv-4,
    Conv-6) it did nearly as well as the other one with 1, and 0.2 to 3 points worse with 10.

    Attributes:
        transform: per-feature transform.
        shift: move the queries so that their mean is the support's. Takes the classes to be mixed alike in both: with
            Dirichlet proportions it cost 2 to 3 points there.
        temperature: factor of the cosine in the weights and in the probabilities, 10 in the paper's experiments.
        weights: normalised over the "classes" and divided by the count of members (public code of LaplacianShot and
            of the alpha-TIM benchmark), or over the "members" of a class.
        confident: let only the most similar queries of each class join, at most so many; null for all. The paper
            speaks of 8, which of 15 queries a class did up to 2.5 points better there; public code takes all.
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
    weights: Literal["classes", "members"] = "classes"
    confident: Annotated[int, AtLeast(1)] | None = None
    support_labels: SupportLabels = "given"
    metric: Literal["cosine", "euclidean"] = "cosine"
    classified: Literal["shifted", "original"] = "shifted"

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "BDCSPN":
        """The settings of the public code of the alpha-TIM benchmark (Veilleux et al. 2021), whose tables show it."""
        published = {
            "support_labels": "predicted",
            "metric": "euclidean",
            "classified": "original",
        }
        return cls(**{**published, **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries, softmax of temperature x cosine or of minus the squared distance."""
        episodes = episodes.transformed(self.transform)
        frame = _Frame.of(episodes, self.shift)
        prototypes = self._rectified(episodes, frame.cosines(frame.means, episodes.class_means))
        if self.classified == "original":
            frame = frame.unmoved
        inner = episodes.points.inner(prototypes)
        if self.metric == "cosine":
            logits = frame.cosines(inner, prototypes).mul_(self.temperature)
        else:
            # 2 <x, m> - ||m||^2; of ||x||^2 no class knows.
            logits = 2 * frame.inner(inner) - _along(inner, prototypes)
        probabilities = torch.softmax(logits[:, :, episodes.support_size :], dim=1).mT
        return Predictions(probabilities, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))

    def _rectified(self, episodes: Episodes, cosine: Tensor) -> Tensor:
        """(B, K, S + Q) coefficients over the points as they were, from the (B, K, S + Q) cosines to the means."""
        members = self._members(episodes, cosine)
        likeness = self.temperature * cosine
        if self.weights == "members":
            likeness = torch.where(members > 0, likeness, -3 * self.temperature)
            weights = (likeness - likeness.amax(dim=2, keepdim=True)).exp_().mul_(members)
            scale = weights.sum(dim=2, keepdim=True)
        else:
            weights = torch.softmax(likeness, dim=1).mul_(members)
            scale = members.sum(dim=2, keepdim=True)
        weights /= scale.clamp_min(1e-12)
        if self.shift:
            weights = episodes.unshifted(weights)
        if self.support_labels == "given":  # then no class is without a member
            return weights
        return torch.where(scale > 0, weights, episodes.class_means)

    def _members(self, episodes: Episodes, cosine: Tensor) -> Tensor:
        """(B, K, S + Q) 1 for the points that join a class, ties to the lowest."""
        members = likeliest(episodes, cosine, self.support_labels)
        if self.confident is not None and self.confident < episodes.query_size:
            query = members[:, :, episodes.support_size :]
            likely = cosine[:, :, episodes.support_size :].masked_fill(query == 0, -torch.inf)
            order = likely.sort(dim=2, descending=True, stable=True).indices
            query *= torch.zeros_like(query).scatter_(2, order[:, :, : self.confident], 1.0)
        return members


@dataclass(frozen=True)
class _Frame:
    """The points with the queries moved by a step, by inner products with the points as they were.

    With u_j = 1 for a query and s = sum_i d_i x_i the step, <c, x_j + u_j s> = <c, x_j> + u_j sum_i <c, x_i> d_i.

    Attributes:
        means: (B, K, M) inner products of the support means with the points as they were.
        lengths: (B, 1, M) of the points.
        unmoved_lengths: of the points as they were.
        step: (B, 1, M) coefficients d; None where nothing is moved.
        which: (M,) u.
    """

    means: Tensor
    lengths: Tensor
    unmoved_lengths: Tensor
    step: Tensor | None
    which: Tensor

    @classmethod
    def of(cls, episodes: Episodes, shift: bool) -> "_Frame":
        means, norms = episodes.class_means, episodes.points.squared_norms[:, None]
        which = torch.ones_like(norms[0, 0])
        which[: episodes.support_size] = 0
        unmoved = norms.clamp_min(0).sqrt()
        if not shift:
            return cls(episodes.points.inner(means), unmoved, unmoved, None, which)
        step = episodes.shift_step
        products = episodes.points.inner(torch.cat([means, step], dim=1))  # one product, not two
        means, along = products[:, :-1], products[:, -1:]
        norms = norms + which * (2 * along + _along(along, step))
        return cls(means, norms.clamp_min(0).sqrt(), unmoved, step, which)

    @property
    def unmoved(self) -> "_Frame":
        return _Frame(self.means, self.unmoved_lengths, self.unmoved_lengths, None, self.which)

    def inner(self, products: Tensor) -> Tensor:
        """(B, K, M) inner products with the moved points, from those with the points as they were."""
        return products if self.step is None else products + _along(products, self.step) * self.which

    def cosines(self, products: Tensor, coefficients: Tensor) -> Tensor:
        """(B, K, M) cosines of prototypes with the moved points; 0 where one of them is zero."""
        lengths = _along(products, coefficients).clamp_min(0).sqrt()
        return self.inner(products) / (lengths * self.lengths).clamp_min_(1e-12)


def _along(products: Tensor, coefficients: Tensor) -> Tensor:
    """(B, K, 1) inner products of prototypes, whose products with the points are given, with sums of points."""
    inner: Tensor = torch.linalg.vecdot(products, coefficients)
    return inner[..., None]
