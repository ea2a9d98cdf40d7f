"""Scaling of the channels of a task's features."""

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points
from fsl.episodes import LARGEST_GRAM, Episodes

_CACHED = 1 << 18
"""Values scaled at once: 1 MiB, so that they are still in the processor's cache when their products are computed."""

_NO_RANGE = 1e-15
"""Ranges below this fraction of the widest channel's range count as 0, because the squared quotients might overflow."""


def min_max_points(episodes: Episodes) -> Points:
    """Support and queries with each channel divided by the range of the task's queries (PADDLE).

    As in the public code, constant channels are not divided; noise in a channel is scaled to the same range as the
    others. The origin is the mean of the queries, which minimises rounding errors of inner products. The public code
    computes x / (max - min) - min, which differs by a translation and has the same distances. The scaling needs the
    features; inner products are not sufficient.
    """
    features = episodes.features
    tasks, size, dimension = features.shape
    gram = size <= LARGEST_GRAM
    out = features.new_empty(tasks, size, size if gram else dimension)
    at_once = tasks if features.is_cuda else max(1, _CACHED // (size * dimension))
    valid = None if episodes.query_mask is None else episodes.query_mask[..., None]
    for first in range(0, tasks, at_once):
        block = slice(first, first + at_once)
        scaled = _min_max(features[block], episodes.support_size, None if valid is None else valid[block])
        if gram:
            torch.bmm(scaled, scaled.mT, out=out[block])
        else:
            out[block] = scaled
    return Gram(out) if gram else Features(out)


def _min_max(features: Tensor, support_size: int, valid: Tensor | None) -> Tensor:
    """(b, S + Q, D) scaled features."""
    query = features[:, support_size:]
    if valid is None:
        low, high, centre = query.amin(1, keepdim=True), query.amax(1, keepdim=True), query.mean(1, keepdim=True)
    else:
        low = query.masked_fill(~valid, torch.inf).amin(1, keepdim=True)
        high = query.masked_fill(~valid, -torch.inf).amax(1, keepdim=True)
        centre = (query * valid).sum(1, keepdim=True) / valid.sum(1, keepdim=True)
    spread = high - low
    return (features - centre).div_(torch.where(spread > _NO_RANGE * spread.amax(2, keepdim=True), spread, 1.0))
