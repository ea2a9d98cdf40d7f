"""PADDLE: soft K-means for tasks whose queries use few of the classes (Martin, Boudiaf, Chouzenoux, Pesquet and Ben
Ayed 2022), and soft K-means itself (Ren et al. 2018, in the form of the PADDLE benchmark)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast
from clustering.optimiser.descent import Descent, descend
from clustering.optimiser.objective import Term
from clustering.optimiser.points import Points, squared_distances
from clustering.optimiser.terms import ProportionEntropy, Scatter
from fsl.episodes import Episodes, Predictions, TextUse, points_of
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.transforms import Transform

TOLERANCE = 1e-6
"""Relative change of the objective at which a task stops."""

_NO_RANGE = 1e-15
"""Ranges below this fraction of the widest channel's range count as 0, because the squared quotients might overflow."""


def beta_by_shots(episodes: Episodes) -> Tensor:
    """(B, 1, 1) default of beta: 50 times the square root of the shots."""
    return 50 * episodes.shots.sqrt()


@dataclass(frozen=True)
class PADDLE(PublishedMethod):
    """Soft K-means with labelled support and a penalty on the entropy of the class proportions u.

    Minimises over the queries' assignments Y and the prototypes w (eq. 2)

        beta / 2 (sum_qk y_qk ||x_q - w_k||^2 + sum_s ||x_s - w_ys||^2) + <Y, log Y> + weight Q H(u),   u = mean_q y_q.

    A round sets y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2 + weight (log u_k + 1)) and updates the means; the first
    round uses the support means and omits the second term. With w minimised out, both parts of the objective are
    concave in Y. A round is therefore an exact bound step, and the objective never increases.

    The public code scales each channel by the range of the task's queries, which amplifies channels that contain only
    noise. On validation classes of mini-ImageNet, its 1-shot accuracy was 35 % (Conv-4) and 43 % (Conv-6), against 48
    and 51 % for SimpleShot, and 55 and 55 % for the defaults, whose beta was chosen on these classes. With 20 or more
    shots, the defaults were up to 0.6 points below SimpleShot (Conv-6). The defaults use inner products only.

    Attributes:
        transform: per-feature transform; UN in the public code.
        variant: "corrected"; or "published", which scales each channel so that the task's queries range from 0 to 1,
            and takes all rounds.
        beta: factor of the squared distances, an inverse temperature; 1 in the public code. None is 50 times the square
            root of the shots, chosen on validation classes of mini-ImageNet (Conv-4, Conv-6): better prototypes permit
            sharper assignments. With min-max scaling, the squared distances also grow with the number of channels D.
        weight: weight of the entropy of the proportions, times Q: the published lambda divided by the number of
            queries, 75 / 75. 0 is soft K-means.
    """

    text: ClassVar[TextUse] = "optional"
    published: ClassVar[Mapping[str, Any]] = {"transform": "UN", "variant": "published", "beta": 1.0}
    rounds: ClassVar[Mapping[Variant, int]] = {"corrected": 100, "published": 100}

    transform: Transform = "CL2N"
    variant: Variant = "corrected"
    beta: Annotated[float, Above(0)] | None = None
    weight: Annotated[float, AtLeast(0)] = 1.0
    text_weight: Annotated[float, AtLeast(0)] = 1.0

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective."""
        episodes = episodes.transformed(self.transform)
        published = self.variant == "published"
        descent = soft_clustering(
            episodes,
            min_max_points(episodes) if published else episodes.points,
            beta_by_shots(episodes) if self.beta is None else self.beta,
            weight=self.weight,
            rounds=self.rounds[self.variant],
            tolerance=None if published else TOLERANCE,
            text_weight=self.text_weight,
        )
        return Predictions(descent.assignments, descent.iterations + 1, descent.trace)


@dataclass(frozen=True)
class SoftKMeans(PADDLE):
    """Soft K-means: alternate y_q = softmax_k(-(beta / 2) ||x_q - w_k||^2) and w_k, the mean of the support and the
    softly assigned queries.

    This is PADDLE without the entropy of the proportions; see there for the fields, and for the reason why scaling is
    off by default. With a small beta, unit vectors are assigned almost uniformly, and the means collapse to one point.
    `as_published` has the settings of PADDLE's public code, with its 20 rounds.
    """

    weight: ClassVar[float] = 0.0  # type: ignore[misc]
    rounds: ClassVar[Mapping[Variant, int]] = {"corrected": 100, "published": 20}


def soft_clustering(
    episodes: Episodes,
    points: Points,
    beta: float | Tensor,
    *,
    weight: float,
    rounds: int,
    tolerance: float | None,
    text_weight: float,
) -> Descent:
    """The (B, Q, K) assignments of `PADDLE` after these rounds, of which the first is the start of the descent.

    Args:
        episodes: the tasks.
        points: (B, S + Q) points, in which distances are measured.
        beta: factor of the squared distances, a number or (B, 1, 1).
        weight, rounds, text_weight: as in `PADDLE`.
        tolerance: a task stops if the relative change of the objective is below this value; None: never.
    """
    distances = squared_distances(points, episodes.class_means)[:, :, episodes.support_size :]
    evidence = episodes.with_text(torch.zeros_like(distances.mT), text_weight)
    valid = None if episodes.query_mask is None else episodes.query_mask[:, None].to(episodes.dtype)
    terms: list[Term] = [Scatter(points, episodes.support_one_hot.mT, valid, beta)]
    if weight > 0:
        terms.append(ProportionEntropy(weight, valid))
    return descend(
        evidence,
        terms,
        start=torch.softmax(-0.5 * beta * distances - evidence.mT, dim=1).mT,
        clamp=episodes.padding,
        step="published",  # the terms are concave: the guard would reject no step, and costs a sixth of the time
        max_iterations=rounds - 1,
        tolerance=tolerance,
        trace=True,
    )


def min_max_points(episodes: Episodes) -> Points:
    """Support and queries with each channel divided by the range of the task's queries.

    As in the public code, constant channels are not divided; noise in a channel is scaled to the same range as the
    others. The origin is the mean of the queries, which minimises rounding errors of inner products. The public code
    computes x / (max - min) - min, which differs by a translation and has the same distances. The scaling needs the
    features; inner products are not sufficient.
    """
    features, valid = episodes.features, None if episodes.query_mask is None else episodes.query_mask[..., None]
    query = episodes.query
    if valid is None:
        low, high, centre = query.amin(1, keepdim=True), query.amax(1, keepdim=True), query.mean(1, keepdim=True)
    else:
        low = query.masked_fill(~valid, torch.inf).amin(1, keepdim=True)
        high = query.masked_fill(~valid, -torch.inf).amax(1, keepdim=True)
        centre = (query * valid).sum(1, keepdim=True) / valid.sum(1, keepdim=True)
    spread = high - low
    scaled = (features - centre).div_(torch.where(spread > _NO_RANGE * spread.amax(2, keepdim=True), spread, 1.0))
    return points_of(scaled)
