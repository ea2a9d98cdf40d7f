"""EM-Dirichlet: transductive classification of probability vectors (Martin, Huang, Shakeri, Pesquet and Ben Ayed 2024,
"Transductive Zero-Shot and Few-Shot CLIP")."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from clustering.foundation.parameters import AtLeast
from clustering.optimiser.descent import descend
from clustering.optimiser.objective import Term
from clustering.optimiser.terms import ProportionEntropy
from fsl.episodes import Episodes, Predictions, TextUse
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.transforms import Transform, unit_features

FIT: dict[Variant, tuple[int, float]] = {"corrected": (200, 1e-6), "published": (1000, 1e-11)}
"""Maximum number of steps of the fit of alpha, and the relative change of alpha at which it stops."""

_CHECK_INTERVAL = 50
"""Steps of the inner iteration between tests of its convergence."""

_SMALLEST = 1e-10
_LOG_SMALLEST = math.log(_SMALLEST)
"""Lower bound of log q."""


@dataclass(frozen=True)
class EMDirichlet(PublishedMethod):
    """A mixture of Dirichlet distributions of the queries' class probabilities.

    The features of a query are its class probabilities by class names q = softmax_k(sharpness cos(x_q, t_k)). With one
    Dirichlet distribution of parameters alpha_k in R^K per class, minimises over the assignments U of the queries

        sum_qk u_qk cost_qk + <U, log U> + weight Q H(mean_q u_q),
        cost_qk = -log Gamma(sum_j alpha_kj) + sum_j log Gamma(alpha_kj) - sum_j (alpha_kj - 1) log q_qj,

    where alpha is fitted by majorisation and minimisation; labelled points are counted in their class. The entropy of
    the proportions favours few classes. Its published weight, floor(K / 5), fits the batches of the paper, which have 3
    to 10 classes.

    Attributes:
        sharpness: factor of the cosines, instead of the network's logit scale. With a `prior` instead of class names,
            q is the prior to the power of sharpness / logit_scale.
        weight: weight of the entropy of the proportions. None: floor(K / 5), as published.
        assignments: "soft", or "hard": one-hot assignments in each round (Hard EM-Dirichlet).
        variant: without support, a cluster keeps the class that it began with; in the "published" variant, clusters are
            matched to classes by the Hungarian method, on their mean q, and alpha is fitted more exactly.
    """

    text: ClassVar[TextUse] = "required"
    transform: ClassVar[Transform] = "L2N"
    published: ClassVar[Mapping[str, Any]] = {"variant": "published"}
    sharpness: ClassVar[float] = 30.0
    rounds: ClassVar[Mapping[str, int]] = {"soft": 20, "hard": 10}

    weight: Annotated[float, AtLeast(0)] | None = None
    assignments: Literal["soft", "hard"] = "soft"
    variant: Variant = "corrected"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the objective after each round."""
        episodes = episodes.transformed(self.transform)
        logs = self._log_features(episodes, episodes.log_prior)
        valid = None if episodes.query_mask is None else episodes.query_mask[..., None].to(logs.dtype)
        labelled, mass = self._labelled(episodes)  # sums of log q over the labelled points of a class, and their number
        weight = float(episodes.way // 5) if self.weight is None else self.weight
        terms: list[Term] = []
        if weight > 0:
            terms.append(ProportionEntropy(weight, None if valid is None else valid.mT))
        alpha, current = logs.new_ones(len(logs), episodes.way, episodes.way), logs.exp()
        objectives = []
        for _ in range(self.rounds[self.assignments]):
            counted = current if valid is None else current * valid
            sums = torch.bmm(counted.mT, logs) + labelled
            total = counted.sum(dim=1)[..., None] + mass
            averages = sums / total.clamp_min(torch.finfo(logs.dtype).tiny)
            alpha = torch.where(total > 1e-6, self._fitted(alpha, averages), alpha)
            cost = -dirichlet_log_density(alpha, logs)
            cost = cost if valid is None else cost * valid
            descent = descend(
                cost,
                terms,
                start=current,
                clamp=episodes.padding,
                step="published",  # the term is concave, so no guard is needed
                max_iterations=1,
                tolerance=None,
            )
            constant, slopes = log_normaliser(alpha), alpha - 1
            fit = (labelled * slopes).sum(dim=(1, 2)) + (mass * constant[..., None]).sum(dim=(1, 2))
            objectives.append(descent.objective.double() - fit)
            current = descent.assignments
            if self.assignments == "hard":
                current = torch.nn.functional.one_hot(current.argmax(dim=2), episodes.way).to(current.dtype)
        if self.variant == "published" and not bool(episodes.labelled.all()):
            current = torch.where(episodes.labelled, current, _matched(current, logs.exp(), valid))
        iterations = torch.full((len(logs),), len(objectives), dtype=torch.int64, device=logs.device)
        return Predictions(current, iterations, torch.stack(objectives))

    def _log_features(self, episodes: Episodes, logs: Tensor) -> Tensor:
        """(B, N, K) log q, from the log-probabilities at the network's logit scale."""
        return torch.log_softmax(logs * (self.sharpness / episodes.logit_scale), dim=2).clamp_min(_LOG_SMALLEST)

    def _labelled(self, episodes: Episodes) -> tuple[Tensor, Tensor]:
        """(B, K, K) sums of log q over the labelled points of each class, and (B, K, 1) their numbers."""
        one_hot = episodes.support_one_hot
        if episodes.text is None or not episodes.support_size:
            none = one_hot.new_zeros(len(one_hot), episodes.way, 1)
            return none, none
        cosines = torch.bmm(unit_features(episodes.support), unit_features(episodes.text).mT)
        logs = self._log_features(episodes, episodes.logit_scale * cosines)
        return torch.bmm(one_hot.mT, logs), one_hot.sum(dim=1)[..., None]

    def _fitted(self, alpha: Tensor, averages: Tensor) -> Tensor:
        """(B, K, K) parameters of Dirichlet distributions with these mean log q, by majorisation and minimisation.

        log Gamma(a + 1) is majorised by a quadratic function with curvature c, and log Gamma(sum a) by its tangent.
        Parameters of classes whose points are almost one-hot may grow without limit; the number of steps bounds them.
        """
        active = torch.ones(len(alpha), 1, 1, dtype=torch.bool, device=alpha.device)  # tasks that have not converged
        steps, tolerance = FIT[self.variant]
        for step in range(steps):
            up, digamma = alpha + 1, torch.digamma(alpha + 1)
            curvature = (2 * (alpha * digamma - torch.lgamma(up)) / alpha.square()).abs()
            slope = digamma - torch.digamma(alpha.sum(dim=2, keepdim=True)) - curvature * alpha - averages
            root = (slope.square() + 4 * curvature).sqrt()
            # Two forms of the positive root; each avoids the cancellation of the other.
            new = torch.where(slope > 0, 2 / (slope + root), (root - slope) / (2 * curvature))
            if step % _CHECK_INTERVAL == _CHECK_INTERVAL - 1:
                change = (new - alpha).square().sum(dim=(1, 2), keepdim=True)
                moving = change >= tolerance * alpha.square().sum(dim=(1, 2), keepdim=True)
                alpha, active = torch.where(active, new, alpha), active & moving
                if not bool(active.any()):
                    break
            else:
                alpha = torch.where(active, new, alpha)
        return alpha


def dirichlet_log_density(alpha: Tensor, logs: Tensor) -> Tensor:
    """(B, N, K) log-densities of (B, N, J) log-probabilities under K Dirichlet distributions (B, K, J)."""
    return torch.baddbmm(log_normaliser(alpha)[:, None], logs, (alpha - 1).mT)


def log_normaliser(alpha: Tensor) -> Tensor:
    """(B, K) log Gamma(sum_j alpha_kj) - sum_j log Gamma(alpha_kj)."""
    constant: Tensor = torch.lgamma(alpha.sum(dim=2)) - torch.lgamma(alpha).sum(dim=2)
    return constant


def _matched(assignments: Tensor, features: Tensor, valid: Tensor | None) -> Tensor:
    """Permute the clusters so that the sum of the clusters' mean probabilities of their classes is largest."""
    counted = assignments if valid is None else assignments * valid
    means = torch.bmm(counted.mT, features) / counted.sum(dim=1)[..., None].clamp_min(_SMALLEST)
    classes = [linear_sum_assignment(one, maximize=True)[1] for one in means.double().cpu().numpy()]
    order = torch.from_numpy(np.stack(classes)).to(assignments.device)  # class of each cluster
    return torch.zeros_like(assignments).scatter_(2, order[:, None].expand_as(assignments), assignments)
