"""protoLP: prototype-based label propagation (Zhu and Koniusz 2023)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast, Within, validate
from clustering.optimiser.points import squared_distances
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.centring import Centring, centred, leading
from fsl.transforms import Transform


@dataclass(frozen=True)
class ProtoLP:
    """Label propagation on a graph of points and prototypes, alternating with updates of the prototypes. The edges are
    the assignments of an optimal transport, as in PT-MAP.

    P = Sinkhorn(exp(-beta ||x_q - m_k||^2)), row sums 1, column sums Q / K; Z = [T; P] with the support labels T
    A = (Z_s^T Z_s + gamma L)^-1 Z_s^T T, labels of the prototypes, with the Laplacian L of the graph between prototypes
    F = Sinkhorn(Z_q A), as P; m_k <- m_k + rate (mean of all points with weights mix [T; F] + (1 - mix) Z - m_k)

    The public code applies a Cholesky factorisation to the random-walk Laplacian I - Z^T Z diag(Z^T 1)^-1, which is
    symmetric only if all classes have equal mass; here the system is solved without this assumption. Both transports
    are solved to `tolerance`; the public code stops at 1e-3 and 1e-2.

    Attributes:
        transform: per-feature transform; PT as published for most features.
        dimensions: number of leading singular directions to keep.
        centring: "together" as published, "apart" or None, see `fsl.strategies.shared.centring`; then unit length.
        beta: sharpness of the transport.
        laplacian: "random_walk", or "graph", which is the symmetric Z^T Z - Z^T Z diag(Z^T 1)^-1 Z^T Z.
        gamma: weight of the Laplacian.
        mix: weight of the propagated labels in the update of the prototypes.
        rate: step size of the prototypes.
        iterations: updates of the prototypes.
        tolerance: largest error of a class's mass, relative to the number of queries.
        max_rounds: maximum number of Sinkhorn rounds.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True
    needs: ClassVar[str] = "non-negative features"

    transform: Transform = "PT"
    dimensions: Annotated[int, AtLeast(1)] = 40
    centring: Centring = "together"
    beta: Annotated[float, Above(0)] = 10.0
    laplacian: Literal["random_walk", "graph"] = "random_walk"
    gamma: Annotated[float, Above(0)] = 1.0
    mix: Annotated[float, Within(0, 1)] = 0.6
    rate: Annotated[float, Within(0, 1)] = 0.2
    iterations: Annotated[int, AtLeast(0)] = 100
    tolerance: Annotated[float, AtLeast(0)] = 1e-6
    max_rounds: Annotated[int, AtLeast(1)] = 1000

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: the last transport plan."""
        episodes = episodes.transformed(self.transform)
        points = centred(episodes, leading(episodes.points, self.dimensions), self.centring)
        support = episodes.support_one_hot.mT
        queries = episodes.valid[:, episodes.support_size :].to(episodes.dtype)
        prototypes = episodes.class_means
        norms = (points.inner(prototypes) * prototypes).sum(dim=2, keepdim=True)
        prototypes = prototypes * norms.clamp_min(1e-24).rsqrt()
        scales: list[Tensor | None] = [None, None]
        for step in range(self.iterations + 1):
            distances = squared_distances(points, prototypes)[:, :, episodes.support_size :]
            Z, scales[0] = self._transport(-self.beta * distances, queries, scales[0])
            if step == self.iterations:
                break
            assigned = torch.cat([support, Z * queries[:, None]], dim=2)
            labels = self._prototype_labels(assigned, support)
            F, scales[1] = self._transport(
                torch.bmm(labels.mT, Z).clamp_min(torch.finfo(Z.dtype).tiny).log(), queries, scales[1]
            )
            members = torch.cat([support, torch.lerp(Z, F, self.mix) * queries[:, None]], dim=2)
            prototypes = torch.lerp(prototypes, members / members.sum(dim=2, keepdim=True), self.rate)
        iterations = torch.full((len(queries),), self.iterations, dtype=torch.int64, device=queries.device)
        return Predictions(Z.mT, iterations)

    def _prototype_labels(self, assigned: Tensor, support: Tensor) -> Tensor:
        """(B, K, K) A, whose row j is the label of prototype j. Non-negative, because the system is an M-matrix."""
        together = torch.bmm(assigned, assigned.mT)
        walk = together / assigned.sum(dim=2)[:, None]
        if self.laplacian == "graph":
            laplacian = together - torch.bmm(walk, together)
        else:
            laplacian = torch.eye(len(walk[0]), dtype=walk.dtype, device=walk.device) - walk
        labelled = torch.bmm(support, support.mT)
        solved: Tensor = torch.linalg.solve(labelled + self.gamma * laplacian, labelled)
        return solved

    def _transport(self, scores: Tensor, queries: Tensor, start: Tensor | None) -> tuple[Tensor, Tensor]:
        """(B, K, Q) balanced assignments, and the scales from which the next transport starts."""
        transport = sinkhorn(
            scores.mT,
            queries,
            queries.new_ones(scores.shape[:2]),
            start=start,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
        )
        return transport.assignments.mT, transport.log_scales
