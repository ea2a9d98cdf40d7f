"""Settings of the training of a network by a clustering objective, apart from Lightning, whose import is slow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast, Validated

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes each input (n, …) of a batch by its own draw; the generator is of the CPU."""


@dataclass(frozen=True)
class DeepTraining(Validated):
    """How a network is trained; the defaults are for MNIST on a few cores.

    Attributes:
        epochs: passes over the points.
        batch_size: points a step, without their views; what does not fill a batch is left out, others each epoch. Each
            batch is held to the prior by itself, so it must be many times the number of clusters.
        learning_rate: of Adam.
        margin_weight: of the squared norm of the head's weights without bias, gamma in the paper.
        weight_decay: of the backbone's weights of more than one dimension, in the gradient as Adam's own.
        views: changed copies of each point a step.
    """

    epochs: Annotated[int, AtLeast(1)] = 10
    batch_size: Annotated[int, AtLeast(2)] = 250
    learning_rate: Annotated[float, Above(0)] = 1e-3
    margin_weight: Annotated[float, AtLeast(0)] = 1e-4
    weight_decay: Annotated[float, AtLeast(0)] = 0.0
    views: Annotated[int, AtLeast(0)] = 1
