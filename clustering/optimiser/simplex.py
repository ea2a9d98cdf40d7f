"""Projection on the simplex."""

import torch
from torch import Tensor


def project(values: Tensor) -> Tensor:
    """(T, K, N) the points of the simplex {s >= 0, sum_k s_k = 1} over dimension 1 nearest to values (T, K, N).

    s = max(v - threshold, 0), with the one threshold for which the sum is 1. Michelot's iteration (1986) finds it, as a
    mean over the entries that are left, in K rounds at most and in a few as a rule; each is a pass over the values,
    where a sort would take log K. Entries more than 1 below the largest are 0 anyway: so nothing drowns in rounding.
    """
    values = (values - values.amax(dim=1, keepdim=True)).clamp_min_(-1)
    threshold = (values.sum(dim=1, keepdim=True) - 1) / values.shape[1]
    while True:
        left = values > threshold
        higher = ((values * left).sum(dim=1, keepdim=True) - 1) / left.sum(dim=1, keepdim=True)
        if not bool((higher > threshold).any()):
            return (values - threshold).clamp_min_(0)
        threshold = torch.maximum(threshold, higher)  # rounding may not bring entries back, or this would not end
