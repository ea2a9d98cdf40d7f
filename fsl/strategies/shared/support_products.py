"""Inner products of the queries with the support, for heads that compare a query with every support example."""

from collections.abc import Callable

import torch
from torch import Tensor

from clustering.optimiser.points import Gram
from fsl.episodes import LARGEST_GRAM, Episodes

_AT_ONCE = 1 << 25
"""Inner products at a time where there are many points: 128 MiB in float32."""


def by_query(episodes: Episodes, head: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A head's (B, K, Q) results from the inner products of the support with the queries.

    Args:
        episodes: the tasks.
        head: from (B, S, q) inner products and the (B, q) squared norms of the queries to (B, K, q), each query by
            itself. Where there are many points it is given some queries at a time.
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
