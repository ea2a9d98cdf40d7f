"""Types of the training of a network by a clustering objective: settings, inputs, and where it reports to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clustering.deep.linear_heads import FASTEST, Relabel
from clustering.deep.networks import Classifier, Prepare
from clustering.deep.objectives import Objective
from clustering.foundation.parameters import Above, AtLeast, UpTo, validate
from clustering.foundation.progress import Advance, Log

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes each input (n, …) of a batch by its own draw; the generator is of the CPU."""


@dataclass(frozen=True)
class DeepTraining:
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
    learning_rate: Annotated[float, Above(0), UpTo(FASTEST)] = 1e-3
    margin_weight: Annotated[float, AtLeast(0)] = 1e-4
    weight_decay: Annotated[float, AtLeast(0)] = 0.0
    views: Annotated[int, AtLeast(0)] = 1

    def __post_init__(self) -> None:
        validate(self)


Observe = Callable[[NDArray[np.int64]], Mapping[str, float]]
"""Takes (N,) the clusters of the points as they were seen in an epoch, -1 for those left out, and gives numbers for the
log. Nothing of it goes back into the training."""


@dataclass(frozen=True, eq=False)
class Job:
    """All that one training is made of; see `clustering.deep.training.train`."""

    model: Classifier
    points: Tensor
    objective: Objective
    prior: Tensor
    training: DeepTraining
    relabel: Relabel
    seed: int
    folder: Path | None
    identity: str
    device: torch.device
    prepare: Prepare
    augment: Augment | None
    known: tuple[Tensor, Tensor] | None
    log: Log | None
    observe: Observe | None
    advance: Advance | None

    @property
    def batch_size(self) -> int:
        return min(self.training.batch_size, len(self.points))

    @property
    def steps_per_epoch(self) -> int:
        return len(self.points) // self.batch_size
