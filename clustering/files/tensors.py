"""Tensors on disk as safetensors files: written atomically, memory-mapped and verified when read. Never a pickle."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from clustering.files.atomic import replacing
from clustering.files.checksums import check_checksum, with_checksum
from clustering.files.tensor_headers import check_format, opened


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write to a temporary file and rename it, so that `path` never holds an incomplete file.

    Args:
        path: the file; its folder must exist.
        tensors: name -> tensor.
        header: text metadata of the file; "format" should say what the file is. A checksum of header and tensors is
            added.
    """
    with replacing(path) as partial:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        try:
            safetensors.torch.save_file(contiguous, partial, metadata=with_checksum(contiguous, header))
        except safetensors.SafetensorError as error:
            # the library wraps errors of the operating system, such as a full disk, as "... (os error 28)"
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def read_tensors(path: Path, kind: str, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
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
    with opened(path, remedy, framework="pt") as file:
        header = dict(file.metadata() or {})
        check_format(path, header, kind, remedy)
        return _tensors(file, path, header, remedy), header


def read_any_tensors(path: Path, remedy: str) -> dict[str, Tensor]:
    """The tensors (memory-mapped) of a safetensors file of any format; a checksum is verified if there is one.

    Raises:
        InputError: as in `read_tensors`.
    """
    with opened(path, remedy, framework="pt") as file:
        return _tensors(file, path, dict(file.metadata() or {}), remedy)


def _tensors(file: Any, path: Path, header: Mapping[str, str], remedy: str) -> dict[str, Tensor]:
    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    check_checksum(path, tensors, header, remedy)
    return tensors
