"""Terms of variational fair clustering (Ziko, Yuan, Granger and Ben Ayed 2021; thesis chapter 3)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clustering.optimiser.terms import Graph


@dataclass(frozen=True)
class GroupProportions:
    """weight * sum_k KL(U || P_k), the divergence of the group proportions P_k of the clusters from their target U.

    It is computed on pseudo-counts m_jk = n_jk + mu_j e and m_k = n_k + e, so that it and its gradient stay finite when
    a group leaves a cluster; it is still exactly 0 if every cluster has the target proportions. Minimise it at
    temperature 0 with the proximal step: log m_k is concave and -mu_j log m_jk convex, so the term is neither, and its
    tangent, which the thesis prints as a bound (3.10), is not a bound.

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
        return self  # the groups belong to the points and are the same in every problem

    def _counts(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        """Pseudo-counts of each group in each cluster, (B, K, J), and of all groups, (B, K, 1)."""
        by_group = assignments.mT @ self.groups + self.target * self.pseudo_count
        return by_group, by_group.sum(dim=2, keepdim=True)


@dataclass(frozen=True)
class NormalizedCut:
    """K - sum_k S_k' W S_k / d' S_k with degrees d, which on one-hot rows is the normalised cut (thesis Table 3.1).

    Its gradient is d_p z_k - 2 (W S_k)_p / d' S_k, with z_k = S_k' W S_k / (d' S_k)^2; the thesis prints z without the
    square. The tangent is a bound only if W is positive semi-definite, which is not the case for neighbour graphs; the
    proximal step accounts for this. A cluster without volume contributes one.

    Attributes:
        graph: symmetric W, shared by all problems.
        degrees: (1, N) d, the row sums of W.
    """

    graph: Graph
    degrees: Tensor

    def value_and_gradient(self, assignments: Tensor) -> tuple[Tensor, Tensor]:
        product = self.graph @ assignments
        volumes = self._volumes(assignments)
        within = (assignments * product).sum(dim=1, dtype=torch.float64).to(volumes.dtype)
        value = (1 - within / volumes).sum(dim=1, dtype=torch.float64)
        slope = (within / volumes.square())[:, None]
        gradient = self.degrees[:, :, None] * slope - product * (2 / volumes)[:, None]
        return value, gradient

    def curvature(self, assignments: Tensor) -> Tensor:
        return self.degrees * (assignments / self._volumes(assignments)[:, None]).sum(dim=2)

    def select(self, problems: Tensor) -> "NormalizedCut":
        return self

    def _volumes(self, assignments: Tensor) -> Tensor:
        """(B, K) d' S_k."""
        volumes = (self.degrees[:, :, None] * assignments).sum(dim=1, dtype=torch.float64)
        return volumes.clamp_min(torch.finfo(assignments.dtype).tiny ** 0.5).to(assignments.dtype)
