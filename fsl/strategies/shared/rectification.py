"""Rectified prototypes: class means of the support and of the queries most similar to the class (Liu, Song and Qin
2020; used by LaplacianShot, thesis section 4.3.4)."""

from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Points, cosines
from fsl.episodes import Episodes

Normalisation = Literal["weights", "count", "unit"]

SupportLabels = Literal["given", "predicted"]
"""Support points join their given class, or, like queries, the most similar one ("predicted", public code)."""


def rectified_means(
    episodes: Episodes,
    points: Points,
    *,
    temperature: float = 10.0,
    normalisation: Normalisation = "weights",
    support_labels: SupportLabels = "given",
) -> Tensor:
    """(B, K, S + Q) coefficients of the rectified prototypes over the points.

    Every point joins the class of the prototype with the highest cosine, with weight
    w_pk = softmax_k(temperature cos(x_p, m_k)).

    Args:
        episodes: the tasks.
        points: their points, shifted or not.
        temperature: factor of the cosine: 10 in the public code, 1 as printed in the thesis.
        normalisation: divide a class's weighted sum by its "weights", or by the "count" of its members (published; this
            shortens the prototypes of uncertain classes), or scale the prototype to a "unit" vector.
        support_labels: support points join their "given" class, or the "predicted" one like queries (public code). A
            class left without members keeps its support mean.
    """
    cosine = cosines(points, episodes.class_means)
    members = likeliest(episodes, cosine, support_labels)
    weights = torch.softmax(temperature * cosine, dim=1).mul_(members)
    if normalisation == "weights":
        scale = weights.sum(dim=2, keepdim=True)
    elif normalisation == "count":
        scale = members.sum(dim=2, keepdim=True)
    else:
        scale = (points.inner(weights) * weights).sum(dim=2, keepdim=True).clamp_min(0).sqrt()
    weights /= scale.clamp_min(1e-12)
    if support_labels == "given":  # each class has its support points as members
        return weights
    alone = members.sum(dim=2, keepdim=True) == 0
    return torch.where(alone, episodes.class_means, weights)


def likeliest(episodes: Episodes, likeness: Tensor, support_labels: SupportLabels = "given") -> Tensor:
    """(B, K, S + Q) one-hot most similar class of each point; ties go to the lowest class; 0 in padded rows.

    Args:
        episodes: the tasks.
        likeness: (B, K, S + Q) similarities of the points to the classes.
        support_labels: see `SupportLabels`.
    """
    members = torch.eq(likeness, likeness.amax(dim=1, keepdim=True), out=torch.empty_like(likeness))
    if members.sum(dim=1).amax() > 1:  # a tie
        members *= members.cumsum(dim=1) == 1
    if episodes.support_mask is not None or episodes.query_mask is not None:
        members *= episodes.valid[:, None]
    if support_labels == "given":
        members[:, :, : episodes.support_size] = episodes.support_one_hot.mT
    return members
