"""Matching of a file's tensors to a network's tensors, by name or otherwise by order."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
HEADS = ("fc", "classifier", "head", "head_dist", "linear", "last_linear", "logits")  # names of classifiers
COUNTER = "num_batches_tracked"  # missing in older files, and not used in evaluation


class Unmatched(ValueError):
    """Tensors of the network are not in the file, or the reverse; the message names each."""


@dataclass(frozen=True)
class _Pairing:
    """Pairs of own name -> name in the file, and the unmatched names on both sides."""

    pairs: Mapping[str, str]
    missing: Sequence[str]
    surplus: Sequence[str]


class Matched(NamedTuple):
    """The tensors of a file under the network's own names, and the file's biases that were merged in running means."""

    tensors: dict[str, Tensor]
    folded: tuple[str, ...]


def match_keys(weights: Weights, expected: Weights) -> Matched:
    """Rename the file's tensors to the network's own names, which gives a state dict to load.

    Prefixes of wrappers (`module.`, `encoder.` ...) are ignored. If the names are those of a different program, the
    layers are matched in order, provided that each has the same kind and shape. The tensors of a classifier are
    omitted. If the file has a bias for a convolution that has none in the network because batch normalisation follows,
    the bias is subtracted from the running mean of this normalisation, which is equivalent.

    Args:
        weights: name -> tensor of the file, in its order.
        expected: the network's state dict.

    Raises:
        Unmatched: a tensor has no counterpart; the message names each.
    """
    weights = {key: tensor for key, tensor in weights.items() if not key.endswith(COUNTER)}
    parameters = {key: tensor for key, tensor in expected.items() if not key.endswith(COUNTER)}
    tries = [_by_name(weights, parameters), _by_order(weights, parameters), _by_order(_once(weights), parameters)]
    complete = [pairing for pairing in tries if not pairing.missing and not pairing.surplus]
    if not complete:
        raise Unmatched(_spell(max(tries, key=lambda pairing: len(pairing.pairs)), weights, parameters))
    pairs = complete[0].pairs
    matched = {key: weights[pairs[key]] if key in pairs else torch.zeros_like(expected[key]) for key in expected}
    folded = []
    for convolution, norm in _normalised(parameters).items():
        bias = f"{_layer(pairs[f'{convolution}.weight'])}.bias"
        if bias in weights:
            matched[f"{norm}.running_mean"] = matched[f"{norm}.running_mean"] - weights[bias]
            folded.append(bias)
    return Matched(matched, tuple(folded))


def classifier_keys(weights: Weights, expected: Weights) -> list[str]:
    """The file's tensors that belong to a classifier, which the network does not have."""
    return [
        key
        for key in weights
        if _is_head(key) and not any(key == key_of_own or key.endswith(f".{key_of_own}") for key_of_own in expected)
    ]


def _by_name(weights: Weights, expected: Weights) -> _Pairing:
    """Match equal names after one prefix, the one with the most matches. Tensors without this prefix are ignored."""
    prefixes = {""} | {key[: i + 1] for key in weights for i, letter in enumerate(key) if letter == "."}
    prefix = max(sorted(prefixes), key=lambda prefix: sum(prefix + key in weights for key in expected))
    pairs = {
        key: prefix + key
        for key in expected
        if prefix + key in weights and weights[prefix + key].shape == expected[key].shape
    }
    used = {*pairs.values(), *(f"{prefix}{convolution}.bias" for convolution in _normalised(expected))}
    rest = [key for key in weights if key.startswith(prefix) and key not in used and not _is_head(key)]
    return _Pairing(pairs, [key for key in expected if key not in pairs], rest)


def _by_order(weights: Weights, expected: Weights) -> _Pairing:
    """Match layers by their position if their tensors have the same names and shapes."""
    own_layers, their_layers = (
        _layers(expected),
        _layers({key: value for key, value in weights.items() if not _is_head(key)}),
    )
    normalised = _normalised(expected)
    pairs: dict[str, str] = {}
    rest = dict(their_layers)
    for (name, leaves), (other, others) in zip(own_layers.items(), their_layers.items(), strict=False):
        equal_shapes = all(leaf in others and others[leaf].shape == tensor.shape for leaf, tensor in leaves.items())
        if equal_shapes and not others.keys() - leaves.keys() - ({"bias"} if name in normalised else set()):
            pairs |= {_key(name, leaf): _key(other, leaf) for leaf in leaves}
            del rest[other]
    surplus = [_key(name, leaf) for name, leaves in rest.items() for leaf in leaves]
    return _Pairing(pairs, [key for key in expected if key not in pairs], surplus)


def _layers(weights: Weights) -> dict[str, dict[str, Tensor]]:
    """Tensors by layer and by their name in the layer: {"conv1.0": {"weight": ..., "bias": ...}}."""
    layers: dict[str, dict[str, Tensor]] = {}
    for key, tensor in weights.items():
        layers.setdefault(_layer(key), {})[key.rpartition(".")[2]] = tensor
    return layers


def _layer(key: str) -> str:
    return key.rpartition(".")[0]


def _key(layer: str, leaf: str) -> str:
    return f"{layer}.{leaf}" if layer else leaf  # tensors of the network itself have no layer


def _once(weights: Weights) -> Weights:
    """Remove layers equal to an earlier one, because some programs store each layer under several names."""
    kept: dict[str, dict[str, Tensor]] = {}
    for name, leaves in _layers(weights).items():
        if not any(
            leaves.keys() == others.keys() and all(torch.equal(leaves[leaf], others[leaf]) for leaf in leaves)
            for others in kept.values()
        ):
            kept[name] = leaves
    return {_key(name, leaf): tensor for name, leaves in kept.items() for leaf, tensor in leaves.items()}


def _normalised(expected: Weights) -> dict[str, str]:
    """Convolutions without bias, each with the batch normalisation that directly follows it in the same block."""
    layers = _layers(expected)
    return {
        name: norm
        for name, norm in itertools.pairwise(layers)
        if layers[name].keys() == {"weight"}
        and "running_mean" in layers[norm]
        and _layer(name) == _layer(norm)
        and len(layers[name]["weight"]) == len(layers[norm]["running_mean"])
    }


def _is_head(key: str) -> bool:
    return not set(HEADS).isdisjoint(key.split("."))


def _spell(pairing: _Pairing, weights: Weights, expected: Weights) -> str:
    lists = {"the network's": (pairing.missing, expected), "the file's": (pairing.surplus, weights)}
    parts = [
        f"{side} {', '.join(f'{key} {tuple(tensors[key].shape)}' for key in keys)}"
        for side, (keys, tensors) in lists.items()
        if keys
    ]
    return f"no counterpart for {' and for '.join(parts)}"
