"""Checkpoints: files with the weights of a trained backbone."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clustering.files.tensors import read_header, read_tensors, write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.plugins import dotted
from fsl.backbones import create_backbone

FORMAT = "transduce backbone 1"
_REMEDY = "train again, or give a checkpoint written by `transduce train` or `transduce import checkpoint`"


def save_backbone(
    path: Path, backbone: nn.Module, name: str, *, channels: int, size: int, about: Mapping[str, Any]
) -> None:
    """Write a backbone's weights with the information required to rebuild it.

    Args:
        path: the safetensors file.
        backbone: the network, without classifier.
        name: its name for `create_backbone`.
        channels, size: number of channels and side of its training images.
        about: `mean` and `std` of its training images, per channel and scaled to 0..1, and its origin (epoch,
            accuracy ...); stored as JSON in the header.
    """
    header = {"format": FORMAT, "backbone": name, "channels": str(channels), "size": str(size)}
    header["about"] = json.dumps(dict(about), sort_keys=True)
    write_tensors(path, backbone.state_dict(), header)


def load_backbone(path: Path) -> nn.Module:
    """Load a network written by `save_backbone`, in evaluation mode.

    The attributes `channels` and `size` of the network describe its images, and `about` is the stored information.

    Raises:
        InputError: the file is missing, damaged, of another program or for another network; the message names it.
    """
    path = Path(path)
    weights, header = read_tensors(path, FORMAT, _REMEDY)
    name, about = header.get("backbone", ""), _about(path, header)
    if ":" in name and dotted(name).partition(":")[0] not in sys.modules:  # a file must not choose code to run
        raise InputError(f"{path}: its network is the plug-in {name}; give backbone={name}, or import it first")
    try:
        channels, size = int(header["channels"]), int(header["size"])
        # The random initial weights are replaced; drawing them must not change the caller's random state.
        with torch.random.fork_rng(devices=[]):
            backbone = create_backbone(name, channels=channels, size=size)
        backbone.load_state_dict(weights)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: its weights do not match its header ({reason}); {_REMEDY}") from error
    check_finite(weights, path, _REMEDY)
    for key, value in {"channels": channels, "size": size, "about": about}.items():
        setattr(backbone, key, value)
    return backbone.eval()


def check_finite(weights: Mapping[str, Tensor], place: object, remedy: str = "give another file") -> None:
    """Raise InputError if weights are NaN or infinite."""
    if bad := next((key for key, value in weights.items() if not bool(value.isfinite().all())), ""):
        raise InputError(f"{place}: NaN or infinite weights in the network's {bad}; {remedy}")


def is_checkpoint(path: Path) -> bool:
    """Whether a file was written by `save_backbone`, by its header."""
    try:
        return bool(read_header(path, _REMEDY, FORMAT))
    except InputError:
        return False


def normalisation(path: Path) -> tuple[list[float], list[float]] | None:
    """Per-channel mean and standard deviation of a network's training images, scaled to 0..1, from its checkpoint. None
    for files of other programs.

    Raises:
        InputError: the header is damaged; the message names the file.
    """
    if not is_checkpoint(path):
        return None
    about = _about(path, read_header(path, _REMEDY))
    return about["mean"], about["std"]


def _about(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The information of a header, with numbers for each channel as mean and std."""
    try:
        about, channels = json.loads(header["about"]), int(header["channels"])
        mean, std = ([0.0 + value for value in about[name]] for name in ("mean", "std"))  # no text
        if len(mean) == len(std) == channels and all(map(math.isfinite, [*mean, *std])) and min(std) > 0:
            return dict(about)
        problem = "not one positive number per channel"
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        problem = str(error)
    raise InputError(f"{path}: its header is damaged (mean and std of the images: {problem}); {_REMEDY}")
