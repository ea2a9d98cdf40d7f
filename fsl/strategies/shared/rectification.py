"""Rectified prototypes: class means of the support and of the queries most similar to the class (Liu, Song and Qin
2020; used by LaplacianShot, thesis section 4.3.4)."""

from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Points, cosines
from fsl.episodes import Episodes


def rectified_means(
    episodes: Episodes,
    points: Points,
    *,
    temperature: float = 10.0,
    divisor: Literal["weights", "count"] = "weights",
    joins: Literal["given", "predicted"] = "given",
) -> Tensor:
    """(B, K, S + Q) coefficients of the rectified prototypes over the points.

    Every point joins the class of the prototype with the highest cosine, with weight
    w_pk = softmax_k(temperature cos(x_p, m_k)).

    Args:
        episodes: the tasks.
        points: their points, shifted or not.
        temperature: factor of the cosine: 10 in the public code, 1 as printed in the thesis.
        divisor: divide a class's weighted sum by its "weights", or by the "count" of its members (published; this
            shortens the prototypes of uncertain classes).
        joins: support points join their "given" class, or, like queries, the most similar one ("predicted", public
            code); ties go to the lowest class. A class left without members keeps its support mean.
    """
    cosine = cosines(points, episodes.class_means)
    members = torch.eq(cosine, cosine.amax(dim=1, keepdim=True), out=torch.empty_like(cosine))
    if members.sum(dim=1).amax() > 1:  # a tie
        members *= members.cumsum(dim=1) == 1
    if episodes.support_mask is not None or episodes.query_mask is not None:
        members *= episodes.valid[:, None]
    if joins == "given":
        members[:, :, : episodes.support_size] = episodes.support_one_hot.mT
    weights = torch.softmax(temperature * cosine, dim=1).mul_(members)
    scale = (weights if divisor == "weights" else members).sum(dim=2, keepdim=True)
    weights /= scale.clamp_min(1e-12)
    if joins == "given":  # each class has its support points as members
        return weights
    alone = members.sum(dim=2, keepdim=True) == 0
    return torch.where(alone, episodes.class_means, weights)
