"""Types of base training: hyper-parameters, inputs, log and result."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate
from fsl.training.classifiers import ClassifierName
from fsl.training.schedules import Schedule

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet


@dataclass(frozen=True)
class Training:
    """Hyper-parameters of base training. The defaults are those of the papers (thesis 4.4, journal 6).

    Attributes:
        epochs: passes over the base images.
        batch_size: images per step. The last incomplete batch of an epoch is dropped; it has other images each epoch.
        learning_rate: peak of the schedule.
        momentum, nesterov, weight_decay: parameters of stochastic gradient descent; the decay applies to all weights.
        classifier: classifier on top of the backbone, see `fsl.training.classifiers`.
        label_smoothing: the target of the true class is 1 - label_smoothing; the other classes share the rest equally.
        schedule: learning-rate schedule, see `fsl.training.schedules`.
        milestones: epochs at which the step schedule multiplies the rate by `gamma`.
        gamma: factor of the rate at each milestone.
        warmup: epochs during which the learning rate rises.
        crop: smallest fraction of the area that the random resized crop keeps, 1 for none; null: the benchmark's.
        jitter: factor of the extents of the benchmark's other random changes (brightness, contrast, saturation;
            rotation, translation, scale, shear), 0 for none. Its flips are kept.
        precision: precision of the arithmetic; auto is bfloat16 if the processor supports it in hardware, otherwise
            float32.
        validate_every: epochs between validations; the last epoch is always validated.
        validation_tasks: number of 5-way 1-shot tasks in a validation.
        patience: number of validations without improvement after which training stops; null disables it.

    Raises:
        InputError: a value is out of range; the message names the field.
    """

    epochs: Annotated[int, AtLeast(1)] = 90
    batch_size: Annotated[int, AtLeast(2)] = 256
    learning_rate: Annotated[float, Above(0)] = 0.1
    momentum: Annotated[float, Within(0, 1)] = 0.9
    nesterov: bool = False
    weight_decay: Annotated[float, AtLeast(0)] = 1e-4
    classifier: ClassifierName = "linear"
    label_smoothing: Annotated[float, Within(0, 0.5)] = 0.1
    schedule: Schedule = "step"
    milestones: tuple[int, ...] = (45, 66)
    gamma: Annotated[float, Within(0, 1)] = 0.1
    warmup: Annotated[float, AtLeast(0)] = 0.0
    crop: Annotated[float, Within(0.01, 1)] | None = None
    jitter: Annotated[float, Within(0, 1)] = 1.0
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


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    Attributes:
        path: safetensors file with the backbone of the best epoch.
        validation_accuracy: validation accuracy of the best epoch, a fraction.
        validation_ci95: half width of its 95 % confidence interval over tasks; None if an earlier version of the
            program trained the best epoch.
        best_epoch: number of the best epoch, from 1.
        epochs: number of trained epochs, in all sessions.
        images: number of training images processed, in all sessions.
        images_per_second: training speed in this session, without validation; 0 if no epoch remained.
        resumed_at: number of epochs that were finished before this session.
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
    """Inputs of each process of a training, from which it creates the network; see `fsl.training.base.train`.

    Attributes:
        identity: identifies this training uniquely.
        bfloat16: whether the arithmetic is in bfloat16.
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
