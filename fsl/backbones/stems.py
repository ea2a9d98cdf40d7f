"""Networks of timm with a stem for images of 84 pixels, as in SimpleShot, LaplacianShot and TIM.

The first convolution is replaced by a 3x3 convolution of stride 1 without pooling after it. Feature maps are four times
as wide; for MobileNet, which has no pooling, twice as wide. The weights have the same names as in timm.
"""

from typing import Any, Literal

import timm
from timm.models import register_model
from torch import nn


@register_model  # type: ignore[untyped-decorator]
def resnet18_84(pretrained: bool = False, **options: Any) -> Any:
    """ResNet-18: 512 features, 11.2 million parameters."""
    return _resnet("resnet18", options)


@register_model  # type: ignore[untyped-decorator]
def resnet50_84(pretrained: bool = False, **options: Any) -> Any:
    """ResNet-50: 2048 features, 23.5 million parameters."""
    return _resnet("resnet50", options)


@register_model  # type: ignore[untyped-decorator]
def densenet121_84(pretrained: bool = False, **options: Any) -> Any:
    """DenseNet-121: 1024 features, 6.9 million parameters. As in the papers, the first block directly follows the
    convolution, without normalisation and ReLU between them."""
    network: Any = timm.create_model("densenet121", **options)
    network.features.conv0 = _without_stride(network.features.conv0, "fan_in")
    network.features.norm0 = nn.Identity()
    network.features.pool0 = nn.Identity()
    return network


@register_model  # type: ignore[untyped-decorator]
def mobilenet_84(pretrained: bool = False, **options: Any) -> Any:
    """MobileNet (version 1): 1024 features, 3.2 million parameters. It has ReLU as in the papers; timm's has ReLU6."""
    network: Any = timm.create_model("mobilenetv1_100", act_layer=nn.ReLU, **options)
    network.conv_stem.stride = (1, 1)
    return network


def _resnet(name: str, options: dict[str, Any]) -> Any:
    network: Any = timm.create_model(name, zero_init_last=False, **options)
    network.conv1 = _without_stride(network.conv1, "fan_out")
    network.maxpool = nn.Identity()
    return network


def _without_stride(stem: nn.Conv2d, mode: Literal["fan_in", "fan_out"]) -> nn.Conv2d:
    """New 3x3 weights with the same channels, initialised like the other convolutions of the network."""
    new = nn.Conv2d(stem.in_channels, stem.out_channels, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(new.weight, mode=mode, nonlinearity="relu")
    return new
