"""Conversion of images to the size and channels of a network's input."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

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
