"""Linear heads trained on the support of many tasks at once, represented by coefficients.

Stochastic gradients of a linear head are linear combinations of support examples, so its weights have the form

    w_k = a_k w0_k + sum_s c_ks x_s,   with the random initial vector w0_k,

and training only needs the inner products of the support: a step costs K S^2 instead of K S D.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.episodes import Episodes

LARGEST_SUPPORT = 4096
"""Maximum number of support examples of a task: 64 MiB of inner products in float32, and 100,000 steps of the default
schedule."""


MOMENTUM, DAMPENING = 0.9, 0.9
"""Of the gradient descent, as in the public code of Chen et al. 2019."""


@dataclass(frozen=True)
class Draw:
    """The random numbers of training. They depend neither on the batch of tasks nor on the order of their classes.

    The initial vectors are assigned to the classes in the order of their support means along a random direction, and
    the examples are assigned to mini-batches in the same way. A task with its classes or examples in another order
    therefore gets the same head.

    Attributes:
        weights: (K, D) initial vectors, uniform in +-1 / sqrt(D).
        bias: (K,) initial biases, with the same distribution.
        slots: (B, K) index of the initial vector of each class.
        positions: (B, epochs, S) position of each example in each epoch; padded ones come last.
    """

    weights: Tensor
    bias: Tensor
    slots: Tensor
    positions: Tensor

    @classmethod
    def of(cls, episodes: Episodes, seed: int, epochs: int) -> "Draw":
        """Draw the random numbers for the tasks.

        Raises:
            InputError: the support is too large.
        """
        support, one_hot = episodes.support, episodes.support_one_hot
        if (size := support.shape[1]) > LARGEST_SUPPORT:
            raise InputError(
                f"the head needs the inner products of all support examples, of which a task may have at most "
                f"{LARGEST_SUPPORT:,}, not {size:,}; use fewer shots, or another strategy"
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
        # One row of keys per rank, so that the order of n examples does not depend on the padding.
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
    schedule: Any,
    support_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Stochastic gradient descent with momentum and weight decay, as in `torch.optim.SGD`.

    Args:
        state: (B, K, C) initial coefficients.
        gradient: function of the state and the (B, 1, S) weights of the examples (1 / batch size in the batch, 0
            outside), which returns the gradient of the mini-batch's loss with respect to the state.
        draw: random numbers that define the mini-batches.
        schedule: learning_rate, weight_decay and batch (examples per step) of the descent.
        support_mask: (B, S) bool, False for padded examples; None without padding.

    Returns:
        The trained state, and the (B,) int64 number of steps: tasks with fewer examples take fewer steps per epoch.

    Raises:
        InputError: the training diverges.
    """
    places = torch.arange(-(-draw.positions.shape[2] // schedule.batch), device=state.device)[:, None, None, None]
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
            fresh = change if velocity is None else (MOMENTUM * velocity).add_(change, alpha=1 - DAMPENING)
            if support_mask is not None and velocity is not None:  # skip batches that contain only padding
                fresh = torch.where(active, fresh, velocity)
            velocity = fresh
            moved = torch.add(state, velocity, alpha=-schedule.learning_rate)
            state = moved if support_mask is None else torch.where(active, moved, state)
    if not bool(state.isfinite().all()):
        raise InputError(
            f"training diverged with learning_rate={schedule.learning_rate:g} and "
            f"weight_decay={schedule.weight_decay:g}; give smaller values"
        )
    return state, steps


def _ranks(values: Tensor) -> Tensor:
    """Rank of each value along the last dimension; ties are ranked by index."""
    return values.argsort(dim=-1, stable=True).argsort(dim=-1)
