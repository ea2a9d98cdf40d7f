"""Weights that another program wrote: read without running anything in the file, put under a network's own names."""

import pickle
import re
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clustering.files.arrays import read_arrays
from clustering.files.tensors import read_any_tensors
from clustering.foundation import memory
from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.weights.key_matching import Matched, Unmatched, classifier_keys, match_keys

RECIPE = 1  # raised whenever the same file gives other weights, so that no imported checkpoint is taken for new
TORCH = (".pth", ".pt", ".tar", ".ckpt", ".bin")
CONTAINERS = ("state_dict", "state", "model", "params", "model_state_dict", "net", "network", "weights")


def import_backbone(path: Path, name: str, *, channels: int, size: int) -> nn.Module:
    """A network with the weights of a file that people have of it, without its classifier, in evaluation mode.

    Its attribute `left_out` names the tensors of the file that are of a classifier, `folded` the biases of it that are
    part of running means.

    Args:
        path: .safetensors, .npz (an array for each name), or what `torch.save` wrote of a state dict, by itself or
            under one of `CONTAINERS`.
        name: of the network, see `create_backbone`.
        channels, size: of the images that it will get.

    Raises:
        InputError: names the file: missing, damaged, holding objects that only running code could build, weights of
            another network, each of which is named, or NaN.
    """
    path = Path(path)
    weights = read_weights(path)  # before a network is made, which takes longer than to see that a file is none
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        backbone = create_backbone(name, channels=channels, size=size)
    try:
        matched = _matched(weights, backbone)
        backbone.load_state_dict(matched.tensors)
    except Unmatched as error:
        raise InputError(
            f"{path}: not the weights of backbone {name} for images of {channels} x {size} x {size}: {error}; "
            "say in which network they were trained with backbone=NAME"
        ) from error
    bad = [key for key, value in backbone.state_dict().items() if not bool(value.isfinite().all())]
    if bad:
        raise InputError(f"{path}: NaN or infinite weights in the network's {bad[0]}; give another file")
    backbone.left_out = tuple(classifier_keys(weights, backbone.state_dict()))  # type: ignore[assignment]
    backbone.folded = matched.folded  # type: ignore[assignment]
    return backbone.eval()


def _matched(weights: dict[str, Tensor], backbone: nn.Module) -> Matched:
    """As `match_keys`; where that finds no match, after timm's renaming of what the network's authors published."""
    own = backbone.state_dict()
    try:
        return match_keys(weights, own)
    except Unmatched as error:
        rename = getattr(sys.modules[type(backbone).__module__], "checkpoint_filter_fn", None)
        if rename is None:
            raise
        try:
            return match_keys(rename(weights, backbone), own)
        except (Unmatched, KeyError, IndexError, AttributeError, RuntimeError, TypeError):
            raise error from None  # in the file's own names


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, in its order.

    Raises:
        InputError: names the file: missing, damaged, without tensors, or holding objects that are not loaded.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file of weights; give one that is there")
    if path.suffix not in (".npz", ".safetensors", *TORCH):
        raise InputError(f"{path}: weights are read from .safetensors, .npz, {', '.join(TORCH)}; convert the file")
    try:
        if path.suffix == ".safetensors":
            found = read_any_tensors(path, "fetch it again")
        elif path.suffix == ".npz":
            found = {key: torch.from_numpy(array) for key, array in read_arrays(path).items()}
        else:
            _check_packed(path)
            found = _state_dict(torch.load(path, map_location="cpu", weights_only=True), path)
    except InputError:
        raise
    except Exception as error:  # what these three raise for a damaged file cannot be listed
        forbidden = re.search(r"GLOBAL ([\w.]+) (?:was|whose)", str(error), re.ASCII)
        if forbidden:
            raise InputError(
                f"{path}: holds {forbidden[1]}, which only running code could build, so the file is not loaded; "
                "save its weights alone, with torch.save(model.state_dict(), FILE)"
            ) from error
        raise InputError(f"{path}: damaged, or no file of weights ({_reason(error)}); fetch it again") from error
    sizes = {key: 4 * tensor.numel() for key, tensor in found.items() if tensor.dtype != torch.float32}
    memory.require(f"{path}: its weights", sizes, "give another file")  # a tensor can be one number, repeated
    return {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in found.items()}


def _check_packed(path: Path) -> None:
    """That there is memory for what is packed in a file, which PyTorch unpacks whole."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
        memory.require(f"{path}: unpacking it", sizes, "give another file")


def _reason(error: Exception) -> str:
    """The first sentence of an error, cut short: PyTorch's go on to advise what would run the file's code."""
    if isinstance(error, (pickle.UnpicklingError, KeyError)):  # a KeyError is of a code that no pickle has
        return "it cannot be unpickled"
    first = re.split(r"[.!] |\n", str(error), maxsplit=1)[0].rstrip(".")
    words = "".join(letter if letter.isprintable() else "?" for letter in first)
    return textwrap.shorten(words, 100, placeholder="...") or type(error).__name__


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict, which may lie in a dict beside the epoch, the optimiser and so on."""
    if isinstance(content, Mapping):
        for name in CONTAINERS:
            if isinstance(content.get(name), Mapping):
                return _state_dict(content[name], path)
        found = {str(key): value.detach() for key, value in content.items() if isinstance(value, Tensor)}
        if found:
            return found
    keys = (
        textwrap.shorten(", ".join(map(str, content)), 100, placeholder="...") if isinstance(content, Mapping) else ""
    )
    holds = (
        type(content).__name__ if not isinstance(content, Mapping) else f"a dict of {keys}" if keys else "an empty dict"
    )
    raise InputError(f"{path}: holds {holds}, and no state dict; save model.state_dict() in it")
