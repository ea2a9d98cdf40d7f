"""One convolution, for small pictures."""

from torch import nn


def narrow(channels: int) -> nn.Module:
    """Features (n, 128) of pictures (n, channels, H, W)."""
    return nn.Sequential(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
