"""Base training: a backbone and a classifier are trained on the base classes with Lightning's Trainer.

The classifier is discarded, and the backbone of the epoch with the best validation is stored. Validation does not use
the classifier, see `fsl.training.module.CrossEntropy`.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback
from pytorch_lightning.loggers import Logger

from clustering.deep.trainer import accelerator_of, train_quietly
from clustering.files.torch_files import load_state, resumable
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from clustering.foundation.plugins import dotted
from clustering.foundation.progress import Progress, quiet
from clustering.foundation.streams import stream_key
from fsl.backbones import create_backbone
from fsl.benchmarks.benchmark import Benchmark
from fsl.benchmarks.images import ImageSet
from fsl.training import MODULES
from fsl.training.checkpoints import best_state, checkpoints, started_from_here, stopped_early
from fsl.training.module import BaseClasses, Reporter
from fsl.training.settings import Trained, Training
from fsl.weights.checkpoints import save_backbone

OF_MACHINE = {"accelerator", "devices", "num_nodes", "strategy", "plugins", "default_root_dir", "log_every_n_steps"}
OF_MACHINE |= {"profiler", "detect_anomaly", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"}


def train(
    backbone_name: str,
    benchmark: Benchmark,
    base: ImageSet,
    validation: ImageSet,
    training: Training,
    seed: int,
    folder: Path,
    *,
    module: str = "cross_entropy",
    logger: Logger | None = None,
    callbacks: Sequence[Callback] = (),
    trainer: Mapping[str, Any] | None = None,
    model_checkpoint: Mapping[str, Any] | None = None,
    workers: int = 0,
    progress: Progress = quiet,
    device: str = "auto",
    devices: int = 1,
) -> Trained:
    """Train a backbone on the base classes, or resume after the last finished epoch in `folder`.

    A resumed training gives bitwise the same weights as an uninterrupted one on the same machine with the same number
    of threads and devices. The global random state of torch is not changed.

    Args:
        backbone_name: see `create_backbone`.
        benchmark: defines normalisation and augmentation.
        base, validation: images of disjoint classes.
        training: hyper-parameters.
        seed: seed of the weights, the order of images, the augmentation, dropout and the validation tasks.
        folder: folder of `last.ckpt` (of each epoch), `best.ckpt` (of the best one) and finally `best.safetensors`.
        module: Lightning module with the loss, see `fsl.training.MODULES`.
        logger, callbacks: logger and further callbacks of Lightning.
        trainer: arguments of Lightning's Trainer, which override those that follow from the others.
        model_checkpoint: arguments of the ModelCheckpoint of the best epoch, such as `monitor`.
        workers: processes that prepare batches.
        progress: shows the number of processed images, unless several processes train.
        device: "auto", "cpu", "cuda", "cuda:N".
        devices: number of processes among which each batch is divided: on consecutive GPUs, or on the CPU. A script
            that uses several needs the line `if __name__ == "__main__":`.

    Raises:
        ChildProcessError: one of several processes was killed.
        InputError: another training in the folder (`OF_MACHINE` may differ), a backbone that does not accept the
            images, too few classes, a batch that cannot be divided, a metric that is not logged, a setting that the
            Trainer does not accept, or a loss that is not finite (the files saved last remain).
    """
    place = resolve_device(device)
    every = min(training.validate_every, training.epochs)
    data = BaseClasses(base, validation, benchmark, training, seed, workers)
    steps = len(base) // data.batch_size * training.epochs
    chosen: dict[str, Any] = {"max_epochs": training.epochs, "check_val_every_n_epoch": every}
    chosen |= {"log_every_n_steps": min(50, max(1, steps // 20)), **(trainer or {})}  # a curve of short trainings, too
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(seed, "training", "initial weights"))
        backbone = create_backbone(backbone_name, channels=benchmark.channels, size=benchmark.size)
        network = MODULES.load(module)(backbone, len(base.class_names), benchmark, training, seed)
    network.to(memory_format=torch.channels_last)
    of = (backbone_name, benchmark.name, base.fingerprint, validation.fingerprint, dataclasses.asdict(training), seed)
    others = {name: str(value) for name, value in (trainer or {}).items() if name not in OF_MACHINE}
    identity = json.dumps([dotted(module), network.revision, *of, *([others] if others else [])], sort_keys=True)
    chosen, ranks = started_from_here(accelerator_of(place, devices) | chosen)
    if data.batch_size % ranks:
        raise InputError(f"devices={ranks}: cannot divide a batch of {data.batch_size} images; set batch_size")

    folder = Path(folder).resolve()
    best, last = checkpoints(folder, **{"monitor": "val/simpleshot", "mode": "max", **(model_checkpoint or {})})
    monitor = str(best.monitor)
    state = resumable(folder / "last.ckpt", identity, progress.note)
    if state is not None and not best_state(state, best):
        progress.note(f"{folder}: the checkpoint of the best epoch is damaged or missing; training begins anew")
        (folder / "last.ckpt").unlink()
        state = None
    finished = 0 if state is None else int(state["epoch"]) + 1
    if state is None or not (finished >= chosen["max_epochs"] or stopped_early(state)):
        if finished:
            progress.note(f"resuming after epoch {finished} of {folder}")
        name = f"training {backbone_name} on {benchmark.name}"
        reporter = Reporter(progress if ranks == 1 else quiet, name, monitor, identity)
        chosen |= {"logger": logger or False, "callbacks": [reporter, *callbacks, best, last]}
        train_quietly(network, folder, data, "last", **chosen)
        state = load_state(folder / "last.ckpt")
        if state is None:
            raise InputError("trainer: its settings ended the training before the first epoch was finished")
    found, path = best_state(state, best), folder / "best.safetensors"
    metrics, best_epoch, epochs = found["metrics"], int(found["epoch"]) + 1, int(state["epoch"]) + 1
    about = {"benchmark": benchmark.name, "mean": list(benchmark.mean), "std": list(benchmark.std), "seed": seed}
    about |= {"epoch": best_epoch, "validation_accuracy": metrics[monitor]}
    network.load_state_dict(found["state_dict"])
    save_backbone(path, backbone, backbone_name, channels=benchmark.channels, size=benchmark.size, about=about)
    return Trained(path, metrics[monitor], metrics.get(f"{monitor}_ci95"), best_epoch, epochs, finished)
