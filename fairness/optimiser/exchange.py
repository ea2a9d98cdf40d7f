"""Other places for prototypes: points of the data that may stand in for one that serves its cluster badly.

A prototype that was seeded at an outlier has a cluster of a few points, which may lack a group however large the weight
is, and medoids have many local optima. Candidates are judged by what all points would pay at the prices of the groups
(of a step of PAM, Kaufman and Rousseeuw 1990); what comes of the best has to be tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.foundation.streams import stream
from fairness.optimiser.prototypes import Rule
from fairness.optimiser.store import Store

_LEAST, _COSTS = 32, 1 << 21
"""Candidates, and of few points and clusters more, until so many costs are computed."""

_MOVED = 16
"""Prototypes that are moved together at most."""

_ALTERNATIVES = 3
"""Proposals beside the first, at most."""


class Proposal(NamedTuple):
    """Prototypes (K, D), and prices (C, K) at which points are assigned to them at first."""

    prototypes: Tensor
    prices: Tensor


@dataclass(frozen=True)
class Exchange:
    """Proposals for the prototypes of some points.

    Attributes:
        points: the data.
        rule: of the prototypes.
    """

    points: Store
    rule: Rule

    @property
    def swaps(self) -> int:
        """How often a prototype that lacks nothing is exchanged at most: twice each, where points are few."""
        if not self.rule.are_points:
            return 0
        return min(2 * self.points.clusters, 2 * _COSTS // (self.points.count * self.points.clusters))

    def relocations(
        self, prototypes: Tensor, prices: Tensor, lacking: Tensor, sizes: Tensor, draw: int
    ) -> Iterator[Proposal]:
        """Those of clusters that lack a group elsewhere: all of them, then one by one.

        Args:
            prototypes: (K, D).
            prices: (C, K).
            lacking: (K,) bool.
            sizes: (K,) of the clusters.
            draw: which candidates.
        """
        tried = self._candidates(draw)
        apart = torch.cdist(tried.double().cpu(), prototypes.double().cpu()).argmin(dim=1)
        tried = tried[~lacking[apart].to(tried.device)]  # where they lie, these clusters serve nothing but themselves
        if not len(tried):
            return
        free = torch.where(lacking.to(prices.device), 0.0, prices)  # those of a few points say nothing
        which = lacking.nonzero()[:, 0].tolist()
        which = sorted(which, key=lambda k: (float(sizes[k]), k))[:_MOVED]
        for some in [which] if len(which) == 1 else [which, *([k] for k in which[:_ALTERNATIVES])]:
            moved = prototypes.clone()
            for k in some:
                paid = self._paid(moved, free, tried)[:, k]
                moved[k] = tried[int(paid.argmin())].to(moved)
            yield Proposal(moved, free)

    def swapped(self, prototypes: Tensor, prices: Tensor, draw: int) -> Iterator[tuple[float, Proposal]]:
        """What points would pay where one candidate stands in for one prototype, (K, D) at prices (C, K), least first,
        and that."""
        tried = self._candidates(draw)
        paid = self._paid(prototypes, prices, tried)
        least = paid.flatten().topk(min(1 + _ALTERNATIVES, paid.numel()), largest=False)
        for value, at in zip(least.values.tolist(), least.indices.tolist(), strict=True):
            moved = prototypes.clone()
            moved[at % paid.shape[1]] = tried[at // paid.shape[1]].to(moved)
            yield value, Proposal(moved, prices)

    def _candidates(self, draw: int) -> Tensor:
        count = max(_LEAST, _COSTS // (self.points.count * self.points.clusters))
        drawn = stream(0, "fair exchange", draw).permutation(self.points.count)[:count]
        return self.points.rows_at(torch.from_numpy(drawn))

    def _paid(self, prototypes: Tensor, prices: Tensor, tried: Tensor) -> Tensor:
        """(n, K), on the CPU."""
        return self.points.exchanged(self.rule.cost(prototypes), prices, self.rule.cost(tried), len(tried)).cpu()
