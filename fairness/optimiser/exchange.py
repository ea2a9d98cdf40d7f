"""Proposals for moving prototypes: points of the data that may replace a prototype which serves its cluster badly.

A prototype seeded at an outlier has a cluster of a few points, which may lack a group at any weight, and medoids have
many local optima. Candidates are ranked by the cost of all points at the current group prices, as in a step of PAM
(Kaufman and Rousseeuw 1990); the best must then be tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.foundation.streams import stream
from fairness.optimiser.points import Points
from fairness.optimiser.prototypes import Rule

_LEAST, _COSTS = 32, 1 << 21
"""Minimum number of candidates, and number of costs to compute if few points and clusters allow more candidates."""

_MOVED = 16
"""Maximum number of prototypes that are moved together."""

_ALTERNATIVES = 3
"""Maximum number of proposals after the first."""


class Proposal(NamedTuple):
    """Prototypes (K, D), and prices (C, K) of the C cells in each cluster for the first assignment of the points."""

    prototypes: Tensor
    prices: Tensor


@dataclass(frozen=True)
class Exchange:
    """Proposals for the prototypes of a set of points.

    Attributes:
        points: the data.
        rule: rule of the prototypes.
    """

    points: Points
    rule: Rule

    @property
    def swaps(self) -> int:
        """Maximum number of exchanges of prototypes whose clusters lack no group: two per prototype if there are few
        points."""
        if not self.rule.are_points:
            return 0
        return min(2 * self.points.clusters, 2 * _COSTS // (self.points.count * self.points.clusters))

    def relocations(
        self, prototypes: Tensor, prices: Tensor, lacking: Tensor, sizes: Tensor, draw: int
    ) -> Iterator[Proposal]:
        """Proposals that move the prototypes of clusters that lack a group: all of them together, then one by one.

        Args:
            prototypes: (K, D).
            prices: (C, K).
            lacking: (K,) bool, whether the cluster lacks a group.
            sizes: (K,) cluster sizes.
            draw: index of the draw of candidates.
        """
        candidates = self._candidates(draw)
        nearest = torch.cdist(candidates.double().cpu(), prototypes.double().cpu()).argmin(dim=1)
        candidates = candidates[~lacking[nearest].to(candidates.device)]  # such a cluster serves only its own points
        if not len(candidates):
            return
        free = torch.where(lacking.to(prices.device), 0.0, prices)  # prices of tiny clusters carry no information
        scattered = lacking.nonzero()[:, 0].tolist()
        scattered = sorted(scattered, key=lambda k: (float(sizes[k]), k))[:_MOVED]
        for clusters in [scattered] if len(scattered) == 1 else [scattered, *([k] for k in scattered[:_ALTERNATIVES])]:
            moved = prototypes.clone()
            for k in clusters:
                totals = self._paid(moved, free, candidates)[:, k]
                moved[k] = candidates[int(totals.argmin())].to(moved)
            yield Proposal(moved, free)

    def swapped(self, prototypes: Tensor, prices: Tensor, draw: int) -> Iterator[tuple[float, Proposal]]:
        """Yield (cost, proposal) pairs that replace one prototype (K, D) by a candidate, lowest cost at prices (C, K)
        first."""
        candidates = self._candidates(draw)
        totals = self._paid(prototypes, prices, candidates)
        least = totals.flatten().topk(min(1 + _ALTERNATIVES, totals.numel()), largest=False)
        for value, index in zip(least.values.tolist(), least.indices.tolist(), strict=True):
            moved = prototypes.clone()
            moved[index % totals.shape[1]] = candidates[index // totals.shape[1]].to(moved)
            yield value, Proposal(moved, prices)

    def _candidates(self, draw: int) -> Tensor:
        count = max(_LEAST, _COSTS // (self.points.count * self.points.clusters))
        drawn = stream(0, "fair exchange", draw).permutation(self.points.count)[:count]
        return self.points.rows_at(torch.from_numpy(drawn))

    def _paid(self, prototypes: Tensor, prices: Tensor, candidates: Tensor) -> Tensor:
        """(n, K) costs on the CPU."""
        return self.points.exchanged(
            self.rule.cost(prototypes), prices, self.rule.cost(candidates), len(candidates)
        ).cpu()
