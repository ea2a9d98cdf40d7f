"""Tensors on disk as safetensors files: written atomically, memory-mapped and verified when read. Never a pickle.

A checksum in the header detects damage, not forgery. Headers are read without importing torch.
"""

import contextlib
import os
import re
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from clustering.files.atomic import replacing
from clustering.files.regular import state_of
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import Fingerprint

if TYPE_CHECKING:
    from torch import Tensor

SEAL = "seal"
_SETTLED = 2 * 10**9
"""A file modified less than 2 s ago may change again with the same mtime, so its check is not cached."""

_intact: set[tuple[str, int, int, int, int]] = set()
"""State of the files whose checksum was verified in this process, so that large banks are read only once."""


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", header: Mapping[str, str]) -> None:
    """Write to a temporary file and rename it, so that `path` never holds an incomplete file.

    Args:
        path: the file; its folder must exist.
        tensors: name -> tensor.
        header: text metadata of the file; "format" should say what the file is. A checksum of header and tensors is
            added.
    """
    from safetensors.torch import save_file

    with replacing(path) as partial:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        try:
            save_file(contiguous, partial, metadata={**header, SEAL: _seal(contiguous, header)})
        except safetensors.SafetensorError as error:
            # the library wraps errors of the operating system, such as a full disk, as "... (os error 28)"
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read_tensors(path: Path, kind: str, remedy: str) -> "tuple[dict[str, Tensor], dict[str, str]]":
    """The tensors (memory-mapped) and the header of a file that `write_tensors` wrote.

    A checksum is verified if the file has one. Files without one, of older versions or other programs, are accepted.

    Args:
        path: the file.
        kind: what its header's "format" must be, such as "transduce features 1".
        remedy: what the user can do about a bad file, for the message.

    Raises:
        InputError: the file is missing, truncated, not safetensors, of another format, or has changed since it was
            written.
    """
    header = read_header(path, remedy, kind)
    return read_any_tensors(path, remedy), header


def read_any_tensors(path: Path, remedy: str) -> "dict[str, Tensor]":
    """The tensors (memory-mapped) of a safetensors file of any format; a checksum is verified if there is one.

    Every byte is read, at about 1 GB per second (SHA-256 on one core), once per process and state of the file.

    Raises:
        InputError: as in `read_tensors`.
    """
    with _opened(path, remedy, framework="pt") as file:
        header = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if SEAL in header and (header[SEAL], *state_of(path)) not in _intact:
        state = state_of(path)
        if header[SEAL] != _seal(tensors, header) or state_of(path) != state:
            raise InputError(f"{path}: has changed since it was written; {remedy}")
        if time.time_ns() - state[-1] > _SETTLED:
            _intact.add((header[SEAL], *state))
    return tensors


def read_header(path: Path, remedy: str, kind: str | None = None) -> dict[str, str]:
    """The text in the header of a safetensors file. Nothing else is read, and the checksum is not verified.

    Args:
        path: the file.
        remedy: as in `read_tensors`.
        kind: what its "format" must be; None: anything.

    Raises:
        InputError: the file is missing, truncated, not safetensors, or of another format.
    """
    with _opened(path, remedy) as file:
        header = dict(file.metadata() or {})
    if kind is not None and header.get("format") != kind:
        actual = header.get("format", "another program's file")
        raise InputError(f"{path}: holds {actual!r}, not {kind!r}; {remedy}")
    return header


def fingerprint_of(tensors: "Mapping[str, Tensor]", *texts: str) -> str:
    """16 hexadecimal digits of the texts and of each tensor with its name, dtype and shape, in this order."""
    import torch

    fingerprint = Fingerprint("weights", *texts)
    for key, tensor in tensors.items():
        fingerprint.add(f"{key} {tensor.dtype} {tuple(tensor.shape)}")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        fingerprint.add(flat.view(torch.uint8).numpy().data if len(flat) else b"")  # strides may be 0 without elements
    return str(fingerprint)


@contextlib.contextmanager
def _opened(path: Path, remedy: str, framework: str = "numpy") -> Iterator[Any]:
    if not os.path.isfile(path):  # devices and pipes may be endless
        raise InputError(f"{path}: {'not a file' if os.path.lexists(path) else 'no such file'}; {remedy}")
    try:
        with safetensors.safe_open(path, framework=framework) as file:
            yield file
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        reason = textwrap.shorten(str(error), 80)
        raise InputError(f"{path}: truncated or not a safetensors file ({reason}); {remedy}") from error


def _seal(tensors: "Mapping[str, Tensor]", header: Mapping[str, str]) -> str:
    texts = [f"{key}={header[key]}" for key in sorted(header) if key != SEAL]
    return fingerprint_of({key: tensors[key] for key in sorted(tensors)}, *texts)
