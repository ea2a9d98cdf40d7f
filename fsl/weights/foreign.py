"""Import of weights written by other programs. Code in a file is never executed."""

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clustering.files.arrays import read_arrays
from clustering.files.tensors import read_any_tensors
from clustering.files.torch_files import TORCH, read_torch
from clustering.foundation import memory
from clustering.foundation.errors import InputError, reason
from fsl.backbones import create_backbone
from fsl.weights.key_matching import Matched, Unmatched, classifier_keys, match_keys

RECIPE = 1  # version; increased if the same file gives other weights, so that cached imports are not reused
CONTAINERS = ("state_dict", "state", "model", "params", "model_state_dict", "net", "network", "weights")


def import_backbone(path: Path, name: str, *, channels: int, size: int) -> nn.Module:
    """Create a network with the weights of another program's file, without classifier, in evaluation mode.

    The attribute `left_out` of the network names the file's tensors of a classifier, which are not used, and `folded`
    the biases that were merged into running means.

    Args:
        path: .safetensors, .npz (one array per name), or a state dict written by `torch.save`, optionally under one of
            the keys `CONTAINERS`.
        name: name of the network, see `create_backbone`.
        channels, size: number of channels and side of the images.

    Raises:
        InputError: the file is missing or damaged, contains objects that require executing code, has NaN, or does not
            fit the network (the message lists all such tensors).
    """
    path = Path(path)
    weights = read_weights(path)  # first, because an invalid file is detected faster than a network is created
    with torch.random.fork_rng(devices=[]):  # the random initial weights are replaced
        backbone = create_backbone(name, channels=channels, size=size)
    try:
        matched = _matched(weights, backbone)
        backbone.load_state_dict(matched.tensors)
    except Unmatched as error:
        raise InputError(
            f"{path}: not the weights of backbone {name} for images of {channels} x {size} x {size}: {error}; "
            "give the network of these weights with backbone=NAME"
        ) from error
    bad = [key for key, value in backbone.state_dict().items() if not bool(value.isfinite().all())]
    if bad:
        raise InputError(f"{path}: NaN or infinite weights in the network's {bad[0]}; give another file")
    backbone.left_out = tuple(classifier_keys(weights, backbone.state_dict()))  # type: ignore[assignment]
    backbone.folded = matched.folded  # type: ignore[assignment]
    return backbone.eval()


def _matched(weights: dict[str, Tensor], backbone: nn.Module) -> Matched:
    """Like `match_keys`, with a second attempt after timm's renaming of the original authors' names."""
    expected = backbone.state_dict()
    try:
        return match_keys(weights, expected)
    except Unmatched as error:
        rename = getattr(sys.modules[type(backbone).__module__], "checkpoint_filter_fn", None)
        if rename is None:
            raise
        try:
            return match_keys(rename(weights, backbone), expected)
        except (Unmatched, KeyError, IndexError, AttributeError, RuntimeError, TypeError):
            raise error from None  # the first error, which uses the file's own names


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, in its order.

    Raises:
        InputError: the file is missing, damaged, has no tensors, or contains objects that require executing code; the
            message names the file.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file of weights; give an existing file")
    if path.suffix not in (".npz", ".safetensors", *TORCH):
        raise InputError(f"{path}: weights are read from .safetensors, .npz, {', '.join(TORCH)}; convert the file")
    try:
        if path.suffix == ".safetensors":
            weights = read_any_tensors(path, "download it again")
        elif path.suffix == ".npz":
            weights = {key: torch.from_numpy(array) for key, array in read_arrays(path).items()}
        else:
            remedy = "save only its weights, with torch.save(model.state_dict(), FILE)"
            weights = _state_dict(read_torch(path, "a file of weights", remedy), path)
    except InputError:
        raise
    except Exception as error:  # what these three raise for a damaged file cannot be listed
        raise InputError(f"{path}: damaged, or not a file of weights ({reason(error)}); download it again") from error
    sizes = {key: 4 * tensor.numel() for key, tensor in weights.items() if tensor.dtype != torch.float32}
    memory.require(f"{path}: its weights", sizes, "give another file")  # a small file can expand to a huge tensor
    return {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in weights.items()}


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict, which may be nested in a dict with the epoch, the optimiser and so on."""
    if isinstance(content, Mapping):
        for name in CONTAINERS:
            if isinstance(content.get(name), Mapping):
                return _state_dict(content[name], path)
        tensors = {str(key): value.detach() for key, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
    keys = (
        textwrap.shorten(", ".join(map(str, content)), 100, placeholder="...") if isinstance(content, Mapping) else ""
    )
    holds = (
        type(content).__name__ if not isinstance(content, Mapping) else f"a dict of {keys}" if keys else "an empty dict"
    )
    raise InputError(f"{path}: contains {holds}, but no state dict; save model.state_dict() in it")
