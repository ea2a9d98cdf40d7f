"""Lightning module of base training: a backbone and a classifier, trained with cross-entropy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clustering.foundation.counted_epochs import CountedEpochs
from clustering.foundation.streams import stream_key
from fsl.training.augmentation import normalise
from fsl.training.schedules import factor
from fsl.training.settings import Setup


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(Setup):
    """A training and its network in one process.

    Attributes:
        device: device of this process.
        rank, ranks: index of this process, and number of processes that divide each batch.
    """

    backbone: nn.Module
    head: nn.Linear
    device: torch.device
    rank: int = 0
    ranks: int = 1

    def share(self, batch: int) -> slice:
        """The part of a batch that this rank processes; `batch` is its size. Parts differ by at most one image."""
        return slice(batch * self.rank // self.ranks, batch * (self.rank + 1) // self.ranks)

    @property
    def batch_size(self) -> int:
        return min(self.training.batch_size, len(self.base.labels))

    @property
    def steps_per_epoch(self) -> int:
        return len(self.base.labels) // self.batch_size


class Classification(CountedEpochs):
    """Backbone and classifier, trained with cross-entropy and label smoothing."""

    def __init__(self, job: Job, state: Mapping[str, Any] | None) -> None:
        epochs = 0 if state is None else state["standing"]["epoch"]
        super().__init__(epochs, len(job.base.labels), job.batch_size, job.seed, "training")
        self.job, self._state = job, state
        self.backbone, self.head = job.backbone, job.head
        if state is not None:
            self.load_state_dict(state["weights"])
        classes = job.head.out_features
        # the papers give each other class 0.1 / (K - 1); torch distributes its smoothing over all K classes
        self._smoothing = min(1.0, job.training.label_smoothing * classes / (classes - 1))
        self._augmentation = job.benchmark.augmentation.adapted(job.training.crop, job.training.jitter)
        self._draws = torch.Generator()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.job.training
        self._optimizer = torch.optim.SGD(
            self.parameters(),
            lr=training.learning_rate,
            momentum=training.momentum,
            nesterov=training.nesterov,
            weight_decay=training.weight_decay,
        )
        if self._state is not None:
            self._optimizer.load_state_dict(self._state["optimizer"])
        return self._optimizer

    def on_train_epoch_start(self) -> None:
        # the random numbers of an epoch depend on its index only, so that a resumed training draws the same
        self._draws.manual_seed(stream_key(self.job.seed, "training", "augmentation", self.epoch))
        extra = [self.job.rank] if self.job.rank else []  # each rank drops different activations
        torch.manual_seed(stream_key(self.job.seed, "training", "dropout", self.epoch, *extra))

    def rate(self, step: int) -> float:
        """The learning rate at a step, counted over all sessions."""
        training = self.job.training
        return training.learning_rate * factor(
            training.schedule,
            step,
            steps_per_epoch=self.job.steps_per_epoch,
            epochs=training.epochs,
            warmup=training.warmup,
            milestones=training.milestones,
            gamma=training.gamma,
        )

    def training_step(self, indices: Tensor, batch: int) -> Tensor:
        rate = self.rate(self.epoch * self.job.steps_per_epoch + batch)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        share = self.job.share(len(indices))
        rank_indices = indices[share]
        images = self.job.base.images[rank_indices].to(self.device)
        labels = self.job.base.labels[rank_indices].to(self.device)
        # drawn for the whole batch, so that the change of an image does not depend on its rank
        images = self._augmentation.apply(images, self._augmentation.draw(len(indices), self._draws).of(share))
        pixels = normalise(images, self.job.benchmark.mean, self.job.benchmark.std)
        logits = self.head(self.backbone(pixels.contiguous(memory_format=torch.channels_last)))
        loss = functional.cross_entropy(logits, labels, label_smoothing=self._smoothing)
        # the factor makes the mean over ranks the mean over images, even if one rank has one image more
        return loss * (self.job.ranks * len(rank_indices) / len(indices))
