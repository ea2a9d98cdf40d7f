"""Scaling of the channels of a task's features."""

import torch

from clustering.optimiser.points import Points
from fsl.episodes import Episodes, points_of

_NO_RANGE = 1e-15
"""Ranges below this fraction of the widest channel's range count as 0, because the squared quotients might overflow."""


def min_max_points(episodes: Episodes) -> Points:
    """Support and queries with each channel divided by the range of the task's queries (PADDLE).

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
