"""Networks of timm with weights that exist already: timm's own, or those of a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from PIL import Image
from torch import nn

from clustering.files.checksums import fingerprint_of
from clustering.foundation.errors import InputError, unknown
from fsl.backbones import OWN, backbone_names, create_backbone, registry
from fsl.features.conforming import Interpolation
from fsl.weights.foreign import import_backbone

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "timm:"
REACHED = 5.0
"""Seconds within which the hub has to answer."""
Mode = Literal["center", "squash", "border"]


@dataclass(frozen=True)
class Look:
    """What images a network takes, and how a picture becomes one.

    Attributes:
        channels: 1 or 3.
        size: height in pixels, and as much in width: images are square.
        mean, std: per channel, of images scaled to 0..1.
        interpolation: when a picture's size is changed.
        crop: size over the length that a picture's side is scaled to first, 0..1; 1 cuts nothing of a square.
        mode: of the cropping: center: scaled by the shorter side; squash: by both; border: by the longer, filled up.
    """

    channels: int
    size: int
    mean: Sequence[float]
    std: Sequence[float]
    interpolation: Interpolation = "bilinear"
    crop: float = 1.0
    mode: Mode = "center"

    def transform(self) -> "Callable[[Image.Image], torch.Tensor]":
        """timm's own transform of a picture for evaluation, not yet normalised: RGB -> (3, size, size) uint8."""
        from timm.data import create_transform

        made: Callable[[Image.Image], torch.Tensor] = create_transform(
            (3, self.size, self.size),
            is_training=False,
            use_prefetcher=True,
            interpolation=self.interpolation,
            mean=tuple(self.mean),
            crop_pct=self.crop,
            crop_mode=self.mode,
        )
        return made


def look_of(name: str, size: int | None = None) -> Look:
    """What images timm's weights of a network are for.

    Args:
        name: of timm's, with or without a tag, such as "resnet18" or "vit_small_patch14_dinov2.lvd142m".
        size: other than the one they were trained at; a network of fixed size has its position embeddings resized.

    Raises:
        InputError: an unknown name or tag, with the nearest right one, or a network of images that are not square.
    """
    found = _config(name)
    channels, height, width = found.input_size
    if height != width:
        raise InputError(f"{PREFIX}{name} takes images of {height} x {width}; choose a network of square ones")
    mode: Mode = found.crop_mode if found.crop_mode in ("squash", "border") else "center"
    return Look(channels, size or height, found.mean, found.std, found.interpolation, found.crop_pct, mode)


def pretrained_backbone(name: str, weights: Path | None = None, *, size: int | None = None) -> nn.Module:
    """A network of timm without its classifier, in evaluation mode; its attribute `feature_size` is D.

    Args:
        name, size: see `look_of`.
        weights: a file of its weights, as `fsl.weights.foreign` reads them; None for those that timm knows of, which
            are taken from the cache of the Hugging Face hub, and fetched only where HF_HUB_OFFLINE=0 is set.

    Raises:
        InputError: as `look_of`; weights that are not here, do not exist, or are of another network.
    """
    look = look_of(name, size)
    if weights is not None:
        return import_backbone(weights, name, channels=look.channels, size=look.size)
    weights_place(name)
    config = _config(name)
    if not config.file and not _is_here(config):
        if _offline():
            raise _absent(name, config)
        _ask(name, config)
    with torch.random.fork_rng(devices=[]):  # the weights drawn first are replaced at once
        try:
            return create_backbone(name, channels=look.channels, size=look.size, pretrained=True).eval()
        except OSError as error:
            raise _absent(name, config) from error


def weights_place(name: str) -> str:
    """Where timm has the weights of a network from: a repository of the Hugging Face hub, or an address.

    Raises:
        InputError: as `look_of`, or where there are none.
    """
    config = _config(name)
    place = config.hf_hub_id or config.url or config.file
    if not place:
        raise InputError(f"{PREFIX}{name}: timm has no weights of it; give a file of them, or choose another network")
    return str(place)


def weights_fingerprint(network: nn.Module) -> str:
    """16 hexadecimal digits of every tensor of a network, under its name."""
    return fingerprint_of(network.state_dict())


def _config(name: str) -> Any:
    timm = registry()
    if not timm.is_model(name):
        raise unknown("backbone", name, backbone_names(), "transduce list backbones")
    if name in OWN:
        raise InputError(
            f"{PREFIX}{name}: a network of this project, not of timm; make its weights a checkpoint: "
            f"transduce import checkpoint FILE backbone={name} benchmark=NAME"
        )
    architecture, _, tag = name.partition(".")
    try:
        found = timm.get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError:  # no such tag
        found = None
    if found is None:
        tags = [other.partition(".")[2] for other in timm.list_pretrained(f"{architecture}.*")]
        raise unknown(f"weights of {PREFIX}{architecture}", tag, tags)
    return found


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _is_here(config: Any) -> bool:
    """Whether the hub, or torch, keeps what it has fetched of these weights. Asks no network."""
    if not config.hf_hub_id:
        return Path(torch.hub.get_dir(), "checkpoints", config.url.rpartition("/")[2]).is_file()
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(config.hf_hub_id, local_files_only=True)
    except OSError:
        return False
    return True


def _ask(name: str, config: Any) -> None:
    """Whether the hub can be reached, asked once: timm asks again for a minute, and says so each time."""
    if not config.hf_hub_id:
        return
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    try:
        get_hf_file_metadata(hf_hub_url(config.hf_hub_id, "config.json"), timeout=REACHED)
    except HfHubHTTPError:
        return  # an answer, whatever it is
    except Exception as error:  # of the hub's HTTP client, which is another one from version to version
        raise _absent(name, config) from error


def _absent(name: str, config: Any) -> InputError:
    place = f"huggingface.co/{config.hf_hub_id}" if config.hf_hub_id else config.url
    by_file = "fetch them elsewhere and name the file (pretrained=FILE; in Python weights=FILE)"
    if _offline():
        why = f"nothing is fetched unless HF_HUB_OFFLINE=0 is set; set it on a machine with network, or {by_file}"
    else:
        why = f"they could not be fetched; {by_file}"
    return InputError(f"{PREFIX}{name}: its weights ({place}) are not on this machine, and {why}")
