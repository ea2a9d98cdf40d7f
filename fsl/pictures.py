"""Images of a split beside the network that makes its features: for strategies that change the network itself."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clustering.errors import InputError
from fsl.augmentation import Augmentation, normalise
from fsl.conforming import conform


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images that a bank's features were made from, and what made them. N images, sides of H and W pixels.

    Attributes:
        images: (N, C, H, W) uint8, as a benchmark's cache has them.
        network: maps (n, len(mean), size, size) float32 to (n, D). Shared: a strategy copies it before it changes it.
        mean, std: per channel of images scaled to 0..1, of the benchmark that the network was trained on.
        size: side of that benchmark's images; those of another size or of other channels are made like them.
        augmentation: how that benchmark changes its images in training.

    Raises:
        InputError: images that are none.
    """

    images: Tensor
    network: nn.Module
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    augmentation: Augmentation

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
        """(n, len(mean), size, size) in 0..255, the images of these rows, on a device."""
        return conform(self.images[rows.to(self.images.device)].to(device), len(self.mean), self.size)

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
