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
    """The queries are transported to the classes, each of which gets equally many, at the cost of their squared
    distance to the class's prototype; the prototypes move towards the mean of what they got, support included.

    P = Sinkhorn(exp(-beta ||x_q - m_k||^2)), rows 1, columns Q / K
    m_k <- m_k + rate (mean of support and P-weighted queries - m_k)

    The public code stops Sinkhorn when a row's sum changes by less than 1e-6. Here the rows are exact, and the columns
    fit to `tolerance`; each transport starts from the last one's scales, which changes what it costs, not what it
    finds.

    Attributes:
        transform: per-feature transform; the paper's is the power transform PT. Others take features of any sign.
        centring: take its own mean off support and query each ("apart", as published), the mean of all off both
            ("together"), or none; then unit length.
        beta: lambda of the paper, sharpness of the transport.
        rate: alpha of the paper, step of the prototypes; 0.2 for balanced tasks in the public code.
        iterations: steps of the prototypes.
        tolerance: largest error of a class's mass, as a share of all queries.
        max_rounds: Sinkhorn rounds at most.
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
        """Class probabilities of the queries: the last transport."""
        episodes = episodes.transformed(self.transform)
        return self.predict_from(episodes, centred(episodes, episodes.points, self.centring))

    def predict_from(self, episodes: Episodes, points: Points) -> Predictions:
        """The same, of points that went through every preparation."""
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
        """(B, Q, K) assignments and the scales that the next transport may start from."""
        # Norms of queries and prototypes are left out: rows and columns are scaled anyway.
        products = points.inner(prototypes)[:, :, -queries.shape[1] :]
        found = sinkhorn(
            (2 * self.beta * products).mT,
            queries,
            queries.new_ones(products.shape[:2]),
            start=start,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
        )
        return found.assignments, found.log_scales
