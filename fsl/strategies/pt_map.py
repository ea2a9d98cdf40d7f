"""PT-MAP: prototypes by optimal transport between queries and classes (Hu, Gripon and Pateux 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast, Within, validate
from clustering.optimiser.points import Points
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.centring import Centring, centred
from fsl.transforms import Transform


@dataclass(frozen=True)
class PTMAP:
    """Balanced assignments by optimal transport, alternating with updates of the prototypes. The cost of assigning a
    query to a class is the squared distance to its prototype; each class gets the same number of queries.

    P = Sinkhorn(exp(-beta ||x_q - m_k||^2)), row sums 1, column sums Q / K
    m_k <- m_k + rate (mean of support and P-weighted queries - m_k)

    The public code stops Sinkhorn if a row sum changes by less than 1e-6. Here the row sums are exact, and the column
    sums are accurate to `tolerance`. Each transport starts from the scales of the previous one, which saves time and
    does not change the solution.

    Attributes:
        transform: per-feature transform; the paper uses the power transform PT, which requires non-negative features.
        centring: subtract the mean of support and queries separately ("apart", as published), or their common mean
            ("together"), or None; then scale to unit length.
        beta: lambda of the paper, sharpness of the transport.
        rate: alpha of the paper, step size of the prototypes; 0.2 for balanced tasks in the public code.
        iterations: updates of the prototypes.
        tolerance: largest error of a class's mass, relative to the number of queries.
        max_rounds: maximum number of Sinkhorn rounds.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True
    needs: ClassVar[str] = "non-negative features"

    transform: Transform = "PT"
    centring: Centring = "apart"
    beta: Annotated[float, Above(0)] = 10.0
    rate: Annotated[float, Within(0, 1)] = 0.2
    iterations: Annotated[int, AtLeast(0)] = 20
    tolerance: Annotated[float, AtLeast(0)] = 1e-6
    max_rounds: Annotated[int, AtLeast(1)] = 1000

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries: the last transport plan."""
        episodes = episodes.transformed(self.transform)
        return self.predict_from(episodes, centred(episodes, episodes.points, self.centring))

    def predict_from(self, episodes: Episodes, points: Points) -> Predictions:
        """Class probabilities from points that are already transformed and centred."""
        prototypes = episodes.class_means
        support, queries = episodes.support_one_hot.mT, episodes.valid[:, episodes.support_size :].to(episodes.dtype)
        assignments, scales = self._transport(points, prototypes, queries, None)
        for _ in range(self.iterations):
            members = torch.cat([support, assignments.mT * queries[:, None]], dim=2)
            prototypes = torch.lerp(prototypes, members / members.sum(dim=2, keepdim=True), self.rate)
            assignments, scales = self._transport(points, prototypes, queries, scales)
        iterations = torch.full((len(queries),), self.iterations, dtype=torch.int64, device=queries.device)
        return Predictions(assignments, iterations)

    def _transport(
        self, points: Points, prototypes: Tensor, queries: Tensor, start: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(B, Q, K) assignments, and the scales from which the next transport starts."""
        # The norms of queries and prototypes are omitted, because rows and columns are rescaled.
        products = points.inner(prototypes)[:, :, -queries.shape[1] :]
        transport = sinkhorn(
            (2 * self.beta * products).mT,
            queries,
            queries.new_ones(products.shape[:2]),
            start=start,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
        )
        return transport.assignments, transport.log_scales
