"""Linear heads trained on the support of many tasks at once, by their coefficients.

Stochastic gradients of a linear head are sums of support examples, so its weights stay

    w_k = a_k w0_k + sum_s c_ks x_s,   w0_k the random vector it began with,

and training needs the inner products of the support alone: a step costs K S^2 instead of K S D.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.episodes import Episodes

LARGEST_SUPPORT = 4096
"""Support examples of a task: 64 MiB of inner products in float32, and 100,000 steps of the default schedule."""


@dataclass(frozen=True)
class Schedule:
    """Mini-batches in random order, for so many epochs, by gradient descent with momentum."""

    learning_rate: float
    momentum: float
    dampening: float
    weight_decay: float
    batch: int
    epochs: int


@dataclass(frozen=True)
class Draw:
    """The random part of training, which neither the batch of tasks nor the names of their classes change.

    The classes of a task take their initial vectors in the order of their support means along one random direction,
    and its examples their places in the mini-batches likewise: as random as if they took them as they come, but a
    task with its classes or examples in another order gets the same head.

    Attributes:
        weights: (K, D) initial vectors, uniform in +-1 / sqrt(D).
        bias: (K,) initial biases, likewise.
        slots: (B, K) which of them each class takes.
        positions: (B, epochs, S) place of each example in the order of each epoch; padded ones come last.
    """

    weights: Tensor
    bias: Tensor
    slots: Tensor
    positions: Tensor

    @classmethod
    def of(cls, episodes: Episodes, seed: int, epochs: int) -> "Draw":
        """Of the tasks.

        Raises:
            InputError: too large a support.
        """
        support, one_hot = episodes.support, episodes.support_one_hot
        if (size := support.shape[1]) > LARGEST_SUPPORT:
            raise InputError(
                f"the head is trained on all pairs of support examples, up to {LARGEST_SUPPORT:,} of them a task, not "
                f"{size:,}; give fewer shots, or let other strategies take this task"
            )
        dimension, bound = support.shape[2], support.shape[2] ** -0.5
        weights, bias, direction = (
            torch.from_numpy(numbers).to(support)
            for numbers in (
                stream(seed, "linear head", "weights").uniform(-bound, bound, (episodes.way, dimension)),
                stream(seed, "linear head", "bias").uniform(-bound, bound, episodes.way),
                stream(seed, "linear head", "direction").standard_normal(dimension),
            )
        )
        along = support @ direction
        means = (one_hot * along[..., None]).sum(1) / one_hot.sum(1)
        # A row of keys for each rank, so that the order of n examples does not depend on how many are padded.
        keys = stream(seed, "linear head", "order").random((support.shape[1], epochs)).T[None]
        places = torch.from_numpy(np.ascontiguousarray(keys)).to(support.device)
        if episodes.support_mask is not None:
            along = along.masked_fill(~episodes.support_mask, torch.inf)
            ranks = torch.arange(support.shape[1], device=support.device)
            padding = ranks >= episodes.support_mask.sum(dim=1, keepdim=True)
            places = places.masked_fill(padding[:, None], torch.inf)
        positions = _ranks(places).expand(len(support), -1, -1)
        return cls(weights, bias, _ranks(means), positions.gather(2, _ranks(along)[:, None].expand_as(positions)))

    def products(self, rows: Tensor) -> Tensor:
        """(B, K, N) inner products of each class's initial vector with (B, N, D) rows."""
        products = (rows @ self.weights.T).mT
        return products.gather(1, self.slots[..., None].expand_as(products))


def train(
    state: Tensor,
    gradient: Callable[[Tensor, Tensor], Tensor],
    draw: Draw,
    schedule: Schedule,
    support_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Descend from a state by stochastic gradients, with momentum and weight decay as `torch.optim.SGD` has them.

    Args:
        state: (B, K, C) coefficients to begin with.
        gradient: of the summed loss of a mini-batch with respect to the state, from the state and the (B, 1, S)
            weight of each example: one over the number of examples in the batch, 0 outside.
        draw: gives the mini-batches.
        schedule: see there.
        support_mask: (B, S) bool, or None.

    Returns:
        The trained state, and the (B,) int64 steps taken: a task with few examples takes fewer steps per epoch.

    Raises:
        InputError: the state grew without bound.
    """
    places = torch.arange(-(-draw.positions.shape[2] // schedule.batch), device=state.device)[:, None, None, None]
    fraction = 1 - schedule.dampening if schedule.momentum > 0 else 1.0
    velocity: Tensor | None = None
    steps = torch.zeros(len(state), dtype=torch.int64, device=state.device)
    for batches in (draw.positions // schedule.batch).unbind(1):
        chosen = batches[:, None] == places  # (batches, B, 1, S)
        if support_mask is not None:
            chosen &= support_mask[:, None]
        counts = chosen.sum(dim=3, keepdim=True)
        shares = chosen / counts.to(state.dtype).clamp_min(1)
        steps += (counts > 0).sum(dim=(0, 2, 3))
        for share, active in zip(shares, counts > 0, strict=True):
            change = gradient(state, share).add_(state, alpha=schedule.weight_decay)
            fresh = change if velocity is None else (schedule.momentum * velocity).add_(change, alpha=fraction)
            if support_mask is not None and velocity is not None:  # a batch of padding is no step
                fresh = torch.where(active, fresh, velocity)
            velocity = fresh
            moved = torch.add(state, velocity, alpha=-schedule.learning_rate)
            state = moved if support_mask is None else torch.where(active, moved, state)
    if not bool(state.isfinite().all()):
        raise InputError(
            f"training left the range of numbers with learning_rate={schedule.learning_rate:g} and "
            f"weight_decay={schedule.weight_decay:g}; give smaller ones"
        )
    return state, steps


def _ranks(values: Tensor) -> Tensor:
    """Rank of each value along the last dimension, ties to the lowest index first."""
    return values.argsort(dim=-1, stable=True).argsort(dim=-1)
