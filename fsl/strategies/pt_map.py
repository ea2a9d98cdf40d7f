"""Prototypes by optimal transport between queries and classes: PT-MAP (Hu, Gripon and Pateux 2021), PT-MAP on balanced
pairwise affinities (BPA, Shalam and Korman 2024, PTMAP-BPA_p in the paper), and prototype-based label propagation
(protoLP, Zhu and Koniusz 2023)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within
from clustering.optimiser.points import Points
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions, points_of
from fsl.strategies.shared.centring import Centring, centred, leading
from fsl.strategies.shared.method import Method
from fsl.strategies.shared.proportions import Proportions, class_shares
from fsl.transforms import Transform

LARGEST_DENSE = 8192
"""Maximum number of points for a dense matrix of all pairs: 256 MiB in float32."""

DIMENSIONS = 40
"""Number of leading singular directions that protoLP keeps."""

_EXCLUDED = -1e6  # score of a point with itself


@dataclass(frozen=True)
class PTMAP(Method):
    """Balanced assignments by optimal transport, alternating with updates of the prototypes. The cost of assigning a
    query to a class is the squared distance to its prototype; each class gets the same number of queries.

    P = Sinkhorn(exp(-beta ||x_q - m_k||^2)), row sums 1, column sums Q / K
    m_k <- m_k + rate (mean of support and P-weighted queries - m_k)

    The public code stops Sinkhorn if a row sum changes by less than 1e-6. Here the row sums are exact, and the column
    sums are accurate to 1e-6 of the number of queries. Each transport starts from the scales of the previous one, which
    saves time and does not change the solution.

    Attributes:
        transform: per-feature transform; the paper uses the power transform PT, which requires non-negative features.
        centring: subtract the mean of support and queries separately ("apart", as published), or their common mean
            ("together"), or None; then scale to unit length.
        beta: lambda of the paper, sharpness of the transport.
        rate: alpha of the paper, step size of the prototypes; 0.2 for balanced tasks in the public code.
        max_iter: updates of the prototypes.
        proportions: class proportions of the queries, see `fsl.strategies.shared.proportions`; None: equal ones.
    """

    assumes_balance: ClassVar[bool] = True
    needs: ClassVar[str] = "non-negative features"
    beta: ClassVar[float] = 10.0
    rate: ClassVar[float] = 0.2

    transform: Transform = "PT"
    centring: Centring = "apart"
    max_iter: Annotated[int, AtLeast(0)] = 20
    proportions: Proportions = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.proportions not in (None, "equal"):
            object.__setattr__(self, "assumes_balance", False)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: the last transport plan."""
        episodes = episodes.transformed(self.transform)
        return self.predict_from(episodes, centred(episodes, episodes.features, self.centring))

    def predict_from(self, episodes: Episodes, points: Points) -> Predictions:
        """Class probabilities from points that are already transformed and centred."""
        prototypes, first = episodes.class_means, episodes.support_size
        support, queries = labelled_and_queries(episodes)
        shares = class_shares(self.proportions, episodes)
        scales: Tensor | None = None
        for step in range(self.max_iter + 1):
            assignments, scales = self._transport(points, prototypes, queries, shares, scales)
            if step < self.max_iter:
                members = torch.addcmul(support, assignments, queries)
                prototypes = torch.lerp(prototypes, members.div_(members.sum(dim=2, keepdim=True)), self.rate)
        iterations = torch.full((len(queries),), self.max_iter, dtype=torch.int64, device=queries.device)
        return Predictions(assignments[:, :, first:].mT, iterations)

    def _transport(
        self, points: Points, prototypes: Tensor, queries: Tensor, shares: Tensor, start: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(B, K, S + Q) assignments of the queries to the prototypes, with these shares, and the scales from which the
        next transport starts. The norms are omitted, because rows and columns are rescaled."""
        transport = sinkhorn(points.inner(prototypes).mul_(2 * self.beta).mT, queries[:, 0], shares, start=start)
        return transport.assignments.mT, transport.log_scales


def labelled_and_queries(episodes: Episodes) -> tuple[Tensor, Tensor]:
    """(B, K, S + Q) one-hot labels of the support, 0 for queries; (B, 1, S + Q) 1 for queries, 0 for the support and
    padding. Transports of all points, of which some have no mass, need no copies of parts."""
    return pad(episodes.support_one_hot.mT, (0, episodes.query_size)), episodes.query_counts[:, None]


@dataclass(frozen=True)
class BPA(PTMAP):
    """PT-MAP with the affinities of each point to all points of the task as its features: an entropic transport of the
    points to themselves with cost 1 - cosine, divided by its maximum, with 1 on the diagonal.

    No parameters are trained. On WRN features trained with S2M2 on mini-ImageNet, the authors report 83.19 % for 1 shot
    and 89.56 % for 5 shots, against 82.92 % and 88.82 % for PT-MAP.

    Attributes:
        regularisation: weight of the entropy in the affinities; 0.1 to 0.2 in the public code.
    """

    regularisation: ClassVar[float] = 0.1

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: PT-MAP's last transport."""
        episodes = episodes.transformed(self.transform)
        points, valid = centred(episodes, episodes.features, self.centring), episodes.valid
        plan = self.affinities(points, valid)
        plan = plan / plan.amax(dim=(1, 2), keepdim=True).clamp_min(1e-12) + torch.diag_embed(valid.to(plan.dtype))
        return self.predict_from(episodes, points_of(plan))

    def affinities(self, points: Points, valid: Tensor) -> Tensor:
        """(B, M, M) transport plan without mass from a point to itself; symmetric, rows and columns sum to one.

        Args:
            points: (B, M) points of unit length, or zero.
            valid: (B, M) bool, False for padded points, which are excluded and become zero.

        Raises:
            InputError: there are too many points for a dense matrix.
        """
        count = valid.shape[1]
        if count > LARGEST_DENSE:
            raise InputError(
                f"affinities between {count:,} points need a dense matrix of {count**2 * 4 / 2**30:.0f} GiB; the limit "
                f"is {LARGEST_DENSE:,} points, so classify fewer queries at once"
            )
        scores = points.pairwise() / self.regularisation
        scores = scores.masked_fill(torch.eye(count, dtype=torch.bool, device=valid.device), _EXCLUDED)
        mass = valid.to(scores.dtype)
        plan = sinkhorn(scores, mass, mass).assignments
        return plan * mass[:, :, None] * mass[:, None, :]


@dataclass(frozen=True)
class ProtoLP(PTMAP):
    """Label propagation on a graph of points and prototypes, alternating with updates of the prototypes. The edges are
    the assignments of an optimal transport, as in PT-MAP.

    P = Sinkhorn(exp(-beta ||x_q - m_k||^2)), row sums 1, column sums Q / K; Z = [T; P] with the support labels T
    A = (Z_s^T Z_s + gamma L)^-1 Z_s^T T, labels of the prototypes, with the Laplacian L of the graph between prototypes
    F = Sinkhorn(Z_q A), as P; m_k <- m_k + rate (mean of all points with weights mix [T; F] + (1 - mix) Z - m_k)

    The public code applies a Cholesky factorisation to the random-walk Laplacian I - Z^T Z diag(Z^T 1)^-1, which is
    symmetric only if all classes have equal mass; here the system is solved without this assumption. Both transports
    are solved to 1e-6; the public code stops at 1e-3 and 1e-2.

    Attributes:
        centring: "together" as published, "apart" or None; then unit length.
        laplacian: "random_walk", or "graph", which is the symmetric Z^T Z - Z^T Z diag(Z^T 1)^-1 Z^T Z.
        gamma: weight of the Laplacian.
        mix: weight of the propagated labels in the update of the prototypes.
        max_iter: updates of the prototypes. For the other fields see `PTMAP`.
    """

    centring: Centring = "together"
    max_iter: Annotated[int, AtLeast(0)] = 100
    laplacian: Literal["random_walk", "graph"] = "random_walk"
    gamma: Annotated[float, Above(0)] = 1.0
    mix: Annotated[float, Within(0, 1)] = 0.6

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: the last transport plan."""
        episodes = episodes.transformed(self.transform)
        points = centred(episodes, leading(episodes.features, DIMENSIONS), self.centring)
        support, queries = labelled_and_queries(episodes)
        labelled, prototypes = torch.bmm(support, support.mT), episodes.class_means
        norms = (points.inner(prototypes) * prototypes).sum(dim=2, keepdim=True)
        prototypes = prototypes * norms.clamp_min(1e-24).rsqrt()
        shares = class_shares(self.proportions, episodes)
        scales: list[Tensor | None] = [None, None]
        for step in range(self.max_iter + 1):
            Z, scales[0] = self._transport(points, prototypes, queries, shares, scales[0])
            if step == self.max_iter:
                break
            labels = self._prototype_labels(torch.addcmul(support, Z, queries), labelled)
            likely = torch.bmm(labels.mT, Z).clamp_min_(torch.finfo(Z.dtype).tiny).log_()
            found = sinkhorn(likely.mT, queries[:, 0], shares, start=scales[1])
            F, scales[1] = found.assignments.mT, found.log_scales
            members = torch.addcmul(support, torch.lerp(Z, F, self.mix), queries)
            prototypes = torch.lerp(prototypes, members.div_(members.sum(dim=2, keepdim=True)), self.rate)
        iterations = torch.full((len(queries),), self.max_iter, dtype=torch.int64, device=queries.device)
        return Predictions(Z[:, :, episodes.support_size :].mT, iterations)

    def _prototype_labels(self, assigned: Tensor, labelled: Tensor) -> Tensor:
        """(B, K, K) A, whose row j is the label of prototype j. Non-negative, because the system is an M-matrix."""
        together = torch.bmm(assigned, assigned.mT)
        walk = together / assigned.sum(dim=2)[:, None]
        if self.laplacian == "graph":
            laplacian = together - torch.bmm(walk, together)
        else:
            laplacian = torch.eye(len(walk[0]), dtype=walk.dtype, device=walk.device) - walk
        solved: Tensor = torch.linalg.solve(labelled + self.gamma * laplacian, labelled)
        return solved
