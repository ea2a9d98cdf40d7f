"""Base training in the parts of Lightning: its module, its images, and the callback that shows its progress."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR, OneCycleLR
from torch.utils.data import DataLoader, Sampler, default_convert

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.progress import Progress
from clustering.foundation.streams import stream_key
from fsl.backbones.cosine import CosineClassifier
from fsl.benchmarks.augmentation import Augmentation, Transform, normalise
from fsl.benchmarks.benchmark import Benchmark
from fsl.benchmarks.images import AugmentedImages, ImageSet
from fsl.episodes import Strategy
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.training.settings import Training

CHECKED = 50  # steps between checks of the loss, because on a GPU each check waits for the device
VALIDATED = 512  # images in a batch of validation


class CrossEntropy(lightning.LightningModule):
    """Backbone and classifier, trained with cross-entropy and label smoothing.

    Validation does not use the classifier: after an epoch, the probe strategies are evaluated on fixed 5-way 1-shot
    tasks of the validation classes, and logged as val/NAME. A subclass with another loss overrides `loss`, and
    increases `revision` with a change that gives other weights.

    Args:
        backbone: maps normalised images (N, C, H, W) to features (N, D), with attribute `feature_size` D.
        classes: number of base classes.
        benchmark: its mean and standard deviation normalise the images.
        settings: hyper-parameters.
        seed: seed of dropout and validation tasks; the classifier's weights are drawn from torch's generator.
    """

    revision: ClassVar[int] = 1
    probes: ClassVar[Mapping[str, Strategy]] = {
        "simpleshot": SimpleShot(transform="L2N"),
        "laplacianshot": LaplacianShot(transform="L2N"),
    }

    def __init__(
        self, backbone: nn.Module, classes: int, benchmark: Benchmark, settings: Training, seed: int = 0
    ) -> None:
        super().__init__()
        self.backbone, self.benchmark, self.settings, self.seed = backbone, benchmark, settings, seed
        dimension: int = backbone.feature_size  # type: ignore[assignment]
        cosine = settings.classifier == "cosine"
        self.head = CosineClassifier(dimension, classes, bias=False) if cosine else nn.Linear(dimension, classes)
        # the papers give each other class 0.1 / (K - 1); torch distributes its smoothing over all K classes
        self.smoothing = min(1.0, settings.label_smoothing * classes / (classes - 1))
        self._features: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, D) of (N, C, H, W) images in 0..255."""
        pixels = normalise(images, self.benchmark.mean, self.benchmark.std)
        features: Tensor = self.backbone(pixels.contiguous(memory_format=torch.channels_last))
        return features

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch: (N, C, H, W) images in 0..255 and (N,) labels."""
        return functional.cross_entropy(self.head(self(images)), labels, label_smoothing=self.smoothing)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(*batch)
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=len(batch[1]))
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._features.append(self(batch[0]).float().cpu())

    def on_validation_epoch_end(self) -> None:
        validation: ImageSet = self.trainer.datamodule.validation  # type: ignore[attr-defined]
        bank = FeatureBank(torch.cat(self._features), validation.labels, validation.class_names)
        self._features = []
        counts = torch.bincount(bank.labels)
        sampler = Balanced(way=min(5, len(counts)), query=min(15, int(counts.min()) - 1))
        tasks = sampler.tasks(bank.labels, stream_key(self.seed, "training", "validation"))
        found = evaluate(self.probes, bank, tasks, self.settings.validation_tasks)
        scores = {f"val/{name}": result.accuracy for name, result in found.items()}
        scores |= {f"val/{name}_ci95": result.ci95 for name, result in found.items()}
        # features of other devices differ in the statistics of batch normalisation; the weights of the first are saved
        self.log_dict(self.trainer.strategy.broadcast(scores), batch_size=1)

    def configure_optimizers(self) -> Any:
        """SGD, and a scheduler of torch that moves each step."""
        own, data = self.settings, self.trainer.datamodule  # type: ignore[attr-defined]
        optimizer = torch.optim.SGD(self.parameters(), own.learning_rate, own.momentum, weight_decay=own.weight_decay)
        scheduler = schedule(optimizer, own, data.steps_per_epoch, int(self.trainer.max_epochs or own.epochs))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_epoch_start(self) -> None:
        # depends on the number of the epoch, so that a resumed training drops the same activations; each device others
        torch.manual_seed(stream_key(self.seed, "training", "dropout", self.current_epoch, self.global_rank))


def schedule(optimizer: torch.optim.Optimizer, settings: Training, steps: int, epochs: int) -> LRScheduler:
    """The scheduler of a training of so many epochs, with `steps` optimiser steps each."""
    total = steps * epochs
    if settings.schedule == "one_cycle":
        share = settings.warmup / epochs if settings.warmup * steps > 1 else 0.0  # torch's cannot rise in one step
        return OneCycleLR(
            optimizer, settings.learning_rate, total_steps=total, pct_start=min(1.0, share), cycle_momentum=False
        )
    if settings.schedule == "cosine":
        return CosineAnnealingLR(optimizer, total)
    return MultiStepLR(optimizer, [round(epoch * steps) for epoch in settings.milestones])


class BaseClasses(lightning.LightningDataModule):
    """Augmented images of the base classes in random order, and the images of the validation classes.

    The order of an epoch depends on (seed, epoch), and the change of an image on (seed, epoch, index), so that a
    resumed training and any number of workers or devices give the same images. Images stay in 0..255; the module
    normalises them on its device. The last incomplete batch of an epoch is dropped.

    Args:
        base, validation: images of disjoint classes.
        benchmark: its `augmentation`, see `fsl.benchmarks.augmentation.Transform`.
        settings: batch size, of all devices together, and changes of an `Augmentation`.
        seed: seed of order and augmentation.
        workers: processes that prepare batches; 0: the training process itself.
    """

    def __init__(
        self, base: ImageSet, validation: ImageSet, benchmark: Benchmark, settings: Training, seed: int, workers: int
    ) -> None:
        super().__init__()
        counts = torch.bincount(validation.labels)
        if len(base.class_names) < 2 or len(counts) < 2 or int(counts.min()) < 2:
            raise InputError(
                f"benchmark {benchmark.name}: training needs 2 base classes or more, and validation 2 classes or more "
                "with 2 images or more each"
            )
        self.base, self.validation, self.seed, self.workers = base, validation, seed, workers
        self.batch_size = min(settings.batch_size, len(base))
        self.transform: Transform = benchmark.augmentation
        if isinstance(self.transform, Augmentation):
            self.transform = self.transform.adapted(settings.crop, settings.jitter)

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps in an epoch. Lightning's own count would create the loader too early."""
        trainer: Any = self.trainer
        count, limit = len(self.base) // self.batch_size, trainer.limit_train_batches
        batches: int = min(count, limit) if isinstance(limit, int) else int(count * limit)
        return -(-batches // int(trainer.accumulate_grad_batches))

    def epoch(self) -> int:
        """The epoch of the next step. With workers, Lightning starts an epoch's iterator before it counts the epoch."""
        return self.trainer.global_step // self.steps_per_epoch if self.trainer else 0

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(
            AugmentedImages(self.base, self.transform, self.seed),
            batch_sampler=_Order(self),
            collate_fn=default_convert,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            generator=torch.Generator(),  # or else it draws from the generator of dropout
            pin_memory=torch.cuda.is_available(),
        )

    def val_dataloader(self) -> DataLoader[Any]:
        images, labels = torch.split(self.validation.images, VALIDATED), torch.split(self.validation.labels, VALIDATED)
        batches: Any = list(zip(images, labels, strict=True))
        return DataLoader(batches, batch_size=None)


class _Order(Sampler[list[tuple[int, int]]]):
    """Batches of (epoch, index) pairs; each device takes every n-th pair of a batch."""

    def __init__(self, data: BaseClasses) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data.base) // self._data.batch_size

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        data, epoch = self._data, self._data.epoch()
        rank, ranks = (data.trainer.global_rank, data.trainer.world_size) if data.trainer else (0, 1)
        generator = torch.Generator().manual_seed(stream_key(data.seed, "training", "order", epoch))
        order = torch.randperm(len(data.base), generator=generator)
        for batch in torch.split(order[: len(self) * data.batch_size], data.batch_size):
            yield [(epoch, index) for index in batch[rank::ranks].tolist()]


