"""Import of weights written by other programs. Code in a file is never executed."""

import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clustering.files.arrays import read_arrays
from clustering.files.tensors import read_any_tensors
from clustering.files.torch_files import TORCH, read_torch
from clustering.foundation.errors import InputError, reason
from fsl.backbones import create_backbone
from fsl.weights.checkpoints import check_finite

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
        tensors, left_out, folded = match(weights, backbone)
    except LookupError as error:
        raise InputError(
            f"{path}: not the weights of backbone {name} for images of {channels} x {size} x {size}: {error}; "
            "give the network of these weights with backbone=NAME"
        ) from error
    backbone.load_state_dict(tensors)
    check_finite(backbone.state_dict(), path)
    backbone.left_out, backbone.folded = left_out, folded  # type: ignore[assignment]
    return backbone.eval()


HEADS = ("fc", "_fc", "classifier", "head", "head_dist", "linear", "last_linear", "logits")  # names of classifiers
COUNTER = "num_batches_tracked"  # missing in older files, and not used in evaluation


def _stages(*counts: int) -> Iterator[tuple[int, str]]:
    """The number of each block, counted through the network, and its stage and number within the stage in timm."""
    return enumerate(f"blocks.{stage}.{block}" for stage, count in enumerate(counts) for block in range(count))


_EFFICIENTNET = (  # parts of blocks, without and with expansion
    "_depthwise_conv conv_dw, _bn1 bn1, _project_conv conv_pw, _bn2 bn2",
    "_expand_conv conv_pw, _bn0 bn1, _depthwise_conv conv_dw, _bn1 bn2, _project_conv conv_pwl, _bn2 bn3",
)
RENAMES: tuple[tuple[str, str], ...] = (
    (r"(^|\.)conv(\d)\.([01])\.", r"\1blocks.#\2.\3."),  # SimpleShot, ProtoNet and others; # counts from 1
    (r"(^|\.)trunk\.(\d)\.C\.", r"\1blocks.\2.0."),  # CloserLookFewShot and its descendants
    (r"(^|\.)trunk\.(\d)\.BN\.", r"\1blocks.\2.1."),
    (r"(^|\.)trunk\.\d\.trunk\..*", ""),  # the same layers again
    *(
        (rf"(^|\.)layers\.{number}\.{theirs}\.", rf"\1{block}.{own}.")
        for number, block in _stages(1, 2, 2, 6, 2)
        for theirs, own in (("conv1", "conv_dw"), ("conv2", "conv_pw"), ("bn1", "bn1"), ("bn2", "bn2"))
    ),
    (r"(^|\.)conv1\.(?=weight$)", r"\1conv_stem."),
    *(
        (rf"(^|\.)_blocks\.{number}\.{theirs}\.", rf"\1{block}.{own}.")
        for number, block in _stages(1, 2, 2, 3, 3, 4, 1)
        for theirs, own in map(str.split, _EFFICIENTNET[number > 0].split(", "))
    ),
    (r"(^|\.)_conv_(stem|head)\.", r"\1conv_\2."),
    (r"(^|\.)_bn0\.", r"\1bn1."),
    (r"(^|\.)_bn1\.", r"\1bn2."),
)
"""Names in other programs (Conv-4, Conv-6, MobileNet, EfficientNet-Lite0), as patterns, and the names here; an empty
name is left out."""


Matched = tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]
"""The tensors of a file under the network's own names, its tensors of a classifier, which are not used, and its biases
that were merged in running means."""


