"""Base training: a backbone and a classifier are trained on the base classes with cross-entropy.

The classifier is discarded, and the backbone of the epoch with the best validation accuracy is kept. Validation does
not use the classifier: it is the nearest-prototype accuracy on tasks of the validation classes.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from clustering.files.training_state import load_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Log, Progress, quiet
from clustering.foundation.streams import stream_key
from fsl.backbones import create_backbone
from fsl.training.classifiers import create_classifier
from fsl.training.machine import has_fast_bfloat16, keep_freed_memory, resolve_device, resolve_devices
from fsl.training.settings import Setup, Trained, Training
from fsl.weights.checkpoints import load_backbone

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet

RECIPE = 1
"""Version of the training code. Increase it with any change that alters the weights, so that no old checkpoint is used
for the new code."""

__all__ = ["RECIPE", "Trained", "Training", "keep_freed_memory", "load_backbone", "precision_of", "train"]


def precision_of(training: Training, device: str) -> Literal["float32", "bfloat16"]:
    """The precision of a training on a device; "auto" is resolved for this device."""
    if training.precision != "auto":
        return training.precision
    return "bfloat16" if has_fast_bfloat16(resolve_device(device)) else "float32"


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
    """Train a backbone on the base classes, or resume after the last finished epoch in `folder`.

    A resumed training gives bitwise the same weights as an uninterrupted one on the same machine with the same number
    of threads. The global random state of torch is not changed.

    With several devices, each batch is divided among processes, one per device. Batches, steps and augmentation do not
    depend on the number of devices. The weights differ by rounding and for two other reasons: batch normalisation
    computes its statistics over the images of one device, and dropout draws different units on each device. A training
    may resume with a different number of devices.

    Args:
        backbone_name: see `create_backbone`.
        benchmark: benchmark that defines normalisation and augmentation.
        base, validation: images of disjoint classes.
        training: hyper-parameters.
        seed: seed of the weights, the order of images, the augmentation and the validation tasks.
        folder: folder for `last.ckpt`, written after each epoch, and `best.safetensors`, written when validation
            improves.
        log: records train_loss, learning_rate, images_per_second and validation_accuracy per epoch, and step_loss and
            step_learning_rate during an epoch.
        progress: shows the number of processed images.
        device: "auto", "cpu", "cuda", "cuda:N".
        devices: number of devices: consecutive GPUs from `device` on, or processes on the CPU. A script that uses
            several needs the line `if __name__ == "__main__":`.

    Raises:
        ChildProcessError: one of several processes was killed.
        InputError: too few devices, fewer than 2 images of a batch per device, another training in the folder, a
            backbone that does not accept the images, too few classes, or a loss that is not finite (the files saved
            last remain).
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
    for rest in folder.glob(".*.partial.*"):  # left by a process that was killed while writing
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
    """Work of one rank on its device. If `goes_on`, it resumes from the state in the folder."""
    state = load_state(setup.folder / "last.ckpt") if goes_on else None
    benchmark, classes = setup.benchmark, len(setup.base.class_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(setup.seed, "training", "initial weights"))
        backbone = create_backbone(setup.backbone_name, channels=benchmark.channels, size=benchmark.size)
        head = create_classifier(setup.training.classifier, backbone.feature_size, classes)  # type: ignore[arg-type]

    # imported here because importing Lightning takes seconds
    from fsl.training.classification import Job
    from fsl.training.fitting import fit

    job = Job(**vars(setup), backbone=backbone, head=head, device=places[rank], rank=rank, ranks=len(places))
    return fit(job, state, log, progress)


def _resumable(folder: Path, identity: str, progress: Progress) -> dict[str, Any] | None:
    """The state to resume from, or None to start from the beginning."""
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
    progress.note(f"resuming after epoch {state['standing']['epoch']} of {folder}")
    return state
