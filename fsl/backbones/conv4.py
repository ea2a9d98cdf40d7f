"""Conv4 (64-64-64-64), the small network of few-shot learning since Vinyals et al. 2016, and the deeper Conv6."""

from typing import Any

from timm.models import register_model
from torch import Tensor, nn


class ConvNet(nn.Module):
    """Blocks of 3x3 convolution, batch normalisation, max-pooling by 2 (the first four) and ReLU, then flattened.

    Pooling is before ReLU, which takes less time and gives the same result, because ReLU is monotone.

    Args:
        in_chans: channels of the images.
        num_classes: outputs of a linear classifier on top; 0 for the features themselves.
        width: channels of every block.
        depth: number of blocks.

    Shapes: (N, in_chans, H, W) -> (N, width * (H // 16) * (W // 16)): 64 features at 28 pixels, 1600 at 84.
    """

    def __init__(self, in_chans: int = 3, num_classes: int = 0, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.blocks = nn.Sequential(*(_block(width if i else in_chans, width, pool=i < 4) for i in range(depth)))
        self.head = nn.LazyLinear(num_classes) if num_classes else nn.Identity()
        init_convolutions(self)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.head(self.blocks(images).flatten(1))
        return features


def _block(inputs: int, outputs: int, *, pool: bool) -> nn.Sequential:
    # no bias: batch normalisation would remove it
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    smaller = [nn.MaxPool2d(2)] if pool else []
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), *smaller, nn.ReLU())


@register_model  # type: ignore[untyped-decorator]
def conv4(pretrained: bool = False, **options: Any) -> ConvNet:
    """Four blocks of 64 channels."""
    return ConvNet(depth=4, **own_options(options))


@register_model  # type: ignore[untyped-decorator]
def conv6(pretrained: bool = False, **options: Any) -> ConvNet:
    """Six blocks of 64 channels; the last two have no pooling (Chen et al. 2019)."""
    return ConvNet(depth=6, **own_options(options))


def init_convolutions(network: nn.Module, slope: float = 0.0) -> None:
    """Draw the weights of convolutions (He et al. 2015) for a leaky ReLU of this negative slope."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, a=slope, mode="fan_out", nonlinearity="leaky_relu")


def own_options(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments for a network of this folder, without those that timm adds for networks with weights."""
    of_timm = ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir")
    return {key: value for key, value in options.items() if key not in of_timm}
