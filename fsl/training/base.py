"""Base training: a backbone and a linear classifier learn to tell the base classes apart by cross-entropy.

The classifier is thrown away; the backbone of the epoch with the best validation accuracy is kept. Validation
never sees a classifier: it is the accuracy of nearest prototypes on tasks of the validation classes.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import torch

from clustering.files.training_state import load_state
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate
from clustering.foundation.streams import stream_key
from fsl.backbones import create_backbone
from fsl.progress import Progress, quiet
from fsl.training.machine import has_fast_bfloat16, keep_freed_memory, resolve_device, resolve_devices
from fsl.training.schedules import Schedule
from fsl.weights.checkpoints import load_backbone

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet

RECIPE = 1
"""Of the training code: raise it with a change that gives other weights, so that no old checkpoint is taken for new."""

__all__ = ["RECIPE", "Log", "Trained", "Training", "keep_freed_memory", "load_backbone", "precision_of", "train"]


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


def precision_of(training: Training, device: str) -> Literal["float32", "bfloat16"]:
    """The arithmetic that a training uses on a device: what "auto" comes to there."""
    if training.precision != "auto":
        return training.precision
    return "bfloat16" if has_fast_bfloat16(resolve_device(device)) else "float32"


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
    """What a training is made of before there is a network: each of several processes is handed one; see `train`.

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


def train(
    backbone_name: str,
    benchmark: "Benchmark",
    base: "ImageSet",
    validation: "ImageSet",
    training: Training,
    seed: int,
    folder: Path,
    *,
    log: Log | None = None,
    progress: Progress = quiet,
    device: str = "auto",
    devices: int = 1,
) -> Trained:
    """Train a backbone on the base classes, or go on after the last finished epoch that `folder` holds.

    An interrupted and resumed training gives the same weights, bit by bit, as an uninterrupted one on the
    same machine with the same number of threads. Nothing is seeded globally: torch's random state stays.

    On several devices each batch is divided among processes, one for each device. Batches, steps and what is drawn for
    an image stay the same, so that weights differ by rounding, but for two things: batch normalisation takes its
    statistics over the images of one device, and dropout draws other units on each. A training may go on with another
    number of devices than it began with.

    Args:
        backbone_name: see `create_backbone`.
        benchmark: how the images are normalised and augmented.
        base, validation: images of disjoint classes.
        training: hyper-parameters.
        seed: weights, order of images, augmentation and validation tasks derive from it.
        folder: gets `last.ckpt` after each epoch and `best.safetensors` whenever validation improves.
        log: takes train_loss, learning_rate, images_per_second, validation_accuracy each epoch, and
            step_loss, step_learning_rate along the steps.
        progress: reports images done.
        device: "auto", "cpu", "cuda", "cuda:N".
        devices: how many: the GPUs from that one on, or so many processes on the CPU. A script that asks for several
            needs the line `if __name__ == "__main__":`.

    Raises:
        ChildProcessError: one of several processes was killed.
        InputError: fewer devices than asked for, or a batch of fewer than 2 images for each; the folder holds another
            training; a backbone that cannot take the images; too few classes; a loss that is no longer finite (what
            was saved last stays).
    """
    places = resolve_devices(device, devices)
    classes = len(base.class_names)
    if classes < 2:
        raise InputError(f"benchmark {benchmark.name}: training needs 2 base classes or more, not {classes}")
    batch = min(training.batch_size, len(base))
    if batch < 2 * devices and devices > 1:
        raise InputError(
            f"devices={devices}: a batch of {batch} images has fewer than 2 for some of them; "
            f"use devices={max(1, batch // 2)} at most, or a larger batch_size"
        )
    precision = precision_of(training, device)
    identity = json.dumps(
        {
            "backbone": backbone_name,
            "benchmark": benchmark.name,
            "base": base.fingerprint,
            "validation": validation.fingerprint,
            "training": dataclasses.asdict(training),
            "seed": seed,
            "precision": precision,
            "recipe": RECIPE,
        },
        sort_keys=True,
    )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for rest in folder.glob(".*.partial.*"):  # of a process that was killed while it wrote
        rest.unlink()
    state = _resumable(folder, identity, progress)
    bfloat16 = precision == "bfloat16"
    setup = Setup(backbone_name, benchmark, base, validation, training, seed, folder, identity, bfloat16)
    work = functools.partial(_work, setup, places, state is not None)
    standing = state["standing"] if state else None
    finished = standing is not None and (standing["epoch"] == training.epochs or standing["stopped"])
    if devices == 1 or finished:
        return work(0, log, progress)
    from fsl.training.ranks import in_ranks

    return in_ranks(work, devices, "gloo" if places[0].type == "cpu" else "nccl", log, progress)


def _work(
    setup: Setup,
    places: Sequence[torch.device],
    goes_on: bool,
    rank: int,
    log: Log | None,
    progress: Progress,
) -> Trained:
    """What the process of each rank does, on its place; `goes_on`: after the state that the folder holds."""
    state = load_state(setup.folder / "last.ckpt") if goes_on else None
    benchmark, classes = setup.benchmark, len(setup.base.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(setup.seed, "training", "initial weights"))
        backbone = create_backbone(setup.backbone_name, channels=benchmark.channels, size=benchmark.size)
        head = torch.nn.Linear(backbone.feature_size, classes)  # type: ignore[arg-type]

    # not above: Lightning takes seconds to import
    from fsl.training.classification import Job
    from fsl.training.fitting import fit

    job = Job(**vars(setup), backbone=backbone, head=head, device=places[rank], rank=rank, ranks=len(places))
    return fit(job, state, log, progress)


def _resumable(folder: Path, identity: str, progress: Progress) -> dict[str, Any] | None:
    """The state to go on from, or None to begin anew."""
    last, best = folder / "last.ckpt", folder / "best.safetensors"
    if not last.exists():
        return None
    state = load_state(last)
    if state is None or "identity" not in state:
        progress.note(f"{last} is damaged and was discarded; training begins anew")
        last.unlink()
        return None
    if state["identity"] != identity:
        raise InputError(f"{last}: belongs to another training; choose another folder, or remove this one")
    if state["standing"]["best_epoch"]:
        try:
            load_backbone(best)
        except InputError as error:
            progress.note(f"{error}; training begins anew")
            last.unlink()
            return None
    progress.note(f"going on after epoch {state['standing']['epoch']} of {folder}")
    return state
