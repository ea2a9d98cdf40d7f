"""WRN-28-10, the wide residual network of the papers (Zagoruyko and Komodakis 2016; variant of SimpleShot)."""

from typing import Any

from timm.models import register_model
from torch import Tensor, nn

from fsl.backbones.conv4 import init_convolutions, own_options


class WideBlock(nn.Module):
    """Batch normalisation and ReLU before each of two 3x3 convolutions; the second has the stride. The first block of
    a stage has a projection shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, stride=stride, padding=1)
        self.relu = nn.ReLU()
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*[nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride)] if changes else [])

    def forward(self, images: Tensor) -> Tensor:
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(self.relu(self.bn1(images))))))
        return residual.add_(self.shortcut(images))


class WideResNet(nn.Module):
    """A 3x3 convolution, three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `width` channels and strides
    1, 2 and 2, normalisation, ReLU, and average pooling over the feature map. The convolutions have biases, as in
    the public weights.

    Args:
        in_chans: channels of the images.
        num_classes: outputs of a linear classifier on top; 0 for the features themselves.
        depth: 6 n + 4.
        width: k of WRN-depth-k.

    Shapes: (N, in_chans, H, W) -> (N, 64 width), from a feature map of side H / 4.
    """

    def __init__(self, in_chans: int = 3, num_classes: int = 0, depth: int = 28, width: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        blocks = (depth - 4) // 6
        self.conv1 = nn.Conv2d(in_chans, 16, kernel_size=3, padding=1)
        self.layer1 = _stage(16, 16 * width, blocks, stride=1)
        self.layer2 = _stage(16 * width, 32 * width, blocks, stride=2)
        self.layer3 = _stage(32 * width, 64 * width, blocks, stride=2)
        self.bn1 = nn.BatchNorm2d(64 * width, momentum=0.9)
        self.relu = nn.ReLU()
        self.linear = nn.Linear(64 * width, num_classes) if num_classes else nn.Identity()
        init_convolutions(self)

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature map (N, 64 width, H / 4, W / 4)."""
        maps: Tensor = self.relu(self.bn1(self.layer3(self.layer2(self.layer1(self.conv1(images))))))
        return maps

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(self.forward_features(images).mean(dim=(2, 3)))
        return features


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = WideBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(WideBlock(outputs, outputs, 1) for _ in range(blocks - 1)))


@register_model  # type: ignore[untyped-decorator]
def wrn28_10(pretrained: bool = False, **options: Any) -> WideResNet:
    """640 features, 36.5 million parameters."""
    return WideResNet(**own_options(options))
