"""Transductive information maximisation (Boudiaf et al. 2020): prototypes fitted to a task by gradient descent.

With p_ik = softmax_k(-(temperature / 2) ||x_i - w_k||^2) and pbar the mean of p over the queries,

    loss(w) = cross_entropy mean_s(-log p_s,y_s) - marginal H(pbar) + conditional mean_q H(p_q),

where H is Shannon's entropy, or Tsallis' entropy of order alpha for alpha-TIM (Veilleux et al. 2021).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.points import Points, in_cache
from clustering.optimiser.terms import deformed_log

Moments = Literal["prototypes", "coordinates"]
"""Granularity of Adam's second moments: one per prototype, the mean over its coordinates, so that the fit depends on
inner products only; or one per coordinate (public code), at many times the cost."""

_CACHED = 1 << 21
"""Number of features of the tasks that Adam fits together, with a moment per coordinate: 8 MiB in float32."""


@dataclass(frozen=True)
class InformationLoss:
    """The loss of B independent tasks as a function of the log-probabilities of their points.

    Attributes:
        targets: (B, K, S) one-hot support labels, 0 in padded rows.
        support_weights: (B, 1, S) 1 / number of support points, 0 in padded rows.
        query_weights: (B, 1, Q) 1 / number of queries, 0 in padded rows.
        temperature: factor of the logits, > 0.
        cross_entropy: weight of the support's cross-entropy.
        marginal: weight of the entropy of the mean query, which is maximised.
        conditional: weight of the mean entropy of a query, which is minimised.
        alpha: order of both entropies, a number or (B, 1, 1); 1.0 is Shannon's.
    """

    targets: Tensor
    support_weights: Tensor
    query_weights: Tensor
    temperature: float = 15.0
    cross_entropy: float = 0.1
    marginal: float = 1.0
    conditional: float = 0.1
    alpha: float | Tensor = 1.0

    def select(self, tasks: slice) -> "InformationLoss":
        """The loss of some of the tasks."""
        weights = {name: getattr(self, name)[tasks] for name in ("targets", "support_weights", "query_weights")}
        alpha = self.alpha[tasks] if isinstance(self.alpha, Tensor) else self.alpha
        return replace(self, **weights, alpha=alpha)

    def log_probabilities(self, products: Tensor, norms: Tensor) -> Tensor:
        """(B, K, S + Q) log p of every point, from its inner products with the prototypes and their (B, K, 1) squared
        norms. ||x_i||^2 is omitted, because it is the same for all classes."""
        return torch.log_softmax(torch.sub(products, norms, alpha=0.5).mul_(self.temperature), dim=1)

    def value_and_derivative(self, log_p: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B,) loss and (B, K, S + Q) derivative with respect to the logits, written to `out` if given.

        For g the derivative with respect to p, the derivative with respect to the logits is p_ik (g_ik - <p_i, g_i>);
        for support points it is cross_entropy (p_sk - t_sk) / S.
        """
        first = self.targets.shape[2]
        p = log_p.exp()
        p_q, log_q = p[:, :, first:], deformed_log(log_p[:, :, first:], self.alpha)
        mean = (p_q * self.query_weights).sum(2, keepdim=True)
        log_mean = deformed_log(mean.clamp_min_(1e-12).log_(), self.alpha)

        # H = -<p, ln p>, and its derivative with respect to p is -alpha ln p: both use the same tensor.
        g = torch.sub(self.marginal * log_mean, log_q, alpha=self.conditional)
        out = torch.empty_like(p) if out is None else out
        torch.mul(self.targets, -self.cross_entropy, out=out[:, :, :first])
        torch.mul(p_q, g, out=out[:, :, first:])
        along = out.sum(1, keepdim=True)  # (B, 1, S + Q): for queries, marginal and conditional parts together
        entropies = (along[:, :, first:] * self.query_weights).sum((1, 2))
        cross = (self._given * log_p[:, :, :first]).sum((1, 2))
        out.addcmul_(p, along, value=-1).mul_(self.point_weights)
        return entropies - self.cross_entropy * cross, out

    @cached_property
    def _given(self) -> Tensor:
        """(B, K, S) weights of the support's log-probabilities in the cross-entropy."""
        return self.targets * self.support_weights

    @cached_property
    def point_weights(self) -> Tensor:
        """(B, 1, S + Q) weights of the points in the derivative."""
        return torch.cat([self.support_weights, self.alpha * self.query_weights], dim=2)

    def at(self, prototypes: Tensor, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B,) loss, its (B, K, D) gradient and (B, K, S + Q) log p at prototypes (B, K, D), for features (B, S + Q,
        D), support first. For logits z, dz_ik / dw_k = temperature (x_i - w_k)."""
        norms = torch.linalg.vecdot(prototypes, prototypes)[..., None]
        log_p = self.log_probabilities(torch.bmm(prototypes, features.mT), norms)
        value, derivative = self.value_and_derivative(log_p)
        gradient = torch.bmm(derivative, features).addcmul_(derivative.sum(2, keepdim=True), prototypes, value=-1)
        return value, gradient.mul_(self.temperature), log_p


def fit_coordinates(
    loss: InformationLoss, features: Tensor, start: Tensor, rate: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """Fit prototypes by Adam as it is, with a second moment for each coordinate.

    Args:
        loss: the loss of the tasks.
        features: (B, S + Q, D) features, support first.
        start: (B, K, D) the support means.
        rate: Adam's step size.
        iterations: Adam's steps.

    Returns:
        (B, K, S + Q) final probabilities, and (iterations, B) losses before each step.
    """
    parts = in_cache(features, _CACHED)
    if len(parts) > 1:
        fits = [fit_coordinates(loss.select(part), features[part], start[part], rate, iterations) for part in parts]
        probabilities, losses = zip(*fits, strict=True)
        return torch.cat(probabilities), torch.cat(losses, dim=1)
    prototypes = start.clone()
    adam = torch.optim.Adam([prototypes], rate, fused=True)
    values = start.new_zeros(iterations, len(start), dtype=torch.float64)
    for i in range(iterations):
        values[i], prototypes.grad, _ = loss.at(prototypes, features)
        adam.step()
    return loss.at(prototypes, features)[2].exp(), values


def fit_coefficients(
    loss: InformationLoss, points: Points, start: Tensor, dimension: int, rate: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """Fit prototypes by Adam with one second moment for each of them, the mean over its coordinates.

    Prototypes are linear combinations of the points. The prototypes, the gradient and Adam's mean gradient are stored
    as coefficients and as inner products with all points; a step costs one product with the points.

    Args:
        loss: the loss of the tasks.
        points: (B, M) points, support first.
        start: (B, K, M) coefficients of the support means.
        dimension: dimension D of the features.
        rate: Adam's step size.
        iterations: Adam's steps.

    Returns:
        As `fit_coordinates`.
    """
    first, second, epsilon = 0.9, 0.999, 1e-8 / loss.temperature  # the gradient is stored without the temperature
    rates = rate * _are_apart(points, loss.point_weights)[:, None, None]
    now = torch.stack([start, points.inner(start)])  # (2, B, K, M)
    mean, gradient = torch.zeros_like(now), torch.empty_like(now)
    square = now.new_zeros(*start.shape[:2], 1)
    values = now.new_zeros(iterations, len(start), dtype=torch.float64)
    norms = torch.linalg.vecdot(*now)[..., None]
    for i in range(iterations):
        values[i], derivative = loss.value_and_derivative(loss.log_probabilities(now[1], norms), out=gradient[0])
        mass = derivative.sum(2, keepdim=True)
        gradient[1] = points.inner(derivative)
        gradient.addcmul_(mass, now, value=-1)
        mean.lerp_(gradient, 1 - first)
        length = torch.linalg.vecdot(*gradient)[..., None].clamp_min_(0)
        square.lerp_(length, 1 - second)
        step = rates / (1 - first ** (i + 1)) / ((square / (dimension * (1 - second ** (i + 1)))).sqrt_() + epsilon)
        now.addcmul_(step, mean, value=-1)
        norms = torch.linalg.vecdot(*now)[..., None]
    return loss.log_probabilities(now[1], norms).exp(), values


def _are_apart(points: Points, weights: Tensor) -> Tensor:
    """(B,) whether a task's points differ by more than rounding. Otherwise the gradients are rounding errors, which
    Adam would scale up to full steps."""
    one = torch.zeros_like(weights)
    one[:, :, 0] = 1
    squared = points.squared_distances(one)[:, 0] * (weights[:, 0] > 0)
    norms = points.squared_norms
    return squared.amax(1) > 64 * torch.finfo(norms.dtype).eps * norms.amax(1)
