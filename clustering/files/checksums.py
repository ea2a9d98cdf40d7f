"""Checksums of tensor files, which detect damage but not forgery."""

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
"""A file modified less than 2 s ago may change again with the same mtime, so its check is not cached."""

_intact: set[tuple[str, int, int, int, int]] = set()
"""State of the files whose checksum was verified in this process, so that large banks are read only once."""


def fingerprint_of(tensors: Mapping[str, Tensor], *texts: str) -> str:
    """16 hexadecimal digits of the texts and of each tensor with its name, dtype and shape, in this order."""
    fingerprint = Fingerprint("weights", *texts)
    for key, tensor in tensors.items():
        fingerprint.add(f"{key} {tensor.dtype} {tuple(tensor.shape)}")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        fingerprint.add(flat.view(torch.uint8).numpy().data if len(flat) else b"")  # strides may be 0 without elements
    return str(fingerprint)


def with_checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> dict[str, str]:
    """The header of a file with these tensors, including a checksum of both."""
    return {**header, SEAL: _seal(tensors, header)}


def check_checksum(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str], remedy: str) -> None:
    """Check that tensors and header match their checksum. A file without a checksum passes.

    Every byte is read, at about 1 GB per second (SHA-256 on one core), once per process and state of the file.

    Raises:
        InputError: the checksum does not match; the message names the file.
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
    """Values that change when a file does: its device, inode, size and time."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _seal(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    texts = [f"{key}={header[key]}" for key in sorted(header) if key != SEAL]
    return fingerprint_of({key: tensors[key] for key in sorted(tensors)}, *texts)
