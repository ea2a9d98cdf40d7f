"""Callback of base training: checks of the loss, validation, saving, logging and early stopping.

With several processes, rank 0 validates, saves and logs while the others wait. All processes check the loss.
"""

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as lightning
import torch
from torch import Tensor

from clustering.files.training_state import save_state
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Advance, Log
from clustering.foundation.streams import stream_key
from fsl.evaluation.episodic import evaluate
from fsl.evaluation.scores import Evaluation
from fsl.features.bank import FeatureBank, extract
from fsl.samplers.balanced import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.tasks import TaskSource
from fsl.training.classification import Classification, Job
from fsl.training.machine import return_freed_memory
from fsl.weights.checkpoints import save_backbone

WINDOW = 50  # steps between checks of the loss, because on a GPU each check waits for the device


@dataclass
class TrainingState:
    """The progress of a training, stored in `last.ckpt`.

    Attributes:
        epoch: number of finished epochs.
        best_epoch: the epoch with the best validation accuracy, from 1; 0 before the first validation.
        best_accuracy: the validation accuracy of the best epoch.
        best_ci95: half width of the 95 % confidence interval of `best_accuracy` over tasks; None in files of earlier
            versions.
        stale: number of validations since the best epoch.
        stopped: whether the training stopped early.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_accuracy: float = -1.0
    best_ci95: float | None = None
    stale: int = 0
    stopped: bool = False


class Bookkeeping(lightning.Callback):
    """Checks the loss, validates, saves the best and the last state, logs, and stops early."""

    def __init__(self, standing: TrainingState, log: Log | None, advance: Advance) -> None:
        self.standing, self.advance = standing, advance
        self.curves = log  # Lightning itself sets the attribute `log` of a callback
        self.images, self.seconds = 0, 0.0
        self._shown: dict[str, float] = {}
        self._losses: list[Tensor] = []
        self._means: list[tuple[int, float]] = []
        self._tasks: TaskSource | None = None

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._losses, self._means = [], []
        self._began = time.perf_counter()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._losses.append(outputs["loss"].detach())
        if len(self._losses) == WINDOW:
            self._look(trainer, module, batch_idx + 1)
        self.advance(len(batch), **self._shown)

    def _look(self, trainer: Any, module: Classification, steps: int) -> None:
        """Compute the mean of the losses since the last check. `steps` is the number of steps done in this epoch."""
        losses = trainer.strategy.reduce(torch.stack(self._losses).float(), reduce_op="mean").cpu()
        if not losses.isfinite().all():
            step = steps - len(losses) + int((~losses.isfinite()).nonzero()[0]) + 1
            raise self._diverged(module, f"the loss is {losses[~losses.isfinite()][0]:g} at step {step}")
        self._means.append((steps, float(losses.mean())))
        self._losses = []
        self._shown["loss"] = self._means[-1][1]

    def _diverged(self, module: Classification, quantity: str) -> InputError:
        kept = f"epoch {self.standing.epoch} is kept" if self.standing.epoch else "nothing is kept"
        return InputError(
            f"training diverged: {quantity} of epoch {module.epoch + 1} ({kept}); lower learning_rate "
            f"({module.job.training.learning_rate:g}) or add warmup"
        )

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        job: Job = module.job
        if self._losses:
            self._look(trainer, module, job.steps_per_epoch)
        if not all(values.isfinite().all() for values in module.state_dict().values()):  # running statistics too
            raise self._diverged(module, "weights are no longer finite at the end")  # before they are saved
        seconds = time.perf_counter() - self._began
        images = job.steps_per_epoch * job.batch_size
        self.images, self.seconds = self.images + images, self.seconds + seconds
        if trainer.is_global_zero:
            self._close(module, images / seconds)
        self.standing = TrainingState(**trainer.strategy.broadcast(dataclasses.asdict(self.standing)))
        if self.standing.stopped:
            trainer.should_stop = True

    def _close(self, module: Classification, images_per_second: float) -> None:
        """Validate if it is due at this epoch, then log and save."""
        job: Job = module.job
        epoch = module.epoch + 1
        values = {
            "train_loss": self._epoch_loss(),
            "learning_rate": module.rate(epoch * job.steps_per_epoch - 1),
            "images_per_second": images_per_second,
        }
        last = epoch == job.training.epochs
        if last or epoch % job.training.validate_every == 0:
            return_freed_memory()  # memory of the training steps
            validated = self._validate(module)
            return_freed_memory()  # memory of the validation
            # torch's sum and numpy's differ in the last digit, and stored checkpoints have torch's
            accuracy = float(torch.from_numpy(validated.accuracies).mean())
            values["validation_accuracy"] = accuracy
            self._judge(module, epoch, accuracy, validated.ci95)
        self.standing.epoch = epoch
        if self.curves is not None:
            # logged before the state is saved: after a crash an epoch may be logged twice, but none is missing
            first = (epoch - 1) * job.steps_per_epoch
            for steps, mean in self._means:
                step = first + steps
                self.curves.metrics({"step_loss": mean, "step_learning_rate": module.rate(step - 1)}, step)
            self.curves.metrics(values, epoch)
        state = {
            "identity": job.identity,
            "standing": dataclasses.asdict(self.standing),
            "weights": module.state_dict(),
            "optimizer": module._optimizer.state_dict(),
        }
        save_state(job.folder / "last.ckpt", state)

    def _epoch_loss(self) -> float:
        counts = [steps - before for (steps, _), (before, _) in zip(self._means, [(0, 0), *self._means], strict=False)]
        return sum(n * mean for n, (_, mean) in zip(counts, self._means, strict=True)) / sum(counts)

    def _validate(self, module: Classification) -> Evaluation:
        """Nearest-prototype accuracy on 5-way 1-shot validation tasks with L2-normalised features."""
        job = module.job
        features = extract(
            module.backbone,
            job.validation,
            mean=job.benchmark.mean,
            std=job.benchmark.std,
            device=str(module.device),
        )
        bank = FeatureBank(features, job.validation.labels, job.validation.class_names)
        if self._tasks is None:
            self._tasks = validation_tasks(job)
        count = job.training.validation_tasks
        return evaluate({"prototypes": SimpleShot(transform="L2N")}, bank, self._tasks, count)["prototypes"]

    def _judge(self, module: Classification, epoch: int, accuracy: float, ci95: float) -> None:
        """Save the weights if they are the best so far; otherwise increase the count for early stopping."""
        job, standing = module.job, self.standing
        self._shown["accuracy"] = accuracy
        if accuracy <= standing.best_accuracy:
            standing.stale += 1
            standing.stopped = job.training.patience is not None and standing.stale >= job.training.patience
            return
        standing.best_epoch, standing.best_accuracy, standing.stale = epoch, accuracy, 0
        standing.best_ci95 = ci95
        details = {
            "benchmark": job.benchmark.name,
            "mean": list(job.benchmark.mean),
            "std": list(job.benchmark.std),
            "epoch": epoch,
            "seed": job.seed,
            "validation_accuracy": accuracy,
        }
        save_backbone(
            job.folder / "best.safetensors",
            module.backbone,
            job.backbone_name,
            channels=job.benchmark.channels,
            size=job.benchmark.size,
            about=details,
        )


def validation_tasks(job: Job) -> TaskSource:
    """5-way 1-shot tasks with 15 queries per class, or fewer classes or queries if there are not enough images."""
    counts = torch.bincount(job.validation.labels)
    if len(counts) < 2 or int(counts.min()) < 2:
        raise InputError(
            f"benchmark {job.benchmark.name}: validation needs 2 classes or more with 2 images or more each"
        )
    sampler = Balanced(way=min(5, len(counts)), query=min(15, int(counts.min()) - 1))
    return sampler.tasks(job.validation.labels, stream_key(job.seed, "training", "validation"))
