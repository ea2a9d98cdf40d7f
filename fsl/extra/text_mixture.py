"""A Bayesian mixture of Gaussians whose means are anchored at the class names."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from clustering.graphs.neighbourhood import neighbour_graph
from clustering.optimiser.descent import descend
from clustering.optimiser.objective import Term
from clustering.optimiser.points import Points
from clustering.optimiser.terms import Laplacian, MixtureEvidence, Scatter
from fsl.episodes import Episodes, Predictions, TextUse, points_of
from fsl.strategies.shared.method import Method
from fsl.transforms import Transform, unit_features

MAX_ITERATIONS, TOLERANCE = 30, 1e-6
"""Maximum number of steps, and the relative change of the objective at which they end."""

LARGEST_DIMENSIONS = 18
"""Maximum number of dimensions of the means in the evidence of the class sizes. With K - 1 dimensions for many named
classes, the evidence outweighs names and images, and all queries join one class."""


@dataclass(frozen=True)
class TextMixture(Method):
    """Own method, not from a paper: soft clustering around means, in which a class name counts as `anchor_weight`
    labelled images.

    Texts and images of a class do not lie together: all texts are displaced from all images (the modality gap), and
    differences between texts are longer or shorter than those between images. The class name k is therefore placed at

        a_k = g + s (t_k - mean_j t_j),

    where g and s >= 0 minimise sum_q ||x_q - g - s sum_k yhat_qk (t_k - mean_j t_j)||^2, with the probabilities yhat by
    class names. The method minimises over the queries' assignments Y, with the means w minimised out,

        sum_qk y_qk (-text_weight log yhat_qk) + beta / 2 (sum_pk y_pk ||x_p - w_k||^2 + anchor_weight sum_k ||a_k -
        w_k||^2) - weight / 2 <Y, W Y> + <Y, log Y> + f(n),

    where W is the kNN graph of support and queries, and f(n) is the evidence of the class sizes n_k with a Dirichlet
    prior (`clustering.optimiser.terms`), which makes classes with few queries less likely. The method therefore suits
    batches with few of the named classes. `adaptive` does not need to know.

    Attributes:
        text_weight: weight of -log yhat.
        anchor_weight: number of labelled images that a class name is worth.
        beta: factor of the squared distances, an inverse temperature.
        concentration: concentration of the Dirichlet prior of the class proportions; larger values give more equal
            proportions.
        weight: lambda of the Laplacian term; it multiplies the sum over neighbours.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    anchor_weight: ClassVar[float] = 1.0
    beta: ClassVar[float] = 50.0
    concentration: ClassVar[float] = 2.0
    weight: ClassVar[float] = 1.0
    n_neighbors: ClassVar[int] = 3

    text_weight: Annotated[float, AtLeast(0)] = 1.0

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each step."""
        episodes = episodes.transformed(self.transform)
        first, ways = episodes.support_size, episodes.way
        anchors = self.anchor_weight * torch.eye(ways, dtype=episodes.dtype, device=episodes.query.device)
        labelled = anchors.sum(dim=0)[:, None] + episodes.support_one_hot.sum(dim=1)[..., None]
        counted, queries = episodes.valid.to(episodes.dtype)[:, None], episodes.query_counts[:, None]
        terms: list[Term] = [
            Scatter(_with_anchors(episodes), anchors.expand(len(labelled), -1, -1), counted, self.beta),
            MixtureEvidence(
                labelled, queries, self.concentration, prior=0.0, dimensions=min(ways - 1, LARGEST_DIMENSIONS)
            ),
            Laplacian(neighbour_graph(episodes.points, self.n_neighbors, valid=episodes.mask), self.weight),
        ]
        start = torch.cat([episodes.support_one_hot, torch.softmax(episodes.log_prior, dim=2)], dim=1)
        cost = torch.zeros_like(start)
        cost[:, first:] = episodes.with_text(cost[:, first:], self.text_weight)
        descent = descend(
            cost,
            terms,
            start=start,
            clamp=episodes.known,
            max_iterations=MAX_ITERATIONS,
            tolerance=TOLERANCE,
            trace=True,
        )
        return Predictions(descent.assignments[:, first:], descent.iterations, descent.trace)


def _with_anchors(episodes: Episodes) -> Points:
    """The class names, placed among the images, followed by support and queries. The origin is at the mean of the
    names, which reduces rounding errors of inner products."""
    names = placed_names(episodes)
    features = torch.cat([names, episodes.features], dim=1) - names.mean(dim=1, keepdim=True)
    return points_of(features)


def placed_names(episodes: Episodes) -> Tensor:
    """(B, K, D) class names, placed among the images of unit length, see `TextMixture`.

    Without text features, these are the means of the queries, weighted by their class probabilities.
    """
    query, probabilities = episodes.query, torch.softmax(episodes.log_prior, dim=2)
    counted = episodes.valid[:, episodes.support_size :, None].to(query.dtype)
    if episodes.text is None:
        weights = probabilities * counted
        return torch.bmm(weights.mT, query) / weights.sum(dim=1)[..., None].clamp_min(torch.finfo(query.dtype).tiny)
    text = unit_features(episodes.text)
    text = text - text.mean(dim=1, keepdim=True)
    expected = torch.bmm(probabilities, text)
    total = counted.sum(dim=1, keepdim=True)
    query_mean = (query * counted).sum(dim=1, keepdim=True) / total
    expected_mean = (expected * counted).sum(dim=1, keepdim=True) / total
    deviation = (expected - expected_mean) * counted
    scale = (deviation * (query - query_mean)).sum(dim=(1, 2), keepdim=True)
    scale = (scale / deviation.square().sum(dim=(1, 2), keepdim=True).clamp_min(_SMALLEST)).clamp(0, _LARGEST_SCALE)
    return query_mean + scale * (text - expected_mean)


_SMALLEST = 1e-9
_LARGEST_SCALE = 5.0
"""Largest s. It is about 0.5 to 1 for CLIP-like networks; the bound matters for queries of a single class only, where s
is not determined."""
