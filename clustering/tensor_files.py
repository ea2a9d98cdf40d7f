"""Tensors on disk: safetensors, written in one step, memory-mapped and checked when read. Never a pickle."""

import contextlib
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from clustering.errors import InputError
from clustering.replacing import replacing
from clustering.seals import check_seal, sealed


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write beside `path`, then rename over it, so that `path` never holds half a file.

    Args:
        path: the file; its folder must exist.
        tensors: name -> tensor.
        header: text for the file's metadata; "format" should say what the file is. A seal of it and of the tensors is
            added.
    """
    with replacing(path) as partial:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        try:
            safetensors.torch.save_file(contiguous, partial, metadata=sealed(contiguous, header))
        except safetensors.SafetensorError as error:
            # the library wraps the operating system's errors, a full disk among them, as "... (os error 28)"
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read_tensors(path: Path, kind: str, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors (memory-mapped) and the header of a file that `write_tensors` wrote.

    A file that has a seal is held against it. One without is of an older version or of another program, and is read.

    Args:
        path: the file.
        kind: what its header's "format" must be, such as "transduce features 1".
        remedy: what the user can do about a bad file, for the message.

    Raises:
        InputError: missing, truncated, not safetensors, of another format, or changed since it was written.
    """
    with _opened(path, remedy) as file:
        header = dict(file.metadata() or {})
        _check_format(path, header, kind, remedy)
        return _tensors(file, path, header, remedy), header


def read_any_tensors(path: Path, remedy: str) -> dict[str, Tensor]:
    """The tensors (memory-mapped) of a safetensors file of any format, held against its seal where it has one.

    Raises:
        InputError: as `read_tensors`.
    """
    with _opened(path, remedy) as file:
        return _tensors(file, path, dict(file.metadata() or {}), remedy)


def read_header(path: Path, remedy: str, kind: str | None = None) -> dict[str, str]:
    """The text in the header of a safetensors file. Quick: nothing else is read, and the seal is not looked at.

    Args:
        kind: what its "format" must be; None: anything.

    Raises:
        InputError: missing, truncated, not safetensors, or of another format.
    """
    with _opened(path, remedy) as file:
        header = dict(file.metadata() or {})
    if kind is not None:
        _check_format(path, header, kind, remedy)
    return header


def _check_format(path: Path, header: Mapping[str, str], kind: str, remedy: str) -> None:
    if header.get("format") != kind:
        found = header.get("format", "another program's file")
        raise InputError(f"{path}: holds {found!r}, not {kind!r}; {remedy}")


@contextlib.contextmanager
def _opened(path: Path, remedy: str) -> Iterator[Any]:
    if not os.path.isfile(path):  # a device or a pipe may have no end
        raise InputError(f"{path}: {'is no file' if os.path.lexists(path) else 'no such file'}; {remedy}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = textwrap.shorten(str(error), 80)
        raise InputError(f"{path}: truncated or not a safetensors file ({reason}); {remedy}") from error


def _tensors(file: Any, path: Path, header: Mapping[str, str], remedy: str) -> dict[str, Tensor]:
    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    check_seal(path, tensors, header, remedy)
    return tensors
