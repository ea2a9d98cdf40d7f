"""Central crops: the test-time transform of the papers and of timm, which resizes an image and crops its centre."""

import math

import torch
from torch import Tensor, nn


def enlarged(size: int, share: float | None) -> int:
    """Side in pixels to which an image is resized, so that a central crop of `size` pixels keeps `share` of each side.

    For size 84 and share 0.875 the result is 96, as in torchvision's Resize(96) and CenterCrop(84), the test-time
    transform of SimpleShot, LaplacianShot and TIM. (Their public code uses it for base means and features, but not for
    the validation that selects an epoch.)

    Args:
        size: side of the crop in pixels.
        share: fraction of the side that is kept, in 0..1, rounded down as timm's crop_pct; None: no crop.
    """
    return size if share is None else math.floor(size / share)


class CenterCrop(nn.Module):
    """Crop the centre of images.

    Args:
        size: height and width of the crop in pixels.

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
