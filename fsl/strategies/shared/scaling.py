"""Scaling of a task's features, channel by channel."""

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points
from fsl.episodes import LARGEST_GRAM, Episodes

_CACHED = 1 << 18
"""Numbers scaled at once: 1 MiB, so that they are still in the processor's cache when their products are taken."""

_NO_RANGE = 1e-15
"""Of the widest channel's range: what is smaller counts as none, since squares of quotients by it might overflow."""


def min_max_points(episodes: Episodes) -> Points:
    """Support and query with every channel mapped affinely so that the task's queries have range 1 (PADDLE).

    As in the public code, a channel in which all queries agree is divided by 1, and any other by its range, so that
    mere noise is made as wide as the rest. The origin is the mean of the queries, where products are rounded least; the
    public code computes x / (max - min) - min, which is a translation of it, so that all distances agree. It is no
    function of inner products: the features are read.
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
    """(b, S + Q, D) of them scaled."""
    query = features[:, support_size:]
    if valid is None:
        low, high, centre = query.amin(1, keepdim=True), query.amax(1, keepdim=True), query.mean(1, keepdim=True)
    else:
        low = query.masked_fill(~valid, torch.inf).amin(1, keepdim=True)
        high = query.masked_fill(~valid, -torch.inf).amax(1, keepdim=True)
        centre = (query * valid).sum(1, keepdim=True) / valid.sum(1, keepdim=True)
    spread = high - low
    return (features - centre).div_(torch.where(spread > _NO_RANGE * spread.amax(2, keepdim=True), spread, 1.0))
