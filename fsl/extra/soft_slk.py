"""Soft Laplacian K-means with labelled support, for tasks with unknown class proportions: SLK-Means with soft members,
a higher weight for the support, and class proportions shrunk towards uniform ones."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from clustering.graphs.neighbourhood import neighbour_graph
from clustering.optimiser.descent import descend
from clustering.optimiser.objective import Term
from clustering.optimiser.points import squared_distances
from clustering.optimiser.terms import Laplacian, Scatter
from clustering.optimiser.transport import sinkhorn
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import Method
from fsl.strategies.shared.proportions import Proportions, class_shares
from fsl.transforms import Transform

MAX_ITERATIONS, TOLERANCE = 100, 1e-4
"""Maximum number of steps with free proportions, and the relative change of the objective at which they end."""

ROUNDS = 5
"""Steps with fixed proportions."""

_CALIBRATED = 1 / 6.5
"""Factor of the logits with which the probabilities are approximately calibrated."""


@dataclass(frozen=True)
class SoftSLK(Method):
    """Own method, not from a paper: soft clustering of support and queries around means, with fixed support labels and
    Laplacian regularisation.

    Minimises over the queries' assignments Y, with the means w minimised out,

        beta / 2 sum_pk c_p y_pk ||x_p - w_k||^2 - weight / 2 <Y, W Y> + T <Y, log Y>

    W is the kNN graph of support and queries, c_p is 1 for a query and `support_weight` for a support point, and
    T = 1 / sqrt(shots): better prototypes permit sharper assignments.

    Then the estimated proportions u = mean_q y_q are shrunk towards uniform ones, to the extent that their uncertainty
    explains the difference (as in James and Stein 1961),

        p = (1 - s) / K + s u,   s = max(1 - shrinkage V / I, r / (r + shrinkage V)),   r = (K / Q)^2,
        I = K sum_k (u_k - 1 / K)^2,   V = K / Q^2 sum_qk y_qk (1 - y_qk)

    where V is computed from probabilities at a smaller beta, followed by a few bound steps with the proportions fixed
    to p. Balanced queries thus get part of the gain of methods that assume balance, and unbalanced queries are hardly
    affected.

    The defaults were chosen on validation classes of mini-ImageNet (Conv-4, Conv-6) and of glyphs. On novel classes the
    method is never below SimpleShot, for 1 and 5 shots, balanced and Dirichlet; see
    docs/methods/strategies.md.

    Attributes:
        beta: factor of the squared distances.
        support_weight: weight of a support point in the means, relative to a query. Smaller values gain more on
            balanced queries, and lose more on others.
        weight: lambda of the Laplacian term; it multiplies the sum over neighbours.
        shrinkage: strength of the shrinkage of the proportions. Above 1, balanced queries gain and
            others lose.
        proportions: class proportions of the queries, see `fsl.strategies.shared.proportions`, in place of p; None:
            estimated as above.
    """

    text: ClassVar[TextUse] = "optional"
    beta: ClassVar[float] = 65.0
    support_weight: ClassVar[float] = 3.0
    shrinkage: ClassVar[float] = 0.75

    transform: Transform = "CL2N"
    weight: Annotated[float, AtLeast(0)] = 1.0
    n_neighbors: Annotated[int, AtLeast(1)] = 3
    text_weight: Annotated[float, AtLeast(0)] = 1.0
    proportions: Proportions = None

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective while the proportions are free."""
        episodes = episodes.transformed(self.transform)
        terms = self._terms(episodes)
        distances = squared_distances(episodes.points, episodes.class_means).mT
        first, cost = episodes.support_size, torch.zeros_like(distances)
        cost[:, first:] = episodes.with_text(cost[:, first:], self.text_weight)
        descent = descend(
            cost,
            terms,
            start=torch.softmax(-0.5 * self.beta * episodes.shots.sqrt() * distances - cost, dim=2),
            clamp=episodes.known,
            max_iterations=MAX_ITERATIONS,
            tolerance=TOLERANCE,
            trace=True,
        )
        assignments, queries = descent.assignments, episodes.query_counts
        if self.proportions is None:
            slopes = terms[0].value_and_gradient(assignments)[1]
            sure = torch.softmax(-_CALIBRATED * slopes[:, first:] - cost[:, first:], dim=2)
            proportions = shrunk_proportions(assignments[:, first:], sure, queries[:, first:], self.shrinkage)
        else:
            proportions = class_shares(self.proportions, episodes)
        scales: Tensor | None = None
        for _ in range(ROUNDS):
            slopes = sum((term.value_and_gradient(assignments)[1] for term in terms), cost)
            held = sinkhorn(-slopes, queries, proportions, start=scales, tolerance=1e-4, max_rounds=100)
            held.assignments[:, :first] = assignments[:, :first]
            assignments, scales = held.assignments, held.log_scales
        return Predictions(assignments[:, first:], descent.iterations + ROUNDS, descent.trace)

    def _terms(self, episodes: Episodes) -> list[Term]:
        """The terms of the objective divided by T, so that the entropy has weight 1."""
        sharpness, points = episodes.shots.sqrt(), episodes.points
        counts = episodes.valid.to(episodes.dtype)
        counts[:, : episodes.support_size] *= self.support_weight
        terms: list[Term] = [
            Scatter(points, counts.new_zeros(len(counts), episodes.way, 0), counts[:, None], self.beta * sharpness)
        ]
        if self.weight > 0:
            graph = neighbour_graph(points, self.n_neighbors, valid=episodes.valid)
            terms.append(Laplacian(graph, self.weight * sharpness))
        return terms


def shrunk_proportions(assignments: Tensor, calibrated: Tensor, queries: Tensor, shrinkage: float) -> Tensor:
    """Class proportions shrunk towards uniform ones, the more so the more uncertain they are.

    A class has an integer number of queries, so with few queries its proportion may differ from 1 / K by 1 / Q even if
    the classes are balanced. The shrinkage is limited to leave room for this difference.

    Args:
        assignments: (B, Q, K) assignments, whose mean is shrunk.
        calibrated: (B, Q, K) approximately calibrated probabilities.
        queries: (B, Q) 1 for queries, 0 in padded rows.
        shrinkage: strength >= 0, in units of the uncertainty.

    Returns:
        (B, K) proportions; rows sum to one.
    """
    ways, count = assignments.shape[2], queries.sum(1, keepdim=True)
    weights = (queries / count)[:, None]
    proportions = torch.bmm(weights, assignments)[:, 0]
    deviation = ways * (proportions - 1 / ways).square().sum(1, keepdim=True)
    uncertainty = ways * torch.bmm(weights, calibrated * (1 - calibrated))[:, 0].sum(1, keepdim=True) / count
    noise, room = shrinkage * uncertainty, (ways / count) ** 2
    trusted = torch.maximum(1 - noise / deviation.clamp_min(1e-12), room / (room + noise))
    return torch.lerp(torch.full_like(proportions, 1 / ways), proportions, trusted)
