"""Seals of files of tensors: whether what was read is what was written. Against damage, not against forgery."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from clustering.errors import InputError
from clustering.fingerprint import Fingerprint

SEAL = "seal"


def fingerprint_of(tensors: Mapping[str, Tensor], *texts: str) -> str:
    """16 hexadecimal digits of the texts and of every tensor with its name, type and shape, in this order."""
    found = Fingerprint("weights", *texts)
    for key, tensor in tensors.items():
        found.add(f"{key} {tensor.dtype} {tuple(tensor.shape)}")
        found.add(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return str(found)


def sealed(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> dict[str, str]:
    """The header of a file with these tensors, and a seal of both in it."""
    return {**header, SEAL: _seal(tensors, header)}


def check_seal(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str], remedy: str) -> None:
    """That tensors and header are those that were sealed. A file without a seal passes.

    Raises:
        InputError: names the file.
    """
    if SEAL in header and header[SEAL] != _seal(tensors, header):
        raise InputError(f"{path}: has changed since it was written; {remedy}")


def _seal(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    texts = [f"{key}={header[key]}" for key in sorted(header) if key != SEAL]
    return fingerprint_of({key: tensors[key] for key in sorted(tensors)}, *texts)
