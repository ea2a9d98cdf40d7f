"""Settings of the training of a network by a clustering objective, apart from Lightning, whose import is slow, and the
prior over the clusters: their expected shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from clustering.foundation.errors import InputError
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


def checked_prior(prior: str | ArrayLike, n_clusters: int) -> Tensor:
    """(K,) float32 shares of the classes, which sum to one.

    Args:
        prior: "balanced", or (K,) relative sizes.
        n_clusters: K.

    Raises:
        InputError: the prior is neither, or a share underflows.
    """
    try:
        values = (
            np.ones(n_clusters) if isinstance(prior, str) and prior == "balanced" else np.asarray(prior, np.float64)
        )
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n_clusters,) or not np.isfinite(values).all() or values.min() <= 0:
        raise InputError(
            f"prior must be 'balanced' or {n_clusters} numbers above 0, the clusters' expected sizes, not {prior!r}"
        )
    shares = torch.from_numpy(values / values.sum()).float()
    if shares.min() < torch.finfo(shares.dtype).tiny:
        raise InputError(f"prior={values.tolist()}: the smallest share underflows; remove that cluster")
    return shares
