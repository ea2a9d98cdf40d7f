"""Backbones, which map images to features: networks of timm, those in this folder, registered with timm, and plug-ins.

A module that registers its networks with timm (`timm.models.register_model`) makes them known under their names once
it is imported; as a plug-in, one of them is "FILE.py:FUNCTION".
"""

import importlib
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.plugins import Plugins

if TYPE_CHECKING:
    from torch import nn

# Name -> function that is registered with timm. To add one, write a file in this folder and add a line here.
OWN = {
    "conv4": "fsl.backbones.conv4:conv4",
    "conv6": "fsl.backbones.conv4:conv6",
    "resnet12": "fsl.backbones.resnet12:resnet12",
    "resnet18_84": "fsl.backbones.stems:resnet18_84",
    "resnet50_84": "fsl.backbones.stems:resnet50_84",
    "wrn28_10": "fsl.backbones.wide_resnet:wrn28_10",
    "densenet121_84": "fsl.backbones.stems:densenet121_84",
    "mobilenet_84": "fsl.backbones.stems:mobilenet_84",
}
BACKBONES = Plugins("backbone", OWN, "transduce.backbones")


def backbone_names() -> list[str]:
    """The names of all backbones, first those of this project, then plug-ins, then those of timm. Imports timm."""
    timm = registry()
    own = BACKBONES.names()
    return [*own, *(name for name in timm.list_models() if name not in own)]


def needed_by(name: str) -> tuple[list[str], list[str]]:
    """What loads a pickled network without this program: packages, and the file of a plug-in that is none of them."""
    packages = ["torch", "timm"]
    if ":" not in name:
        return [*packages, *(["transduce"] if name in BACKBONES.names() else [])], []
    module = sys.modules[BACKBONES.load(name).__module__]
    return packages, [str(module.__file__)] if name.partition(":")[0].endswith(".py") else []


def create_backbone(name: str, *, channels: int, size: int, pretrained: bool = False) -> "nn.Module":
    """Create a network without classifier, with random initial weights from torch's global generator.

    Args:
        name: a backbone of this project or of timm, such as "conv4" or "resnet18"; or a plug-in as "FILE.py:CLASS" or
            "package.module:CLASS", a function registered with timm, or a module of torch, which is called with those of
            `in_chans` (channels), `img_size` and `num_classes` (0) that it names; with `**` also the first and last.
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
    from torch import nn

    timm = registry()
    is_plugin = ":" in name or (name not in OWN and name in BACKBONES.names())
    if not is_plugin and not timm.is_model(name):
        raise unknown("backbone", name, backbone_names(), "transduce list backbones")
    if pretrained and (is_plugin or name in OWN):
        raise InputError(f"backbone {name!r} has no pretrained weights in timm; use a checkpoint")
    arguments: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    try:
        build: Any = BACKBONES.load(name) if is_plugin else None
        if isinstance(build, type) and issubclass(build, nn.Module):
            known, taken = {**arguments, "img_size": size}, inspect.signature(build).parameters
            rest = arguments if any(item.kind is item.VAR_KEYWORD for item in taken.values()) else ()
            network = build(**{key: value for key, value in known.items() if key in taken or key in rest})
        else:
            registered = build.__name__ if is_plugin else name
            found = timm.model_entrypoint(registered) if timm.is_model(registered) else None
            if is_plugin and getattr(found, "__module__", "") != build.__module__:  # or another one of the same name
                raise TypeError("it is neither a subclass of torch.nn.Module nor registered with timm")
            config = timm.get_pretrained_cfg(registered, allow_unregistered=True)
            arguments |= {"img_size": size} if config is not None and config.fixed_input_size else {}
            network = timm.create_model(registered, pretrained=pretrained, **arguments)
        training = network.training
        with torch.inference_mode():
            features = network.eval()(torch.zeros(1, channels, size, size))
        network.train(training)
    except InputError:
        raise
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

    for place in OWN.values():
        importlib.import_module(place.partition(":")[0])  # the import registers the network
    return timm
