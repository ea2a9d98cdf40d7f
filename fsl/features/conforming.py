"""Conversion of images to the size, channels and values of a network's input."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from fsl.benchmarks.augmentation import normalise

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R BT.601)
Interpolation = Literal["bilinear", "bicubic"]


def conform(images: Tensor, channels: int, size: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """Convert images to a size and number of channels; images that already have them are returned unchanged.

    Grey images are repeated to three channels; RGB images are converted to grey by their luma. Resizing interpolates,
    with antialiasing when it shrinks.

    Args:
        images: (N, C, H, W) in 0..255, with C = 1 or 3.
        channels: 1 or 3.
        size: height and width in pixels.
        interpolation: interpolation for resizing; overshoots of bicubic are clipped to 0..255.

    Returns:
        (N, channels, size, size) in 0..255; float32 if anything was changed.
    """
    if images.shape[1] != channels:
        grey = (images.float() * torch.tensor(LUMA, device=images.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
        images = grey if channels == 1 else images.float().expand(-1, channels, -1, -1)
    if images.shape[2:] != (size, size):
        images = functional.interpolate(images.float(), size=(size, size), mode=interpolation, antialias=True)
        if interpolation == "bicubic":
            images = images.clamp_(0, 255)
    return images


def network_input(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    size: int,
    interpolation: Interpolation = "bilinear",
    crop_pct: float | None = None,
) -> Tensor:
    """The input of a network for these images: resized, cropped and normalised.

    With crop_pct, images are resized to `size / crop_pct`, rounded down as by timm, and cropped to the central square.
    For size 84 and crop_pct 0.875, this is torchvision's Resize(96) and CenterCrop(84), the test-time transform of
    SimpleShot, LaplacianShot and TIM. (Their public code uses it for base means and features, but not for the
    validation that selects an epoch.)

    Args:
        images: (N, C, H, W) in 0..255, with C = 1 or 3.
        mean, std: per-channel mean and standard deviation of the network's training images, scaled to 0..1.
        size: side of the input in pixels.
        interpolation: interpolation for resizing.
        crop_pct: fraction of each side that is kept, in 0..1; None: no crop.

    Returns:
        (N, len(mean), size, size) float32.
    """
    whole = conform(images, len(mean), size if crop_pct is None else math.floor(size / crop_pct), interpolation)
    top = round((whole.shape[2] - size) / 2)
    cut = whole[:, :, top : top + size, top : top + size]
    return normalise(cut, mean, std).contiguous(memory_format=torch.channels_last)
