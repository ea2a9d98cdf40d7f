"""Backbones, which map images to features: the networks of timm and those in this folder, registered with timm."""

import importlib
import os
from typing import TYPE_CHECKING, Any


from clustering.foundation.errors import InputError, unknown

if TYPE_CHECKING:
    from torch import nn

# Name -> module that registers it with timm. To add one, write a file in this folder and add a line here.
OWN = {
    "conv4": "fsl.backbones.conv4",
    "conv6": "fsl.backbones.conv4",
    "resnet12": "fsl.backbones.resnet12",
    "resnet18_84": "fsl.backbones.stems",
    "resnet50_84": "fsl.backbones.stems",
    "wrn28_10": "fsl.backbones.wide_resnet",
    "densenet121_84": "fsl.backbones.stems",
    "mobilenet_84": "fsl.backbones.stems",
}


def backbone_names() -> list[str]:
    """The names of all backbones, first those of this project, then those of timm. Imports timm."""
    timm = registry()
    return [*OWN, *(name for name in timm.list_models() if name not in OWN)]


def backbone_code(name: str) -> str:
    """Name and revision of a backbone."""
    return name


def create_backbone(name: str, *, channels: int, size: int, pretrained: bool = False) -> "nn.Module":
    """Create a network without classifier, with random initial weights from torch's global generator.

    Args:
        name: a backbone of this project or of timm, such as "conv4" or "resnet18".
        channels: number of channels of the images.
        size: side of the square images in pixels.
        pretrained: use timm's weights instead, see `fsl.weights.pretrained`.

    Returns:
        A module that maps (N, channels, size, size) float to (N, D); its attribute `feature_size` is D.

    Raises:
        InputError: the name is unknown (the message suggests the closest), the network does not accept such images, or
            `pretrained` is set for a network that is not timm's.
    """
    import torch

    timm = registry()
    if not timm.is_model(name):
        raise unknown("backbone", name, backbone_names(), "transduce list backbones")
    if pretrained and name in OWN:
        raise InputError(f"backbone {name!r} has no pretrained weights in timm; use a checkpoint")
    options = {}
    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    if config is not None and config.fixed_input_size:
        options["img_size"] = size
    try:
        network: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=channels, **options)
        training = network.training
        with torch.inference_mode():
            features = network.eval()(torch.zeros(1, channels, size, size))
        network.train(training)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise InputError(
            f"backbone {name!r} does not accept images of {channels} x {size} x {size}: {reason}; choose another one"
        ) from error
    if features.ndim != 2:
        raise InputError(
            f"backbone {name!r} returns an output of shape {tuple(features.shape)}, not one vector per image; choose "
            "another one"
        )
    network.feature_size = features.shape[1]
    return network


def registry() -> Any:
    """timm, with this project's networks registered."""
    # Without this setting, looking up weights on an offline machine retries for a minute.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import timm

    for module in OWN.values():
        importlib.import_module(module)  # the import registers the network
    return timm
