"""Transductive information maximisation (Boudiaf et al. 2020): prototypes fitted to a task by gradient.

With p_ik = softmax_k(-(temperature / 2) ||x_i - w_k||^2) and pbar the mean of p over the queries,

    loss(w) = cross_entropy mean_s(-log p_s,y_s) - marginal H(pbar) + conditional mean_q H(p_q),

H Shannon's entropy, or for alpha-TIM (Veilleux et al. 2021) Tsallis' of order alpha.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from clustering.optimiser.adam import Adam
from clustering.optimiser.entropies import deformed_log
from clustering.optimiser.points import Gram
from fsl.episodes import Episodes, Predictions

Moments = Literal["prototypes", "coordinates"]
"""What has a second moment of its own in Adam: each prototype, its mean over the coordinates, so that the fit is a
function of inner products; or each coordinate (public code), which costs many times as much."""

_CACHED = 1 << 19
"""Numbers of features that are worked on at once: 2 MiB, a core's own cache. Every step reads them twice."""

_CACHED_PRODUCTS = 1 << 19
"""Of inner products, which every step reads once."""


@dataclass(frozen=True)
class InformationLoss:
    """The loss of B tasks by the log-probabilities of their points. The tasks do not see each other.

    Attributes:
        targets: (B, K, S) one-hot support labels, 0 in padded rows.
        support_weights: (B, 1, S) 1 / number of support points, 0 in padded rows.
        query_weights: (B, 1, Q) likewise.
        temperature: > 0.
        cross_entropy: weight of the support's cross-entropy.
        marginal: weight of the entropy of the mean query, which is maximised.
        conditional: weight of the mean entropy of a query, which is minimised.
        alpha: order of both entropies, or (B, 1, 1) of them; 1.0 is Shannon's.
    """

    targets: Tensor
    support_weights: Tensor
    query_weights: Tensor
    temperature: float = 15.0
    cross_entropy: float = 0.1
    marginal: float = 1.0
    conditional: float = 0.1
    alpha: float | Tensor = 1.0

    def log_probabilities(self, products: Tensor, norms: Tensor) -> Tensor:
        """(B, K, S + Q) log p of every point, from its inner products with the prototypes and their squared norms
        (B, K, 1). ||x_i||^2 is left out, which no class sees."""
        return torch.log_softmax(torch.sub(products, norms, alpha=0.5).mul_(self.temperature), dim=1)

    def value_and_derivative(self, log_p: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B,) the loss and (B, K, S + Q) its derivative by the logits, into `out` if given.

        With g the derivative by p it is p_ik (g_ik - <p_i, g_i>): of support points cross_entropy (p_sk - t_sk) / S.
        """
        first = self.targets.shape[2]
        p = log_p.exp()
        p_q, log_q = p[:, :, first:], deformed_log(log_p[:, :, first:], self.alpha)
        mean = (p_q * self.query_weights).sum(2, keepdim=True)
        log_mean = deformed_log(mean.clamp_min_(1e-12).log_(), self.alpha)

        # H = -<p, ln p>, and its derivative by p is -alpha ln p: one tensor serves both.
        g = torch.sub(self.marginal * log_mean, log_q, alpha=self.conditional)
        out = torch.empty_like(p) if out is None else out
        torch.mul(self.targets, -self.cross_entropy, out=out[:, :, :first])
        torch.mul(p_q, g, out=out[:, :, first:])
        along = out.sum(1, keepdim=True)  # (B, 1, S + Q): of queries marginal and conditional parts alike
        entropies = (along[:, :, first:] * self.query_weights).sum((1, 2))
        cross = (self._given * log_p[:, :, :first]).sum((1, 2))
        out.addcmul_(p, along, value=-1).mul_(self.point_weights)
        return entropies - self.cross_entropy * cross, out

    @cached_property
    def _given(self) -> Tensor:
        """(B, K, S) weights of the support's log-probabilities in their mean."""
        return self.targets * self.support_weights

    @cached_property
    def point_weights(self) -> Tensor:
        """(B, 1, S + Q) of the points in the derivative."""
        return torch.cat([self.support_weights, self.alpha * self.query_weights], dim=2)

    def select(self, tasks: slice) -> "InformationLoss":
        """The loss of some tasks of the batch."""
        return replace(
            self,
            targets=self.targets[tasks],
            support_weights=self.support_weights[tasks],
            query_weights=self.query_weights[tasks],
            alpha=self.alpha[tasks] if isinstance(self.alpha, Tensor) else self.alpha,
        )


