"""Linear softmax heads on fixed features, with several starts together, for the objectives of discriminative
clustering."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clustering.deep import losses
from clustering.deep.objectives import Objective
from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream_key
from clustering.optimiser.adam import Adam
from clustering.optimiser.alternation import Clamp

FASTEST = 1e30
"""Largest learning rate; with a larger one the step of Adam overflows float32."""

Relabel = Literal["batch", "epoch"]
"""When pseudo-labels are computed: for each batch before its step, or for all points at the beginning of each epoch."""


class Heads(NamedTuple):
    """T heads (T, K, D + 1), with biases in the last column, and their results.

    Attributes:
        weights: weights for the points in their original units.
        values: (T,) float64, equation 14: mean entropy + KL(pbar || u) + margin_weight ||v||^2, with v the weights for
            standardised points; used to rank starts, whatever objective they were trained on.
        sizes: (T, K) float64, number of points in each cluster.
    """

    weights: Tensor
    values: Tensor
    sizes: Tensor


def log_probabilities(points: Tensor, weights: Tensor) -> Tensor:
    """(…, N, K) log-probabilities of points (N, D) under heads (…, K, D + 1)."""
    return torch.log_softmax(points @ weights[..., :-1].mT + weights[..., None, :, -1], dim=-1)


def fit_heads(
    points: Tensor,
    n_clusters: int,
    objective: Objective,
    prior: Tensor,
    *,
    starts: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    margin_weight: float,
    start_norm: float,
    seed: int,
    known: Clamp | None = None,
    relabel: Relabel = "batch",
) -> Heads:
    """Train by Adam on batches from random weights, with a learning rate that decays to 0.

    Points are centred and divided by a single number, the root of their mean squared norm, so that the result does not
    depend on their location and scale, but on the relative scales of features. The result of a start does not depend on
    the other starts.

    Args:
        points: (N, D).
        prior: (K,), sums to one.
        starts: T.
        steps: number of Adam steps.
        batch_size: number of points per step; an incomplete last batch of an epoch is dropped.
        margin_weight: weight of ||v||^2, without biases.
        start_norm: mean Frobenius norm of the initial v. If it is small, all features count equally at first, and the
            first boundary is orthogonal to the direction of largest variance.
        seed: seed of starts and batches.
        known: (mask (N,), labels (N,)) of points with known cluster.
        relabel: when pseudo-labels are computed; "epoch" stores (T, N, K) numbers.

    Raises:
        InputError: the loss is not finite; the message names the step.
    """
    mean = points.mean(dim=0)
    centred = points - mean
    scale = float(centred.square().sum(dim=1).mean().sqrt()) or 1.0
    standard = centred / scale
    count, features = points.shape
    weights = points.new_zeros(starts, n_clusters, features + 1)
    for start in range(starts):  # one stream per start, so that more starts do not change the first ones
        generator = torch.Generator().manual_seed(stream_key(seed, "linear heads", "start", start))
        drawn = torch.randn(n_clusters, features, generator=generator, dtype=torch.float64)
        weights[start, :, :-1] = (start_norm / (n_clusters * features) ** 0.5 * drawn).to(weights)
    adam = Adam(weights, learning_rate)
    size = min(batch_size, count)
    in_a_pass = count // size
    for step in range(steps):
        if step % in_a_pass == 0:
            generator = torch.Generator().manual_seed(stream_key(seed, "linear heads", "order", step))
            order = torch.randperm(count, generator=generator).to(points.device)
            epoch_targets = _targets(standard, weights, objective, prior, known) if relabel == "epoch" else None
        chosen = order[step % in_a_pass * size :][:size]
        of_batch = None if known is None else (known[0][chosen], known[1][chosen])
        adam.rate = learning_rate * (1 - step / steps)
        batch = standard[chosen]
        if relabel == "epoch":
            targets = None if epoch_targets is None else epoch_targets[:, chosen]
        else:
            targets = _targets(batch, weights, objective, prior, of_batch)
        loss, slope = _slope(batch, weights, targets, objective, prior, margin_weight, of_batch)
        if not bool(loss.isfinite().all() & slope.isfinite().all()):
            raise _diverged("the loss or its gradient is", step, steps, learning_rate, start_norm)
        adam.step(slope)
    candidates = _judged(standard, weights, prior, margin_weight, mean, scale)
    if not bool(candidates.values.isfinite().all() & candidates.weights.isfinite().all()):
        raise _diverged("the weights or the objective are", steps - 1, steps, learning_rate, start_norm)
    return candidates


def _diverged(quantity: str, step: int, steps: int, learning_rate: float, start_norm: float) -> InputError:
    return InputError(
        f"training diverged: {quantity} not finite at step {step + 1} of {steps}; lower learning_rate "
        f"({learning_rate:g}) or init_norm ({start_norm:g})"
    )


def _targets(
    points: Tensor, weights: Tensor, objective: Objective, prior: Tensor, known: Clamp | None
) -> Tensor | None:
    """(T, n, K) pseudo-labels of points (n, D)."""
    return objective.targets(log_probabilities(points, weights), prior, _of_starts(known, len(weights)))


def _of_starts(known: Clamp | None, starts: int) -> Clamp | None:
    return None if known is None else (known[0].expand(starts, -1), known[1].expand(starts, -1))


def _slope(
    batch: Tensor,
    weights: Tensor,
    targets: Tensor | None,
    objective: Objective,
    prior: Tensor,
    margin_weight: float,
    known: Clamp | None,
) -> tuple[Tensor, Tensor]:
    """(T,) loss on a batch (b, D) with pseudo-labels (T, b, K), and its gradient (T, K, D + 1)."""
    variable = weights.detach().clone().requires_grad_()
    with torch.enable_grad():
        log_p = log_probabilities(batch, variable)
        loss = objective.loss(log_p[None], targets, prior, _of_starts(known, len(weights)))
        loss = loss + margin_weight * losses.margin_norm(variable[..., :-1])
        (slope,) = torch.autograd.grad(loss.sum(), variable)
    return loss.detach(), slope


def _judged(
    standard: Tensor, weights: Tensor, prior: Tensor, margin_weight: float, mean: Tensor, scale: float
) -> Heads:
    """Heads with weights in the original units of the points; processes one start at a time."""
    values = torch.zeros(len(weights), dtype=torch.float64)
    sizes = torch.zeros(weights.shape[:2], dtype=torch.float64)
    for i, head in enumerate(weights):
        log_p = log_probabilities(standard, head)
        spread = losses.tolerant_fairness(log_p.exp().mean(0), prior)
        values[i] = losses.mean_entropy(log_p) + spread + margin_weight * losses.margin_norm(head[:, :-1])
        sizes[i] = torch.bincount(log_p.argmax(1), minlength=weights.shape[1])
    rescaled = weights.clone()
    rescaled[..., :-1] /= scale
    rescaled[..., -1] -= rescaled[..., :-1] @ mean
    return Heads(rescaled, values, sizes)
