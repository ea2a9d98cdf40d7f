"""Types of base training: hyper-parameters, inputs, where it reports to, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate
from fsl.training.schedules import Schedule

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet


@dataclass(frozen=True)
class Training:
    """Hyper-parameters of base training; the defaults are those of the papers (thesis 4.4, journal 6).

    Attributes:
        epochs: passes over the base images.
        batch_size: images a step; what does not fill a batch is left out, other images each epoch.
        learning_rate: the schedule's peak.
        momentum, nesterov, weight_decay: of stochastic gradient descent; the decay is on every weight.
        label_smoothing: the target is 1 - this for the true class; the others share the rest.
        schedule: how the learning rate falls, see `fsl.training.schedules`.
        milestones: epochs at which the step schedule falls.
        gamma: by how much it falls.
        warmup: epochs of rising learning rate.
        augment: share of the random changes of the benchmark that images get: 1 all of each, 0 none.
        precision: of the arithmetic; auto is bfloat16 where the processor has it in hardware, else float32.
        validate_every: epochs between validations; the last epoch is always validated.
        validation_tasks: 5-way 1-shot tasks of a validation.
        patience: stop after so many validations without a better one; null for never.

    Raises:
        InputError: names the field whose value cannot be.
    """

    epochs: Annotated[int, AtLeast(1)] = 90
    batch_size: Annotated[int, AtLeast(2)] = 256
    learning_rate: Annotated[float, Above(0)] = 0.1
    momentum: Annotated[float, Within(0, 1)] = 0.9
    nesterov: bool = False
    weight_decay: Annotated[float, AtLeast(0)] = 1e-4
    label_smoothing: Annotated[float, Within(0, 0.5)] = 0.1
    schedule: Schedule = "step"
    milestones: tuple[int, ...] = (45, 66)
    gamma: Annotated[float, Within(0, 1)] = 0.1
    warmup: Annotated[float, AtLeast(0)] = 0.0
    augment: Annotated[float, Within(0, 1)] = 1.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    validate_every: Annotated[int, AtLeast(1)] = 4
    validation_tasks: Annotated[int, AtLeast(1)] = 500
    patience: Annotated[int, AtLeast(1)] | None = None

    def __post_init__(self) -> None:
        validate(self)
        if self.nesterov and not self.momentum:
            raise InputError("Training: nesterov needs a momentum above 0; set momentum=0.9 or nesterov=false")
        if self.warmup >= self.epochs and self.warmup:
            raise InputError(f"Training: warmup must be below epochs ({self.epochs}), not {self.warmup:g}")


class Log(Protocol):
    """Where the curves of a training go, live."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Take values of one step: an epoch (from 1), or for the names in `step_*` an optimiser step."""
        ...


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    Attributes:
        path: the safetensors file with the backbone of the best epoch.
        validation_accuracy: of that epoch, a fraction.
        validation_ci95: half of its 95 % interval over tasks; None where an earlier version trained up to it.
        best_epoch: that epoch, from 1.
        epochs: how many were trained, in all sessions together.
        images: how many images went through, in all sessions together.
        images_per_second: while training (validation not counted), in this session; 0 if nothing was left.
        resumed_at: finished epochs found at the start.
    """

    path: Path
    validation_accuracy: float
    validation_ci95: float | None
    best_epoch: int
    epochs: int
    images: int
    images_per_second: float
    resumed_at: int = 0


@dataclass(frozen=True, eq=False)
class Setup:
    """What each process of a training is given, before there is a network; see `fsl.training.base.train`.

    Attributes:
        identity: tells this training from any other.
        bfloat16: whether its arithmetic is of that precision.
    """

    backbone_name: str
    benchmark: "Benchmark"
    base: "ImageSet"
    validation: "ImageSet"
    training: Training
    seed: int
    folder: Path
    identity: str
    bfloat16: bool
