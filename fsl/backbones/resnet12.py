"""ResNet-12 (64-160-320-640), the residual network of few-shot learning since TADAM (Oreshkin et al. 2018)."""

from itertools import pairwise
from typing import Any

from timm.models import register_model
from torch import Tensor, nn

from fsl.backbones.conv4 import init_convolutions, own_options

SLOPE = 0.1
"""Negative slope of the leaky ReLU."""


class Block(nn.Module):
    """Three 3x3 convolutions with batch normalisation plus a projection, then leaky ReLU and max-pooling by 2."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(inputs, outputs, 3)
        self.conv2, self.bn2 = _convolution(outputs, outputs, 3)
        self.conv3, self.bn3 = _convolution(outputs, outputs, 3)
        self.downsample = nn.Sequential(*_convolution(inputs, outputs, 1))
        self.relu = nn.LeakyReLU(SLOPE)
        self.maxpool = nn.MaxPool2d(2)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.relu(self.bn1(self.conv1(images)))
        maps = self.relu(self.bn2(self.conv2(maps)))
        maps = self.bn3(self.conv3(maps)) + self.downsample(images)
        pooled: Tensor = self.maxpool(self.relu(maps))
        return pooled


class ResNet12(nn.Module):
    """Four blocks and average pooling over the feature map, without dropout.

    Args:
        in_chans: channels of the images.
        num_classes: outputs of a linear classifier on top; 0 for the features themselves.

    Shapes: (N, in_chans, H, W) -> (N, 640), from a feature map of side H // 16.
    """

    def __init__(self, in_chans: int = 3, num_classes: int = 0) -> None:
        super().__init__()
        self.num_classes = num_classes
        widths = (in_chans, 64, 160, 320, 640)
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(Block(inputs, outputs)) for inputs, outputs in pairwise(widths)
        )
        self.fc = nn.Linear(640, num_classes) if num_classes else nn.Identity()
        init_convolutions(self, SLOPE)

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature map (N, 640, H // 16, W // 16)."""
        maps: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(images))))
        return maps

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.fc(self.forward_features(images).mean(dim=(2, 3)))
        return features


def _convolution(inputs: int, outputs: int, size: int) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=size, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


@register_model  # type: ignore[untyped-decorator]
def resnet12(pretrained: bool = False, **options: Any) -> ResNet12:
    """640 features, 12.4 million parameters."""
    return ResNet12(**own_options(options))
