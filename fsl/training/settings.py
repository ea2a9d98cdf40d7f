"""Hyper-parameters and result of base training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate


@dataclass(frozen=True)
class Training:
    """Hyper-parameters of base training. The defaults are those of the papers (thesis 4.4, journal 6).

    Precision, devices and early stopping are settings and callbacks of Lightning's Trainer, see `train`.

    Attributes:
        epochs: passes over the base images.
        batch_size: images per step. The last incomplete batch of an epoch is dropped; it has other images each epoch.
        learning_rate: peak of the schedule.
        momentum, weight_decay: parameters of stochastic gradient descent; the decay applies to all weights.
        classifier: classifier on top of the backbone: linear, or cosines of features and class weights.
        label_smoothing: the target of the true class is 1 - label_smoothing; the other classes share the rest equally.
        schedule: learning-rate schedule of torch: MultiStepLR, CosineAnnealingLR or OneCycleLR.
        milestones: epochs at which the step schedule multiplies the rate by 0.1.
        warmup: epochs during which the rate of the one-cycle schedule rises.
        crop: smallest fraction of the area that the random resized crop keeps, 1 for none; null: the benchmark's.
        jitter: factor of the extents of the benchmark's other random changes (brightness, contrast, saturation;
            rotation, translation, scale, shear), 0 for none. Its flips are kept.
        validate_every: epochs between validations; the last epoch is always validated.
        validation_tasks: number of 5-way 1-shot tasks in a validation.

    Raises:
        InputError: a value is out of range; the message names the field.
    """

    epochs: Annotated[int, AtLeast(1)] = 90
    batch_size: Annotated[int, AtLeast(2)] = 256
    learning_rate: Annotated[float, Above(0)] = 0.1
    momentum: Annotated[float, Within(0, 1)] = 0.9
    weight_decay: Annotated[float, AtLeast(0)] = 1e-4
    classifier: Literal["linear", "cosine"] = "linear"
    label_smoothing: Annotated[float, Within(0, 0.5)] = 0.1
    schedule: Literal["step", "cosine", "one_cycle"] = "step"
    milestones: tuple[int, ...] = (45, 66)
    warmup: Annotated[float, AtLeast(0)] = 0.0
    crop: Annotated[float, Within(0.01, 1)] | None = None
    jitter: Annotated[float, Within(0, 1)] = 1.0
    validate_every: Annotated[int, AtLeast(1)] = 4
    validation_tasks: Annotated[int, AtLeast(1)] = 500

    def __post_init__(self) -> None:
        validate(self)
        if self.warmup and self.schedule != "one_cycle":
            raise InputError(
                f"Training: warmup={self.warmup:g} needs schedule=one_cycle; leave it out, or set warmup=0"
            )
        if self.warmup >= self.epochs:
            raise InputError(
                f"Training: warmup={self.warmup:g} must be below epochs ({self.epochs}); set warmup={self.epochs / 2:g}"
            )
        if self.schedule == "one_cycle" and not self.warmup:
            raise InputError("Training: schedule=one_cycle needs warmup=EPOCHS, above 0; without, use schedule=cosine")


@dataclass(frozen=True)
class Trained:
    """Result of a training."""

    path: Path  # safetensors file with the backbone of the best epoch
    validation_accuracy: float  # monitored metric at the best epoch: by default accuracy of SimpleShot, a fraction
    validation_ci95: float | None  # half width of its 95 % interval over tasks; None if the metric has none
    best_epoch: int  # from 1
    epochs: int  # trained epochs, in all sessions
    resumed_at: int = 0  # epochs that were finished before this session
