"""The images of base training, as Lightning's data module."""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader, Sampler, default_convert

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream_key
from fsl.benchmarks.augmentation import Augmentation, Transform
from fsl.benchmarks.benchmark import Benchmark
from fsl.benchmarks.images import AugmentedImages, ImageSet
from fsl.training.settings import Training

VALIDATED = 512  # images in a batch of validation


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
        self,
        base: ImageSet,
        validation: ImageSet,
        benchmark: Benchmark,
        settings: Training,
        seed: int = 0,
        workers: int = 0,
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
    def batches(self) -> int:
        """Batches in an epoch, without those that `limit_train_batches` of the Trainer leaves out."""
        count, limit = len(self.base) // self.batch_size, self.trainer.limit_train_batches if self.trainer else None
        return count if limit is None else min(count, limit if isinstance(limit, int) else int(count * limit))

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps in an epoch. Lightning's own count would create the loader too early."""
        accumulated: int = self.trainer.accumulate_grad_batches if self.trainer else 1
        return -(-self.batches // accumulated)

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
