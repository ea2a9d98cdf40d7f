"""The fairness term of variational fair clustering (Ziko, Yuan, Granger and Ben Ayed 2021; thesis chapter 3)."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GroupProportions:
    """weight * sum_k KL(U || P_k): how far the group proportions P_k of the clusters are from their target U.

    Computed on pseudo-counts, m_jk = n_jk + mu_j e and m_k = n_k + e, so that it and its gradient stay finite when a
    group leaves a cluster; it is still 0 exactly where every cluster has the target proportions. Minimise it at
    temperature 0, where it needs the proximal step: it is convex, and the bound printed in the thesis (3.10) is not
    one.

    Attributes:
        groups: (N, J) one-hot group of each point.
        target: (J,) proportions mu, positive, sum 1.
        weight: >= 0, multiplies the sum over clusters.
        pseudo_count: e > 0, in points.
    """

    groups: Tensor
    target: Tensor
    weight: float
    pseudo_count: float = 1e-3

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        by_group, total = self._counts(assignments)
        divergence = self.target.log() + total.log() - by_group.log()
        value = self.weight * (self.target * divergence).sum((1, 2), dtype=torch.float64)
        gradient = self.weight * (1 / total - self.target / by_group)  # (B, K, J)
        return value, (gradient @ self.groups.mT).mT

    def curvature(self, assignments: Tensor) -> Tensor:
        by_group, _ = self._counts(assignments)
        return self.weight * (self.target / by_group).amax(dim=1) @ self.groups.mT

    def select(self, problems: Tensor) -> "GroupProportions":
        return self  # the groups are those of the points, the same in every problem

    def _counts(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        """Pseudo-counts of each group in each cluster, (B, K, J), and of all, (B, K, 1)."""
        by_group = assignments.mT @ self.groups + self.target * self.pseudo_count
        return by_group, by_group.sum(dim=2, keepdim=True)
