"""Types of the training of a network by a clustering objective: settings, inputs, and methods that train in steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.deep.networks import Classifier, Prepare
from clustering.deep.objectives import Objective, Relabel
from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.foundation.progress import Advance, Log, Observe

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
    learning_rate: Annotated[float, Above(0)] = 1e-3
    margin_weight: Annotated[float, AtLeast(0)] = 1e-4
    weight_decay: Annotated[float, AtLeast(0)] = 0.0
    views: Annotated[int, AtLeast(0)] = 1

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True, eq=False)
class Job:
    """All that one training is made of; see `train`."""

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


@runtime_checkable
class StepwiseMethod(Protocol):
    """A clusterer with the scikit-learn interface and a parameter `n_clusters`, which learns features in steps.

    After `fit` it has `labels_` (N,) in 0..K-1 and `n_iter_`, the number of steps. `XSDC` is an example.
    """

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        folder: str | Path | None = None,
        log: Log | None = None,
        observe: Observe | None = None,
        advance: Advance | None = None,
    ) -> Any:
        """Learn features and clusters of the rows of X (N, D), with resumable state in `folder`; `advance` counts steps
        done, including those that a resumed fit finds done."""
        ...

    def planned_steps(self, partial_labels: ArrayLike | None = None) -> int:
        """Number of steps of a fit with these labels (N,), -1 where unknown."""
        ...

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, F) learned features of the rows of X (n, D)."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """All learned tensors by name, which `with_weights` loads into an unfitted estimator."""
        ...

    def with_weights(self, weights: Mapping[str, Tensor]) -> Any: ...
