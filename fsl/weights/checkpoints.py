"""Weights on disk: a trained backbone, which users share."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clustering.files.tensor_headers import read_header
from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone

FORMAT = "transduce backbone 1"
_REMEDY = "train again, or name a checkpoint that `transduce train` or `transduce import checkpoint` wrote"


def save_backbone(
    path: Path, backbone: nn.Module, name: str, *, channels: int, size: int, about: Mapping[str, Any]
) -> None:
    """Write a backbone's weights, with what is needed to build it again.

    Args:
        path: the safetensors file.
        backbone: the network, without classifier.
        name: by which `create_backbone` makes it.
        channels, size: of the images it was trained on.
        about: how it came to be (benchmark, epoch, accuracy ...), kept as text in the header.
    """
    header = {"format": FORMAT, "backbone": name, "channels": str(channels), "size": str(size)}
    header["about"] = json.dumps(dict(about), sort_keys=True)
    weights = backbone.state_dict()
    write_tensors(path, weights, header)


def load_backbone(path: Path) -> nn.Module:
    """The network with the weights of a file that `save_backbone` wrote, in evaluation mode.

    Its attributes `channels` and `size` say what images it takes, `about` is what was written with it.

    Raises:
        InputError: names the file: missing, truncated, changed, of another program, or for another network.
    """
    path = Path(path)
    weights, header = read_tensors(path, FORMAT, _REMEDY)
    try:
        name, channels, size = header["backbone"], int(header["channels"]), int(header["size"])
        about = json.loads(header["about"])
        normalisation(path, header)
        # the weights are replaced at once: those drawn here must not move the caller's random numbers
        with torch.random.fork_rng(devices=[]):
            backbone = create_backbone(name, channels=channels, size=size)
        backbone.load_state_dict(weights)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: its weights do not fit what its header says ({reason}); {_REMEDY}") from error
    bad = [key for key, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if bad:
        raise InputError(f"{path}: NaN or infinite weights in {bad[0]}; {_REMEDY}")
    for key, value in {"channels": channels, "size": size, "about": about}.items():
        setattr(backbone, key, value)
    return backbone.eval()


def is_checkpoint(path: Path) -> bool:
    """Whether a file is one that `save_backbone` wrote, by its header."""
    return _header(path).get("format") == FORMAT


def normalisation(path: Path, header: Mapping[str, str] | None = None) -> tuple[list[float], list[float]] | None:
    """Mean and deviation, by channel, of the images that a network was trained on, scaled to 0..1, as its checkpoint
    says. None where it does not, or the file is another program's.

    Args:
        path: the file.
        header: its header, where that is known.

    Raises:
        InputError: names the file, whose header is damaged.
    """
    header = _header(path) if header is None else header
    if header.get("format") != FORMAT:
        return None
    try:
        about, channels = json.loads(header["about"]), int(header["channels"])
        if "mean" not in about and "std" not in about:
            return None
        mean, std = ([0.0 + value for value in about[name]] for name in ("mean", "std"))  # no text
        whole = len(mean) == len(std) == channels and all(map(math.isfinite, [*mean, *std])) and min(std) > 0
    except (KeyError, TypeError, ValueError, RecursionError):
        whole = False
    if not whole:
        raise InputError(f"{path}: its header is damaged (mean and std of the images); {_REMEDY}")
    return mean, std


def _header(path: Path) -> dict[str, str]:
    """Empty where there is none."""
    try:
        return read_header(path, "")
    except InputError:
        return {}
