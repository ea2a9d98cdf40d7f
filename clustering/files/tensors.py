"""Tensors on disk: safetensors, written in one step, memory-mapped and checked when read. Never a pickle."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from clustering.files.atomic import replacing
from clustering.files.checksums import check_seal, sealed
from clustering.files.tensor_headers import check_format, opened


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
    with opened(path, remedy, framework="pt") as file:
        header = dict(file.metadata() or {})
        check_format(path, header, kind, remedy)
        return _tensors(file, path, header, remedy), header


def read_any_tensors(path: Path, remedy: str) -> dict[str, Tensor]:
    """The tensors (memory-mapped) of a safetensors file of any format, held against its seal where it has one.

    Raises:
        InputError: as `read_tensors`.
    """
    with opened(path, remedy, framework="pt") as file:
        return _tensors(file, path, dict(file.metadata() or {}), remedy)


def _tensors(file: Any, path: Path, header: Mapping[str, str], remedy: str) -> dict[str, Tensor]:
    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    check_seal(path, tensors, header, remedy)
    return tensors
