"""Run of a base training with Lightning, without Lightning's own output."""

from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning.strategies import DDPStrategy

from clustering.foundation.progress import Log, Progress
from clustering.foundation.quiet_lightning import train_quietly
from fsl.training.bookkeeping import Bookkeeping, TrainingState, validation_tasks
from fsl.training.classification import Classification, Job
from fsl.training.settings import Trained


def fit(job: Job, state: Mapping[str, Any] | None, log: Log | None, progress: Progress) -> Trained:
    """Run the remaining epochs."""
    standing = TrainingState(**state["standing"]) if state else TrainingState()
    epochs, per_epoch = job.training.epochs, job.steps_per_epoch * job.batch_size
    resumed_at, images, speed = standing.epoch, 0, 0.0
    if standing.epoch < epochs and not standing.stopped:
        validation_tasks(job)  # report too small classes now and not after the first epoch
        module = Classification(job, state)
        module.to(memory_format=torch.channels_last)
        name = f"training {job.backbone_name} on {job.benchmark.name}"
        with progress.track(name, (epochs - resumed_at) * per_epoch) as advance:
            bookkeeping = Bookkeeping(standing, log, advance)
            _run(job, module, bookkeeping, epochs - resumed_at)
        standing = bookkeeping.standing
        images, speed = bookkeeping.images, bookkeeping.images / max(bookkeeping.seconds, 1e-9)
    return Trained(
        path=job.folder / "best.safetensors",
        validation_accuracy=standing.best_accuracy,
        validation_ci95=standing.best_ci95,
        best_epoch=standing.best_epoch,
        epochs=standing.epoch,
        images=resumed_at * per_epoch + images,
        images_per_second=speed,
        resumed_at=resumed_at,
    )


def _run(job: Job, module: Classification, bookkeeping: Bookkeeping, epochs: int) -> None:
    on_gpu = job.device.type == "cuda"
    index = (job.device.index or 0) if on_gpu else 0
    devices: list[int] | int = list(range(index - job.rank, index - job.rank + job.ranks)) if on_gpu else job.ranks
    # Each rank has its own batch normalisation statistics, as in the papers' DataParallel; those of rank 0 are kept.
    strategy: DDPStrategy | str = DDPStrategy(broadcast_buffers=False) if job.ranks > 1 else "auto"
    train_quietly(
        module,
        job.device,
        epochs,
        job.folder,
        devices=devices,
        strategy=strategy,
        precision="bf16-mixed" if job.bfloat16 else "32-true",
        callbacks=[bookkeeping],
    )
