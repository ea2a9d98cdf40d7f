"""The Lightning module of base training."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR, OneCycleLR, SequentialLR

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream_key
from fsl.backbones.cosine import CosineClassifier
from fsl.benchmarks.augmentation import normalise
from fsl.benchmarks.benchmark import Benchmark
from fsl.benchmarks.images import ImageSet
from fsl.episodes import Strategy
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.samplers.balanced import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.training.settings import Training

CHECKED = 50  # steps between checks of the loss, because on a GPU each check waits for the device


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
        chosen, data = self.settings, self.trainer.datamodule  # type: ignore[attr-defined]
        optimizer = torch.optim.SGD(
            self.parameters(),
            lr=chosen.learning_rate,
            momentum=chosen.momentum,
            nesterov=chosen.nesterov,
            weight_decay=chosen.weight_decay,
        )
        scheduler = schedule(optimizer, chosen, data.steps_per_epoch, int(self.trainer.max_epochs or chosen.epochs))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_epoch_start(self) -> None:
        # depends on the number of the epoch, so that a resumed training drops the same activations; each device others
        torch.manual_seed(stream_key(self.seed, "training", "dropout", self.current_epoch, self.global_rank))

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        last = self.trainer.is_last_batch
        if last or (batch_idx + 1) % CHECKED == 0:
            loss = float(outputs["loss"])
            if not torch.isfinite(torch.tensor(loss)):
                raise self._diverged(f"the loss is {loss:g} at step {batch_idx + 1}")
        if last and not all(value.isfinite().all() for value in self.state_dict().values()):  # before they are saved
            raise self._diverged("weights are no longer finite at the end")

    def _diverged(self, quantity: str) -> InputError:
        kept = f"epoch {self.current_epoch} is kept" if self.current_epoch else "nothing is kept"
        return InputError(
            f"training diverged: {quantity} of epoch {self.current_epoch + 1} ({kept}); lower learning_rate "
            f"({self.settings.learning_rate:g}) or add warmup"
        )


def schedule(optimizer: torch.optim.Optimizer, settings: Training, steps: int, epochs: int) -> LRScheduler:
    """The scheduler of a training of so many epochs, with `steps` optimiser steps each."""
    total, rising = steps * epochs, round(settings.warmup * steps)
    if settings.schedule == "one_cycle":
        share = settings.warmup / epochs if rising > 1 else 0.0  # the scheduler cannot rise in one step
        return OneCycleLR(
            optimizer, settings.learning_rate, total_steps=total, pct_start=min(1.0, share), cycle_momentum=False
        )
    main: LRScheduler
    if settings.schedule == "cosine":
        main = CosineAnnealingLR(optimizer, max(1, total - rising))
    else:
        main = MultiStepLR(optimizer, [round(epoch * steps) - rising for epoch in settings.milestones], settings.gamma)
    if not rising:
        return main
    warmup = LinearLR(optimizer, start_factor=1 / (rising + 1), total_iters=rising)
    return SequentialLR(optimizer, [warmup, main], milestones=[rising])
