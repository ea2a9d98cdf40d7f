"""One convolution, for trying things out."""

from typing import Any

from timm.models import register_model
from torch import Tensor, nn

from fsl.backbones.conv4 import own_options


class Tiny(nn.Module):
    """Features (N, 16) of images (N, in_chans, H, W): the mean of 16 maps.

    Args:
        in_chans: channels of the images.
        num_classes: outputs of a linear classifier; 0 for the features themselves.
    """

    def __init__(self, in_chans: int = 3, num_classes: int = 0) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_chans, 16, kernel_size=3, stride=4, padding=1)
        self.head = nn.Linear(16, num_classes) if num_classes else nn.Identity()

    def forward_features(self, images: Tensor) -> Tensor:
        """Maps (N, 16, H / 4, W / 4)."""
        maps: Tensor = self.convolution(images)
        return maps.relu()

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.head(self.forward_features(images).mean((2, 3)))
        return features


@register_model  # type: ignore[untyped-decorator]
def tiny(pretrained: bool = False, **options: Any) -> Tiny:
    """One convolution with 16 channels."""
    return Tiny(**own_options(options))  # without timm's options about weights
