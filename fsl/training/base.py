"""Base training: a backbone and a linear classifier learn to tell the base classes apart by cross-entropy.

The classifier is thrown away; the backbone of the epoch with the best validation accuracy is kept. Validation
never sees a classifier: it is the accuracy of nearest prototypes on tasks of the validation classes.
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
from clustering.foundation.streams import stream_key
from fsl.backbones import create_backbone
from fsl.progress import Progress, quiet
from fsl.training.machine import has_fast_bfloat16, keep_freed_memory, resolve_device, resolve_devices
from fsl.training.settings import Log, Setup, Trained, Training
from fsl.weights.checkpoints import load_backbone

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet

RECIPE = 1
"""Of the training code: raise it with a change that gives other weights, so that no old checkpoint is taken for new."""

__all__ = ["RECIPE", "Log", "Trained", "Training", "keep_freed_memory", "load_backbone", "precision_of", "train"]


def precision_of(training: Training, device: str) -> Literal["float32", "bfloat16"]:
    """The arithmetic that a training uses on a device: what "auto" comes to there."""
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
