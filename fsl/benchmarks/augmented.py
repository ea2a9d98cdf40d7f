"""Augmented images of a split as a data set of torch, for its DataLoader."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset

from clustering.foundation.streams import stream_key
from fsl.benchmarks.augmentation import Augmentation, Changes
from fsl.benchmarks.images import ImageSet

Transform = Augmentation | Callable[[Tensor], Tensor]
"""An `Augmentation`, which changes batches, or a transform of one (C, H, W) uint8 image, such as torchvision's v2."""


class AugmentedImages(Dataset[tuple[Tensor, Tensor]]):
    """Augmented images and labels of (epoch, index) pairs.

    The change of an image depends on (seed, epoch, index), and not on the batch or the process. The global random state
    of torch is restored.
    """

    def __init__(self, images: ImageSet, transform: Transform, seed: int) -> None:
        self._images, self._transform, self._seed = images, transform, seed
        self._drawn: tuple[int, Changes] | None = None

    def __getitem__(self, pair: tuple[int, int]) -> tuple[Tensor, Tensor]:
        images, labels = self.__getitems__([pair])
        return images[0], labels[0]

    def __getitems__(self, pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        epoch, rows = pairs[0][0], torch.tensor([index for _, index in pairs])
        images, labels = self._images.images[rows], self._images.labels[rows]
        if isinstance(self._transform, Augmentation):
            return self._transform.apply(images, self._changes(epoch, self._transform).of(rows)), labels
        with torch.random.fork_rng(devices=[]):
            changed = []
            for image, (_, index) in zip(images, pairs, strict=True):
                torch.default_generator.manual_seed(stream_key(self._seed, "training", "augmentation", epoch, index))
                changed.append(self._transform(image))
        return torch.stack(changed), labels

    def _changes(self, epoch: int, augmentation: Augmentation) -> Changes:
        """The parameters of all images in an epoch, in the order of their indices."""
        if self._drawn is None or self._drawn[0] != epoch:
            generator = torch.Generator().manual_seed(stream_key(self._seed, "training", "augmentation", epoch))
            self._drawn = epoch, augmentation.draw(len(self._images), generator)
        return self._drawn[1]
