"""Seals of files of tensors: whether what was read is what was written. Against damage, not against forgery."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint

SEAL = "seal"
_SETTLED = 2 * 10**9
"""A file changed less than 2 s ago may change again without a new mtime, so it is not remembered as intact."""

_intact: set[tuple[str, int, int, int, int]] = set()
"""Files whose seal was found to be right in this process, as they were then: a bank of gigabytes is read once for it,
however many strategies ask for it."""


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
    """That tensors and header, as they were read, are those that were sealed. A file without a seal passes.

    Every byte is read, at about 1 GB a second (SHA-256 on one core): once in a process, as long as neither the file's
    time nor its size changes.

    Raises:
        InputError: names the file.
    """
    if SEAL not in header:
        return
    state = _state(path)
    if (header[SEAL], *state) in _intact:
        return
    if header[SEAL] != _seal(tensors, header) or _state(path) != state:
        raise InputError(f"{path}: has changed since it was written; {remedy}")
    if time.time_ns() - state[-1] > _SETTLED:
        _intact.add((header[SEAL], *state))


def _state(path: Path) -> tuple[int, int, int, int]:
    """What changes when a file does: its device, inode, size and time."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _seal(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    texts = [f"{key}={header[key]}" for key in sorted(header) if key != SEAL]
    return fingerprint_of({key: tensors[key] for key in sorted(tensors)}, *texts)
