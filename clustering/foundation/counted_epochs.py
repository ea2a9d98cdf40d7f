"""Lightning modules with batches of point indices, and epochs counted over all sessions of a training."""

from collections.abc import Iterator

import pytorch_lightning as lightning
import torch
from torch import Tensor

from clustering.foundation.streams import stream_key


class CountedEpochs(lightning.LightningModule):
    """A module that starts at a given epoch; an incomplete last batch is dropped, with different points in each epoch.

    Args:
        first_epoch: number of epochs finished before.
        points: N.
        batch_size: number of indices in a batch.
        seed, purpose: the order of an epoch is drawn from stream (seed, purpose, "order", epoch).
    """

    def __init__(self, first_epoch: int, points: int, batch_size: int, seed: int, purpose: str) -> None:
        super().__init__()
        self.first_epoch, self._points, self._batch_size = first_epoch, points, batch_size
        self._seed, self._purpose = seed, purpose

    @property
    def epoch(self) -> int:
        """Current epoch, counted from 0 over all sessions."""
        return self.first_epoch + self.current_epoch

    def train_dataloader(self) -> "_Batches":
        return _Batches(self)

    def batch_count(self) -> int:
        """Number of batches in an epoch."""
        return self._points // self._batch_size

    def order(self) -> Iterator[Tensor]:
        """The batches of the current epoch."""
        key = stream_key(self._seed, self._purpose, "order", self.epoch)
        order = torch.randperm(self._points, generator=torch.Generator().manual_seed(key))
        yield from torch.split(order[: self.batch_count() * self._batch_size], self._batch_size)

    def transfer_batch_to_device(self, batch: Tensor, device: torch.device, dataloader_idx: int) -> Tensor:
        """Keep indices on the CPU, where the points are."""
        return batch


class _Batches:
    def __init__(self, module: CountedEpochs) -> None:
        self._module = module

    def __len__(self) -> int:
        return self._module.batch_count()

    def __iter__(self) -> Iterator[Tensor]:
        return self._module.order()
