"""Images of a split beside the network that makes its features: for strategies that change the network itself."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from fsl.features.center_crop import CenterCrop, enlarged
from fsl.features.conforming import Interpolation, conform
from fsl.training.augmentation import Augmentation, normalise


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images that a bank's features were made from, and what made them. N images, sides of H and W pixels.

    Attributes:
        images: (N, C, H, W) uint8, as a benchmark's cache has them.
        network: maps (n, len(mean), size, size) float32 to (n, D). Shared: a strategy copies it before it changes it.
        mean, std: per channel of images scaled to 0..1, as the network knows them.
        size: side of what the network takes; images of another size or of other channels are made like that.
        augmentation: how the benchmark that the network was trained on changes its images in training.
        interpolation: how images of another size get it.
        crop_pct: share of a side that the network is shown, enlarged; None: whole images.

    Raises:
        InputError: images that are none.
    """

    images: Tensor
    network: nn.Module
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    augmentation: Augmentation
    interpolation: Interpolation = "bilinear"
    crop_pct: float | None = None

    def __post_init__(self) -> None:
        if self.images.dim() != 4 or self.images.dtype != torch.uint8:
            raise InputError(
                f"images must be uint8 of shape (N, C, H, W), not {self.images.dtype} of shape "
                f"{tuple(self.images.shape)}"
            )

    def of_tasks(self, rows: Tensor) -> "TaskPictures":
        """Of tasks with these (B, S + Q) images, support first."""
        return TaskPictures(self, rows)

    def conformed(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, len(mean), size, size) in 0..255, the images of these rows, on a device: whole, as in training."""
        return self._conformed(rows, device, self.size)

    def shown(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, len(mean), size, size), what the network takes of these rows: that of which features are extracted."""
        pixels = self.normalised(self._conformed(rows, device, enlarged(self.size, self.crop_pct)))
        return pixels if self.crop_pct is None else CenterCrop(self.size)(pixels)

    def _conformed(self, rows: Tensor, device: torch.device, size: int) -> Tensor:
        images = self.images[rows.to(self.images.device)].to(device)
        return conform(images, len(self.mean), size, self.interpolation)

    def normalised(self, images: Tensor) -> Tensor:
        """What the network takes, of images that `conformed` gave."""
        return normalise(images, self.mean, self.std).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, eq=False)
class TaskPictures:
    """The images of B tasks.

    Attributes:
        pictures: of the whole split.
        rows: (B, S + Q) int64, which of them each task has, support first.
    """

    pictures: Pictures
    rows: Tensor
