"""Networks that turn images into features: timm's by name, and those in this folder, registered with timm."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError, unknown

if TYPE_CHECKING:
    from torch import nn

# Name -> the module that registers it with timm. To add one: a file in this folder and a line here.
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
    """Every backbone: ours first, then timm's. Imports timm; `OWN` does not."""
    timm = registry()
    return [*OWN, *(name for name in timm.list_models() if name not in OWN)]


def backbone_code(name: str) -> str:
    """Fingerprint of the code of one of our backbones; of timm's, whose releases keep their networks, its name."""
    return code_fingerprint(OWN[name], follow=False) if name in OWN else name


def create_backbone(name: str, *, channels: int, size: int, pretrained: bool = False) -> "nn.Module":
    """A network with fresh weights (drawn from torch's global generator) and no classifier.

    Args:
        name: one of ours or of timm's, such as "conv4" or "resnet18".
        channels: of the images.
        size: side of the square images in pixels.
        pretrained: with timm's weights instead, see `fsl.weights.pretrained`.

    Returns:
        A module that maps (N, channels, size, size) float to (N, D); its attribute `feature_size` is D.

    Raises:
        InputError: an unknown name (with the nearest right one), a network that cannot take such images, or timm's
            weights of a network that is not timm's.
    """
    import torch

    timm = registry()
    if not timm.is_model(name):
        raise unknown("backbone", name, backbone_names(), "transduce list backbones")
    if pretrained and name in OWN:
        raise InputError(f"backbone {name!r} is of this project, and timm has no weights of it; give a checkpoint")
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
            f"backbone {name!r} cannot take images of {channels} x {size} x {size}: {reason}; choose another backbone"
        ) from error
    if features.ndim != 2:
        raise InputError(
            f"backbone {name!r} gives an output of shape {tuple(features.shape)}, not one vector an image; "
            "choose another backbone"
        )
    network.feature_size = features.shape[1]
    return network


def registry() -> Any:
    """timm, with this project's networks registered."""
    # without this, a lookup of weights on a machine that is off the network retries for a minute
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import timm

    for module in OWN.values():
        importlib.import_module(module)  # which registers it
    return timm
