"""The prototype rules of `clustering.optimiser.centres` for rows in blocks: sums are added over the blocks, and best
points are chosen among the best points of the blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from clustering.blocks.descent import Moved
from clustering.blocks.rows import BlockRows
from clustering.optimiser.centres import ByProductModes, Means, Modes, Rows, Rule, ascend, members_of
from clustering.optimiser.prototypes import log_odds

if TYPE_CHECKING:
    from distributed import Future

Weights = list["Future"]
"""For each block, the task that returns the weights (1, K, n) of its points in the prototypes."""


@dataclass(frozen=True)
class BlockRule:
    """A prototype rule for rows in blocks.

    Attributes:
        rows: all points.
        of: picklable function that returns the rule for the rows of one block. Medoids are not supported, since they
            need pairs of points.
    """

    rows: BlockRows
    of: Callable[[Rows], Rule]

    def update(self, centres: Tensor, weights: Weights, moved: list["Future"] | None) -> Tensor:
        """(1, K, D) new prototypes, from the current ones and the weights. Each class must have a positive weight.

        Args:
            centres: (1, K, D) current prototypes.
            weights: weights of the points.
            moved: the `Moved` from which the weights were computed; None if they do not come from an assignment step.
        """
        rule = self.of(self.rows.template)
        if isinstance(rule, Means):
            return self._means(weights)
        if isinstance(rule, ByProductModes):
            return self._byproducts(centres, weights, moved)
        assert isinstance(rule, Modes)
        return self._mean_shift(rule, centres, weights)

    def _means(self, weights: Weights, problems: Tensor | None = None) -> Tensor:
        parts = self.rows.cluster.ask(_sums, self.rows.parts, weights, problems)
        sums, mass = (torch.stack(each).sum(dim=0) for each in zip(*parts, strict=True))
        means: Tensor = (sums / mass[:, None]).to(self.rows.dtype)[None]
        return means

    def _mean_shift(self, rule: Modes, centres: Tensor, weights: Weights) -> Tensor:
        ask, parts, dtype = self.rows.cluster.ask, self.rows.parts, self.rows.dtype

        def density_step(modes: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
            shifted = ask(_shifted, parts, modes, weights, chosen, rule.variance)
            sums, density = (torch.stack(each).sum(dim=0).to(dtype) for each in zip(*shifted, strict=True))
            return sums, density

        def elsewhere(chosen: Tensor) -> Tensor:
            means = self._means(weights, chosen)[0]
            sees = density_step(means, chosen)[1] > 0
            return torch.where(sees[:, None], means, self._best(ask(_nearest, parts, means, weights, chosen)))

        return ascend(centres[0], density_step, elsewhere, max_iterations=rule.steps)[None]

    def _byproducts(self, centres: Tensor, weights: Weights, moved: list["Future"] | None) -> Tensor:
        ask, parts = self.rows.cluster.ask, self.rows.parts
        if moved is None:
            return self._best(ask(_members_nearest, parts, self._means(weights), weights))[None]
        new = self._best(ask(_likeliest, parts, weights, moved))[None]
        both = torch.stack(ask(_densities, parts, torch.cat([new, centres]), weights, self.of)).sum(dim=0)
        return torch.where((both[0] >= both[1])[None, :, None], new, centres)

    def _best(self, candidates: list["Best"]) -> Tensor:
        """(A, D) the points with the highest scores; ties go to the first block."""
        scores = torch.stack([best.scores for best in candidates])
        return torch.stack([best.points for best in candidates])[
            scores.max(dim=0).indices, torch.arange(scores.shape[1])
        ]


class Best(NamedTuple):
    """The best points of a block: scores (A,) and coordinates (A, D). Ties go to the lowest index."""

    scores: Tensor
    points: Tensor

    @classmethod
    def of(cls, scores: Tensor, rows: Rows) -> "Best":
        """The best points for scores (A, n) of all points of the block."""
        best = scores.max(dim=1)
        return cls(best.values, rows.at(best.indices))


def _sums(rows: Rows, weights: Tensor, problems: Tensor | None) -> tuple[Tensor, Tensor]:
    mass = weights[0] if problems is None else weights[0][problems]
    return (rows.sums(mass).double(), mass.sum(dim=1, dtype=torch.float64))


def _shifted(rows: Rows, modes: Tensor, weights: Tensor, problems: Tensor, variance: float) -> tuple[Tensor, Tensor]:
    sums, density = rows.shifted(modes, weights[0][problems], variance)
    return (sums.double(), density.double())


def _nearest(rows: Rows, centres: Tensor, weights: Tensor, problems: Tensor) -> Best:
    squared = rows.squared_distances(centres).masked_fill_(weights[0][problems] == 0, torch.inf)
    return Best.of(-squared, rows)


def _members_nearest(rows: Rows, centres: Tensor, weights: Tensor) -> Best:
    squared = rows.squared_distances(centres).masked_fill_(~members_of(weights), torch.inf)
    return Best.of(-squared[0], rows)


def _likeliest(rows: Rows, weights: Tensor, moved: Moved) -> Best:
    members = members_of(weights)
    scores = torch.where(members, log_odds(-moved.state.G, members), -torch.inf)
    return Best.of(scores[0], rows)


def _densities(rows: Rows, modes: Tensor, weights: Tensor, rule_of: Callable[[Rows], Rule]) -> Tensor:
    """(2, K) sum_p s_pk g(x_p, m_k) for two sets of modes (2, K, D)."""
    densities: Tensor = torch.linalg.vecdot(-rule_of(rows).cost(modes), weights).double()
    return densities