def match(weights: Mapping[str, Tensor], backbone: nn.Module) -> Matched:
    """Find the tensors of a network in a file, strictly: by name, never by shape.

    Names are the network's own, those of `RENAMES`, or those that timm's `checkpoint_filter_fn` knows, behind one
    prefix (`module.`, `encoder.` ...). If the file has a bias for a convolution that has none in the network because
    batch normalisation follows, the bias is subtracted from the running mean of this normalisation, which is
    equivalent.

    Raises:
        LookupError: a tensor has no counterpart; the message names each.
    """
    of_timm = getattr(sys.modules[type(backbone).__module__], "checkpoint_filter_fn", None)
    renames: list[Callable[[dict[str, Tensor]], dict[str, Tensor]]] = [dict, _renamed]
    renames += [] if of_timm is None else [lambda tensors: of_timm(tensors, backbone)]
    problems = []
    for rename in renames:
        try:
            return _by_name(rename(dict(weights)), backbone.state_dict())
        except (LookupError, AttributeError, RuntimeError, TypeError, ValueError) as error:
            problems.append(str(error))
    raise LookupError(problems[0])  # of the file's own names


def _renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names by `RENAMES`; unknown names are kept."""
    found = {}
    for key, tensor in weights.items():
        pattern, name = next(((old, new) for old, new in RENAMES if re.search(old, key)), ("^", r"\g<0>"))
        if name:
            own = re.sub(pattern, name, key, count=1)
            found[re.sub(r"#(\d)", lambda count: str(int(count[1]) - 1), own)] = tensor
    return found


def _by_name(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> Matched:
    """Match equal names after one prefix, the one with the most matches. Tensors without this prefix are ignored."""
    needed = [key for key in expected if not key.endswith(COUNTER)]
    prefixes = {""} | {key[: i + 1] for key in weights for i, letter in enumerate(key) if letter == "."}
    prefix = max(sorted(prefixes), key=lambda prefix: sum(prefix + key in weights for key in needed))
    missing = [key for key in needed if getattr(weights.get(prefix + key), "shape", None) != expected[key].shape]
    biases = {f"{prefix}{convolution}.bias": norm for convolution, norm in _normalised(needed).items()}
    folded = {bias: norm for bias, norm in biases.items() if bias in weights}
    used = {*(prefix + key for key in needed if key not in missing), *folded}
    rest = [key for key in weights if key not in used and not key.endswith(COUNTER)]
    heads = [key for key in rest if not set(HEADS).isdisjoint(key.split("."))]
    surplus = [key for key in rest if key.startswith(prefix) and key not in heads]
    if missing or surplus:
        sides = (("the network's", missing, expected), ("the file's", surplus, weights))
        parts = [
            f"{side} {', '.join(f'{key} {tuple(tensors[key].shape)}' for key in keys)}"
            for side, keys, tensors in sides
            if keys
        ]
        raise LookupError(f"no counterpart for {' and for '.join(parts)}")
    found = {key: weights[prefix + key] if key in needed else torch.zeros_like(expected[key]) for key in expected}
    for bias, norm in folded.items():
        found[f"{norm}.running_mean"] = found[f"{norm}.running_mean"] - weights[bias]
    return found, tuple(heads), tuple(folded)


def _normalised(keys: Sequence[str]) -> dict[str, str]:
    """Convolutions without bias, each with the batch normalisation that directly follows it in the same block."""
    layers = list(dict.fromkeys(key.rpartition(".")[0] for key in keys))
    return {
        name: norm
        for name, norm in itertools.pairwise(layers)
        if f"{name}.bias" not in keys
        and f"{norm}.running_mean" in keys
        and name.rpartition(".")[0] == norm.rpartition(".")[0]
    }


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
    return {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in weights.items()}


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict, which may be nested in a dict with the epoch, the optimiser and so on."""
    holds = type(content).__name__
    if isinstance(content, Mapping):
        inner = next((content[name] for name in CONTAINERS if isinstance(content.get(name), Mapping)), None)
        if inner is not None:
            return _state_dict(inner, path)
        tensors = {str(key): value.detach() for key, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
        holds = f"a dict of {textwrap.shorten(', '.join(map(str, content)), 100, placeholder='...') or 'nothing'}"
    raise InputError(f"{path}: contains {holds}, but no state dict; save model.state_dict() in it")
