"""Images of a split with the network that extracts their features, for strategies that train the network."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import normalise
from fsl.features.center_crop import CenterCrop, enlarged
from fsl.features.conforming import Interpolation, conform


@dataclass(frozen=True, eq=False)
class Pictures:
    """The N images of a feature bank, with the network and preprocessing that produced the features.

    Attributes:
        images: (N, C, H, W) uint8, as in a benchmark's cache.
        network: maps (n, len(mean), size, size) float32 to (n, D). It is shared: strategies copy it before training.
        mean, std: per-channel mean and standard deviation of the network's training images, scaled to 0..1.
        size: side of the network's input in pixels; images with another size or number of channels are converted.
        interpolation: interpolation for resizing.
        crop_pct: fraction of each side kept by a central crop; None: no crop.

    Raises:
        InputError: `images` has a wrong dtype or shape.
    """

    images: Tensor
    network: nn.Module
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    interpolation: Interpolation = "bilinear"
    crop_pct: float | None = None

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8:
            raise InputError(
                f"images must be uint8 of shape (N, C, H, W), not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}"
            )

    def of_tasks(self, rows: Tensor) -> "TaskPictures":
        """The images of tasks, given by (B, S + Q) indices, support first."""
        return TaskPictures(self, rows)

    def shown(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, len(mean), size, size) network inputs of these rows, with the preprocessing of feature extraction."""
        images = self.images[rows.to(self.images.device)].to(device)
        images = conform(images, len(self.mean), enlarged(self.size, self.crop_pct), self.interpolation)
        pixels = normalise(images, self.mean, self.std).contiguous(memory_format=torch.channels_last)
        return pixels if self.crop_pct is None else CenterCrop(self.size)(pixels)


@dataclass(frozen=True, eq=False)
class TaskPictures:
    """The images of B tasks.

    Attributes:
        pictures: the images of the whole split.
        rows: (B, S + Q) int64 indices of each task's images, support first.
    """

    pictures: Pictures
    rows: Tensor
