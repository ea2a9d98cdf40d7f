"""Images of a split with the network that extracts their features, for strategies that train the network."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from fsl.features.conforming import Interpolation, network_input


@dataclass(frozen=True, eq=False)
class Pictures:
    """The N images of a feature bank, with the network and preprocessing that produced the features.

    Attributes:
        images: (N, C, H, W) uint8, as in a benchmark's cache.
        network: maps (n, len(mean), size, size) float32 to (n, D). It is shared: strategies copy it before training.
        mean, std, size, interpolation, crop_pct: preprocessing, see `network_input`.

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

    def shown(self, rows: Tensor, device: torch.device) -> Tensor:
        """(n, len(mean), size, size) network inputs of these rows, with the preprocessing of feature extraction."""
        images = self.images[rows.to(self.images.device)].to(device)
        return network_input(images, self.mean, self.std, self.size, self.interpolation, self.crop_pct)


@dataclass(frozen=True, eq=False)
class TaskPictures:
    """The images of B tasks.

    Attributes:
        pictures: the images of the whole split.
        rows: (B, S + Q) int64 indices of each task's images, support first.
    """

    pictures: Pictures
    rows: Tensor