class Reporter(lightning.Callback):
    """Validates after the last epoch, too, ends a training that diverges, shows progress with the monitored metric and
    the epoch after which it was computed, and writes the training's identity and metrics into each checkpoint."""

    def __init__(self, progress: Progress, description: str, monitor: str, identity: str) -> None:
        self._progress, self._description, self._monitor, self._identity = progress, description, monitor, identity
        self._open = ExitStack()
        self._shown: dict[str, float | str] = {}

    def on_train_start(self, trainer: Any, module: Any) -> None:
        epochs, batches = trainer.max_epochs - trainer.current_epoch, trainer.num_training_batches
        left = epochs * batches * trainer.datamodule.batch_size
        self._advance = self._open.enter_context(self._progress.track(self._description, left))

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        if trainer.current_epoch + 1 == trainer.max_epochs:
            trainer.check_val_every_n_epoch = 1

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        last = trainer.is_last_batch
        if last or (batch_idx + 1) % CHECKED == 0:
            self._shown = {**self._shown, "loss": float(outputs["loss"])}
            values = [outputs["loss"], *(module.state_dict().values() if last else ())]  # weights before they are saved
            if not all(value.isfinite().all() for value in values):
                epoch = trainer.current_epoch
                raise InputError(
                    f"training diverged: loss or weights are not finite at step {batch_idx + 1} of epoch {epoch + 1} "
                    f"({f'epoch {epoch} is kept' if epoch else 'nothing is kept'}); lower learning_rate"
                )
        self._advance(trainer.datamodule.batch_size, **self._shown)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        metrics = trainer.callback_metrics
        if self._monitor not in metrics:
            raise unknown("metric to monitor", self._monitor, metrics)
        shown = f"{100 * float(metrics[self._monitor]):.2f} %"
        self._shown = {"loss": self._shown["loss"], f"validation after epoch {trainer.current_epoch + 1}:": shown}
        self._advance(0, **self._shown)

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["identity"] = self._identity
        checkpoint["metrics"] = {name: float(value) for name, value in trainer.callback_metrics.items()}

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._open.close()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        self._open.close()
