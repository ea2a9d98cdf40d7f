"""Rectified prototypes: support means drawn towards the queries that look like their class (Liu, Song and Qin 2020,
taken up by LaplacianShot, thesis section 4.3.4)."""

from typing import Literal

import torch
from torch import Tensor

from clustering.points import Points, cosines
from fsl.episodes import Episodes

Normalisation = Literal["weights", "count", "unit"]


def rectified_means(
    episodes: Episodes,
    points: Points,
    *,
    temperature: float = 10.0,
    normalisation: Normalisation = "weights",
    support_labels: Literal["given", "predicted"] = "given",
) -> Tensor:
    """(B, K, S + Q) coefficients of the rectified prototypes over the points.

    Every point joins the class of the prototype with the highest cosine, with weight
    w_pk = softmax_k(temperature cos(x_p, m_k)).

    Args:
        episodes: the tasks.
        points: their points, shifted or not.
        temperature: factor of the cosine: 10 in the public code, 1 as printed in the thesis.
        normalisation: divide a class's weighted sum by its "weights", by the "count" of its members (published; it
            shortens the prototypes of uncertain classes), or make the prototype a "unit" vector.
        support_labels: support points join their "given" class, or the "predicted" one like any query (public
            code). A class that then has no member keeps its support mean.
    """
    cosine = cosines(points, episodes.class_means)
    joined = cosine.max(dim=1).indices  # many times faster than argmax here, and ties go to the lowest class too
    if support_labels == "given":
        joined = torch.cat([episodes.support_labels, joined[:, episodes.support_size :]], dim=1)
    classes = torch.arange(episodes.way, device=joined.device)
    members = ((joined[:, None] == classes[:, None]) & episodes.valid[:, None]).to(cosine.dtype)
    weights = members * torch.softmax(temperature * cosine, dim=1)
    if normalisation == "weights":
        scale = weights.sum(dim=2, keepdim=True)
    elif normalisation == "count":
        scale = members.sum(dim=2, keepdim=True)
    else:
        scale = (points.inner(weights) * weights).sum(dim=2, keepdim=True).clamp_min(0).sqrt()
    alone = members.sum(dim=2, keepdim=True) == 0
    return torch.where(alone, episodes.class_means, weights / scale.clamp_min(1e-12))
