"""The middle of a picture, enlarged: how papers and timm show pictures to a network that is trained already."""

import math

import torch
from torch import Tensor, nn


def enlarged(size: int, share: float | None) -> int:
    """Side in pixels of pictures whose middle, `size` wide, is that share of a side; `size` for None.

    Of 84 pixels and a share of 0.875 these are the 96 of torchvision's Resize(96) and CenterCrop(84), the test-time
    transform of SimpleShot, LaplacianShot and TIM. (Their public code does so for base means and features, but not for
    the validation that chooses an epoch.)

    Args:
        share: of a side that remains, in 0..1; timm calls it crop_pct, and rounds down as here.
    """
    return size if share is None else math.floor(size / share)


class CenterCrop(nn.Module):
    """Cuts out the middle of images.

    Args:
        size: height and width in pixels of what remains.

    Shapes: (N, C, H, W) -> (N, C, size, size).
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        top, left = round((height - self.size) / 2), round((width - self.size) / 2)
        cut = images[:, :, top : top + self.size, left : left + self.size]
        return cut.contiguous(memory_format=torch.channels_last)
