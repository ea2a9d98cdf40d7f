"""The fairness term as a function of the counts of C cells in K clusters, independent of how points are stored."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairness.groups import Groups
from fairness.metrics import FLOOR


class Reading(NamedTuple):
    """The term and its derivatives at some counts, float64.

    Attributes:
        value: () weight R_e >= 0.
        size: () sum of the absolute summands of the value, which bounds its rounding error.
        group_prices: (J, K) price of each cluster for a point of each group.
        prices: (C, K) the same for each cell, summed over its groups: the gradient in the assignment of a point.
        units: (C,) curvature relative to the entropy, the unit of the proximal weights.
    """

    value: Tensor
    size: Tensor
    group_prices: Tensor
    prices: Tensor
    units: Tensor


@dataclass(frozen=True)
class Penalty:
    """weight R_e with R_e = sum_k sum_j mu_j (log mu_j + log m_k - log m_jk), m_jk = n_jk + mu_j e and m_k = n_k + e.

    It is KL(U || P_k) summed over clusters and attributes; `fairness.optimiser.terms.GroupProportions` is the same for
    one attribute. The pseudo-count e keeps the term finite when a group leaves a cluster. The gradient is equal for all
    points of a cell. Along a segment it is smooth relative to the entropy, with constant mu_j / m_jk at the lowest
    count on the segment, summed over the groups of a cell.

    Attributes:
        membership: (C, J) 1 for the groups of a cell.
        target: (J,) mu.
        attributes: number of attributes A.
        weight: >= 0.
        pseudo_count: e > 0, in points.
    """

    membership: Tensor
    target: Tensor
    attributes: int
    weight: float
    pseudo_count: float = 1e-3

    @classmethod
    def of(cls, groups: Groups, weight: float, pseudo_count: float = 1e-3) -> "Penalty":
        membership, target = torch.from_numpy(groups.membership), torch.from_numpy(groups.target)
        return cls(membership, target, len(groups.attributes), weight, pseudo_count)

    def weighing(self, weight: float) -> "Penalty":
        """The same term with another weight."""
        return replace(self, weight=weight)

    def of_labels(self, counts: Tensor) -> float:
        """The term without pseudo-counts at counts (C, K) of labels, as in the fairness error; empty clusters do not
        count."""
        mu, sizes = self.target[:, None], counts.sum(dim=0)
        shares = (self.membership.T @ counts / sizes.clamp_min(1)).clamp_min(FLOOR)
        errors = (mu * (mu.log() - shares.log())).sum(dim=0)
        return self.weight * float(errors[sizes > 0].sum())

    def lacking(self, counts: Tensor) -> Tensor:
        """(K,) whether a cluster is empty or lacks a group, from counts (C, K) of labels."""
        present: Tensor = (self.membership.T @ counts == 0).any(dim=0)
        return present

    def at(self, counts: Tensor) -> Reading:
        """The term at counts (C, K) of the cells in the clusters."""
        # numpy has far less overhead than torch for so few numbers.
        mu, membership, n = self.target.numpy()[:, None], self.membership.numpy(), counts.numpy()
        with np.errstate(all="ignore"):  # a step that overflows is rejected by its value
            by_group = membership.T @ n + mu * self.pseudo_count
            total = n.sum(axis=0) + self.pseudo_count
            # A single logarithm, which is exactly 0 if a cluster has the target proportions.
            value = -(mu * np.log(by_group / (mu * total))).sum()
            size = (mu * np.abs(np.log(by_group))).sum() + self.attributes * np.abs(np.log(total)).sum()
            pulls = mu / by_group
            prices = self.weight * (1 / total - pulls)
            units = self.weight * (membership @ pulls.max(axis=1))
            parts = (self.weight * value, self.weight * size, prices, membership @ prices, units)
        return Reading(*map(torch.as_tensor, parts))
