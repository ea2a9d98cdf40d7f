"""Inner products of queries and support, for heads that compare each query with all support examples."""

from collections.abc import Callable

import torch
from torch import Tensor

from clustering.optimiser.points import Gram
from fsl.episodes import LARGEST_GRAM, Episodes

_AT_ONCE = 1 << 25
"""Inner products computed at once for tasks with many points: 128 MiB in float32."""


def by_query(episodes: Episodes, head: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """(B, K, Q) results of a head, from the inner products of support and queries.

    Args:
        episodes: the tasks.
        head: function of (B, S, q) inner products and (B, q) squared norms of the queries, which returns (B, K, q). It
            must treat each query independently, because tasks with many points are processed in parts.
    """
    support = episodes.support_size
    if support + episodes.query_size <= LARGEST_GRAM and isinstance(points := episodes.points, Gram):
        return head(points.values[:, :support, support:], points.squared_norms[:, support:])
    at_once = max(1, _AT_ONCE // (len(episodes.support_labels) * support))
    parts = torch.split(episodes.query, at_once, dim=1)
    return torch.cat([head(torch.bmm(episodes.support, part.mT), part.square().sum(2)) for part in parts], dim=2)


def support_norms(episodes: Episodes) -> Tensor:
    """(B, S) squared norms of the support."""
    if episodes.support_size + episodes.query_size <= LARGEST_GRAM:
        return episodes.points.squared_norms[:, : episodes.support_size]
    return episodes.support.square().sum(dim=2)