@dataclass(frozen=True)
class Prototypes:
    """Prototypes (B, K, D) and what the loss says of them, by the features (B, S + Q, D), support first."""

    loss: InformationLoss
    features: Tensor

    @property
    def start(self) -> Tensor:
        """(B, K, D) the support means."""
        targets = self.loss.targets
        return torch.bmm(targets, self.features[:, : targets.shape[2]]) / targets.sum(2, keepdim=True)

    def log_probabilities(self, prototypes: Tensor) -> Tensor:
        """(B, K, S + Q) log p of every point."""
        norms = torch.linalg.vecdot(prototypes, prototypes)[..., None]
        return self.loss.log_probabilities(torch.bmm(prototypes, self.features.mT), norms)

    def value_and_gradient(self, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) the loss and (B, K, D) its gradient. Of the logits z, dz_ik / dw_k = temperature (x_i - w_k)."""
        value, derivative = self.loss.value_and_derivative(self.log_probabilities(prototypes))
        pull = torch.bmm(derivative, self.features)
        gradient = pull.addcmul_(derivative.sum(2, keepdim=True), prototypes, value=-1)
        return value, gradient.mul_(self.loss.temperature)

    def fit(self, rate: float, iterations: int, moments: Moments) -> tuple[Tensor, Tensor]:
        """(B, K, S + Q) probabilities at the end, and (iterations, B) the losses before each step."""
        prototypes = self.start
        adam = Adam(prototypes, rate, together=moments == "prototypes")
        values = prototypes.new_zeros(iterations, len(prototypes), dtype=torch.float64)
        for i in range(iterations):
            values[i], gradient = self.value_and_gradient(prototypes)
            adam.step(gradient)
        return self.log_probabilities(prototypes).exp(), values


def fit_products(
    loss: InformationLoss, products: Tensor, start: Tensor, dimension: int, rate: float, iterations: int
) -> tuple[Tensor, Tensor]:
    """What `Prototypes.fit` gives with one moment a prototype, by inner products alone.

    A prototype is a sum of points; it, Adam's mean gradient and the gradient are kept as their coefficients and, beside
    them, as their inner products with all points, which costs one product of a step's derivative with the points'.

    Args:
        loss: of the tasks.
        products: (B, M, M) inner products of the points, support first.
        start: (B, K, M) coefficients of the support means.
        dimension: D of the features.
        rate: Adam's step size.
        iterations: its steps.
    """
    first, second, epsilon = 0.9, 0.999, 1e-8 / loss.temperature  # the gradient is kept without its temperature
    rates = rate * _are_apart(products, loss.point_weights)[:, None, None]
    now = torch.stack([start, torch.bmm(start, products)])  # (2, B, K, M)
    mean, gradient = torch.zeros_like(now), torch.empty_like(now)
    square = now.new_zeros(*start.shape[:2], 1)
    values = now.new_zeros(iterations, len(start), dtype=torch.float64)
    norms = torch.linalg.vecdot(*now)[..., None]
    for i in range(iterations):
        values[i], derivative = loss.value_and_derivative(loss.log_probabilities(now[1], norms), out=gradient[0])
        mass = derivative.sum(2, keepdim=True)
        torch.bmm(derivative, products, out=gradient[1])
        gradient.addcmul_(mass, now, value=-1)
        mean.lerp_(gradient, 1 - first)
        length = torch.linalg.vecdot(*gradient)[..., None].clamp_min_(0)
        square.lerp_(length, 1 - second)
        step = rates / (1 - first ** (i + 1)) / ((square / (dimension * (1 - second ** (i + 1)))).sqrt_() + epsilon)
        now.addcmul_(step, mean, value=-1)
        norms = torch.linalg.vecdot(*now)[..., None]
    return loss.log_probabilities(now[1], norms).exp(), values


def _are_apart(products: Tensor, weights: Tensor) -> Tensor:
    """(B,) whether a task's points differ by more than rounding. Else each gradient is nothing but rounding, which Adam
    would make steps of."""
    norms = products.diagonal(dim1=1, dim2=2)
    squared = torch.sub(norms + norms[:, :1], products[:, 0], alpha=2) * (weights[:, 0] > 0)
    return squared.amax(1) > 64 * torch.finfo(norms.dtype).eps * norms.amax(1)


def maximise_information(
    episodes: Episodes,
    *,
    temperature: float,
    cross_entropy: float,
    marginal: float,
    conditional: float,
    alpha: float | Tensor = 1.0,
    learning_rate: float,
    iterations: int,
    moments: Moments,
) -> Predictions:
    """Fit the prototypes of every task by Adam, from the support means on, and classify the queries by them.

    The tasks of a batch are summed in the loss, so each is fitted as it would be alone. With a moment for each
    prototype a step costs (S + Q)^2 K multiply-adds a task, by inner products; with one for each coordinate, where a
    rotation of the features changes the result slightly, and where there are more than 2 D points, 2 (S + Q) K D.

    Returns:
        Predictions with the loss as their trace; Adam does not promise that it falls in every step.
    """
    support, query = episodes.valid.to(episodes.dtype)[:, None].tensor_split([episodes.support_size], dim=2)
    loss = InformationLoss(
        targets=episodes.support_one_hot.mT.contiguous(),
        support_weights=support / support.sum(2, keepdim=True),
        query_weights=query / query.sum(2, keepdim=True),
        temperature=temperature,
        cross_entropy=cross_entropy,
        marginal=marginal,
        conditional=conditional,
        alpha=alpha,
    )
    tasks, size = support.shape[0], support.shape[2] + query.shape[2]
    points = episodes.points if moments == "prototypes" else None
    dimension = episodes.dimension
    by_products = isinstance(points, Gram) and 2 * dimension > size
    cached, width = (_CACHED_PRODUCTS, size) if by_products else (_CACHED, dimension)
    at_once = tasks if support.is_cuda else max(1, cached // (size * width))
    fitted = []
    for start in range(0, tasks, at_once):
        block = slice(start, start + at_once)
        if by_products and isinstance(points, Gram):
            parts = points.values[block], episodes.class_means[block]
            fitted.append(fit_products(loss.select(block), *parts, dimension, learning_rate, iterations))
        else:
            prototypes = Prototypes(loss.select(block), episodes.features[block])
            fitted.append(prototypes.fit(learning_rate, iterations, moments))
    probabilities, traces = (torch.cat(parts, dim=-1 if i else 0) for i, parts in enumerate(zip(*fitted, strict=True)))
    return Predictions(
        probabilities=probabilities[:, :, episodes.support_size :].mT,
        iterations=torch.full((tasks,), iterations, dtype=torch.int64, device=support.device),
        trace=traces,
    )
