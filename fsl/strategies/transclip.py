"""TransCLIP: transductive zero-shot and few-shot classification with class names (Zanella, Gérin and Ben Ayed 2024,
"Boosting Vision-Language Models with Transduction")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from clustering.graphs.neighbourhood import similarity_graph
from clustering.lengths import unit_rows
from clustering.optimiser.terms import Laplacian
from clustering.sphere import on_sphere
from fsl.episodes import Episodes, Predictions, TextUse, points_of
from fsl.strategies.shared.gaussians import (
    SMALLEST_VARIANCE,
    Gaussians,
    Moments,
    Start,
    alternate_gaussians,
    first_means,
)
from fsl.strategies.shared.method import PublishedMethod
from fsl.transforms import Transform

FLOOR = 1e-10
"""Constant that the public code adds to yhat inside the logarithm."""


@dataclass(frozen=True)
class TransCLIP(PublishedMethod):
    """Gaussian classes with a shared diagonal covariance, class names as a prior, and Laplacian regularisation.

    Minimises over the queries' assignments Z, the unit means mu and the variances sigma^2

        sum_qk z_qk (-text_weight log yhat_qk - c_q log p_qk / 50) + <Z, log Z> - 1/2 <Z, A Z>,
        log p_qk = -1/2 sum_d ((x_qd - mu_kd)^2 / sigma_d^2 + log sigma_d^2),

    where yhat are the probabilities by class names and A is the kNN graph with cosines as weights, divided by k. The
    assignments of support points are fixed. A query has c_q = 1; a shot has 50 gamma Q / S.

    The defaults are the correct form, whose objective never increases: guarded sweeps, means that minimise the
    objective on the sphere, and the log-determinant, without which the variances have no finite minimum. `as_published`
    is the public code, which normalises the weighted means instead, with unguarded sweeps. In 6 to 8 of its 10 rounds
    on WHU-RS19, the objective increased.

    If the queries are from a few of the named classes, the method loses many points; see
    docs/methods/class_names.md.

    Attributes:
        text_weight: lambda, weight of -log yhat. None: 1 without support, 0.5 with support (public code).
        gamma: weight of the support; the public code chooses it from 0.002, 0.01, 0.02, 0.2 by the accuracy on
            validation images.
        start: first means of classes without support: the "text" features, or the mean of the eight most "confident"
            queries (public code).
        variant: "corrected", or "published": normalised weighted means, no log-determinant, 10 rounds of unguarded
            sweeps, and the graph of support and queries in this order multiplied with the assignments of queries and
            support in that order. "aligned" is the public code with its graph in the order of the assignments.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    published: ClassVar[Mapping[str, Any]] = {"start": "confident", "variant": "published"}

    text_weight: Annotated[float, AtLeast(0)] | None = None
    n_neighbors: Annotated[int, AtLeast(1)] = 3
    gamma: Annotated[float, AtLeast(0)] = 0.02
    start: Start = "text"
    variant: Literal["corrected", "published", "aligned"] = "corrected"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each round."""
        episodes = episodes.transformed(self.transform)
        shots = episodes.support_one_hot.sum(dim=(1, 2))[:, None]
        queries = episodes.valid[:, episodes.support_size :].sum(dim=1, keepdim=True)
        text_weight: float | Tensor | None = self.text_weight
        if text_weight is None:
            text_weight = 1 - 0.5 * episodes.labelled.to(episodes.dtype)
        means = first_means(episodes, self.start)
        corrected = self.variant == "corrected"
        return alternate_gaussians(
            episodes,
            Gaussians(means, torch.full_like(means[:, :1], 1 / episodes.dimension)),
            [neighbour_term(episodes, self.n_neighbors, misaligned=self.variant == "published")],
            self._update,
            text_weight=text_weight,
            published=not corrected,
            floor=0.0 if corrected else FLOOR,
            support_weight=50 * self.gamma * queries / shots.clamp_min(1),
            determinant=corrected,
        )

    def _update(self, old: Gaussians, moments: Moments) -> Gaussians:
        averages = moments.averages(otherwise=old.means)
        means = on_sphere(averages, 1 / old.variances) if self.variant == "corrected" else unit_rows(averages)
        variances = moments.scatter(means).sum(dim=1, keepdim=True) / moments.mass.sum(dim=1, keepdim=True)
        return Gaussians(means, variances.clamp_min(SMALLEST_VARIANCE))


def neighbour_term(episodes: Episodes, n_neighbors: int, *, misaligned: bool = False) -> Laplacian:
    """The Laplacian term -1/2 <Z, A Z> of the kNN graph of support and queries, with cosines as weights, divided by the
    number of neighbours."""
    points, valid = episodes.points, episodes.valid
    if misaligned and episodes.support_size:
        points = points_of(_rolled(episodes.features, valid, valid[:, : episodes.support_size].sum(dim=1)))
    return Laplacian(similarity_graph(points, n_neighbors, "cosine", valid=episodes.mask), 1 / n_neighbors)


def _rolled(points: Tensor, valid: Tensor, shift: Tensor) -> Tensor:
    """(B, N, D) points of which those without padding are moved by `shift` (B,) places, as by torch.roll."""
    places = valid.byte().argsort(dim=1, descending=True, stable=True)  # of points, then of padding
    number = valid.sum(dim=1, keepdim=True)
    ranks = (valid.cumsum(dim=1) - 1 - shift[:, None]) % number
    source = torch.where(valid, places.gather(1, ranks), torch.arange(points.shape[1], device=points.device))
    return points.gather(1, source[..., None].expand_as(points))
