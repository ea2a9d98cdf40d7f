"""Projection onto the probability simplex."""

import torch
from torch import Tensor


def project(values: Tensor) -> Tensor:
    """(T, K, N) Euclidean projection of values (T, K, N) onto the simplex {s >= 0, sum_k s_k = 1} over dimension 1.

    s = max(v - threshold, 0), with the unique threshold for which the sum is 1. Michelot's iteration (1986) computes it
    as the mean over the remaining entries, in at most K rounds and usually in a few; each is a pass over the values,
    whereas a sort would take log K. Entries more than 1 below the largest are always 0 and are excluded first, which
    avoids cancellation.
    """
    values = (values - values.amax(dim=1, keepdim=True)).clamp_min_(-1)
    threshold = (values.sum(dim=1, keepdim=True) - 1) / values.shape[1]
    while True:
        left = values > threshold
        higher = ((values * left).sum(dim=1, keepdim=True) - 1) / left.sum(dim=1, keepdim=True)
        if not bool((higher > threshold).any()):
            return (values - threshold).clamp_min_(0)
        threshold = torch.maximum(
            threshold, higher
        )  # rounding must not restore entries, or the iteration would not terminate
