"""Images of one benchmark made like those of another, for a network that was trained on the other."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey: ITU-R recommendation BT.601
Interpolation = Literal["bilinear", "bicubic"]


def conform(images: Tensor, channels: int, size: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """Images with that many channels and pixels; themselves where they are so already.

    Grey images become coloured by repetition, coloured ones grey by their luma; another size is made by
    interpolation, antialiased where it is smaller.

    Args:
        images: (N, C, H, W) in 0..255, C being 1 or 3.
        channels: 1 or 3.
        size: height and width in pixels.
        interpolation: of another size; what bicubic overshoots is cut off at 0 and 255.

    Returns:
        (N, channels, size, size) in 0..255; float32 where anything was changed.
    """
    if images.shape[1] != channels:
        grey = (images.float() * torch.tensor(LUMA, device=images.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
        images = grey if channels == 1 else images.float().expand(-1, channels, -1, -1)
    if images.shape[2:] != (size, size):
        images = functional.interpolate(images.float(), size=(size, size), mode=interpolation, antialias=True)
        if interpolation == "bicubic":
            images = images.clamp_(0, 255)
    return images
