"""StatA: class statistics anchored at the class names (Zanella, Fuchs, De Vleeschouwer and Ben Ayed 2025, "Realistic
Test-Time Adaptation of Vision-Language Models")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast
from clustering.lengths import unit_rows
from clustering.sphere import on_sphere
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.gaussians import (
    SMALLEST_VARIANCE,
    WEIGHT,
    Gaussians,
    Moments,
    alternate_gaussians,
    first_means,
)
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.strategies.transclip import neighbour_term
from fsl.transforms import Transform, unit_features


@dataclass(frozen=True)
class StatA(PublishedMethod):
    """TransCLIP with one diagonal covariance per class, and means and covariances anchored at the class names.

    Adds to the objective of `TransCLIP` the penalty

        alpha / 50 sum_k KL(N(t_k, Sigma_0) || N(mu_k, Sigma_k)),

    with the text features t_k and the pooled variance Sigma_0 of the queries around them. The statistics of a class
    with few queries thus stay near its name, so a batch with few of the named classes does little harm.

    The defaults are the correct form, whose objective never increases: means are maximum a posteriori on the sphere,
    with the mass sum_q z_qk of a class. In the "published" variant, that of the public code, n_k is the number of
    queries whose likeliest class is k, a mean is unit(beta_k unit(m_k) + (1 - beta_k) t_k) with beta_k = n_k / (alpha +
    n_k), and 10 rounds have unguarded sweeps.

    Attributes:
        text_weight: lambda, weight of -log yhat.
        alpha: weight of the anchor, in points.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    published: ClassVar[Mapping[str, Any]] = {"variant": "published"}

    text_weight: Annotated[float, AtLeast(0)] = 1.0
    alpha: Annotated[float, Above(0)] = 1.0
    n_neighbors: Annotated[int, AtLeast(1)] = 3
    variant: Variant = "corrected"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each round."""
        episodes = episodes.transformed(self.transform)
        anchor = first_means(episodes, "text") if episodes.text is None else unit_features(episodes.text)
        pooled = self._pooled(episodes, anchor)
        return alternate_gaussians(
            episodes,
            Gaussians(anchor, pooled.expand_as(anchor)),
            [neighbour_term(episodes, self.n_neighbors)],
            lambda old, moments: self._update(old, moments, anchor, pooled),
            text_weight=self.text_weight,
            published=self.variant == "published",
            penalty=lambda gaussians: self.alpha * WEIGHT * _divergence(gaussians, anchor, pooled),
            hard_counts=self.variant == "published",
        )

    def _pooled(self, episodes: Episodes, anchor: Tensor) -> Tensor:
        """(B, 1, D) variance of the queries around the class names."""
        query = episodes.query
        weights = torch.softmax(episodes.log_prior, dim=2) * episodes.valid[:, episodes.support_size :, None]
        moments = Moments.of(query, weights)
        pooled = moments.scatter(anchor).sum(dim=1, keepdim=True) / moments.mass.sum(dim=1, keepdim=True)
        return pooled.clamp_min(SMALLEST_VARIANCE)

    def _update(self, old: Gaussians, moments: Moments, anchor: Tensor, pooled: Tensor) -> Gaussians:
        trust = moments.counts / (self.alpha + moments.counts)  # beta
        averages = moments.averages(otherwise=anchor)
        if self.variant == "published":
            means = unit_rows(torch.lerp(anchor, unit_rows(averages), trust))
        else:
            means = on_sphere(torch.lerp(anchor, averages, trust), 1 / old.variances)
        within = moments.scatter(means) / moments.mass.clamp_min(torch.finfo(means.dtype).tiny)
        variances = torch.lerp(pooled + (anchor - means).square(), within, trust)
        return Gaussians(means, variances.clamp_min(SMALLEST_VARIANCE))


def _divergence(gaussians: Gaussians, anchor: Tensor, pooled: Tensor) -> Tensor:
    """(B,) sum_k KL(N(t_k, Sigma_0) || N(mu_k, Sigma_k))."""
    ratio = pooled / gaussians.variances
    distance = (anchor - gaussians.means).square() / gaussians.variances
    return 0.5 * (ratio + distance - 1 - ratio.log()).sum(dim=(1, 2), dtype=torch.float64)
