"""Tensors on disk: safetensors, written in one step, memory-mapped and checked when read. Never a pickle."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from clustering.errors import InputError


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write beside `path`, then rename over it, so that `path` never holds half a file.

    Args:
        path: the file; its folder must exist.
        tensors: name -> tensor.
        header: text for the file's metadata; "format" should say what the file is.
    """
    with _partial(path) as partial:
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        try:
            safetensors.torch.save_file(contiguous, partial, metadata=dict(header))
        except safetensors.SafetensorError as error:
            # the library wraps the operating system's errors, a full disk among them, as "... (os error 28)"
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, renamed over it when all went well."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def read_tensors(path: Path, kind: str, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors (memory-mapped) and the header of a file that `write_tensors` wrote.

    Args:
        path: the file.
        kind: what its header's "format" must be, such as "transduce features 1".
        remedy: what the user can do about a bad file, for the message.

    Raises:
        InputError: missing, truncated, not safetensors, or of another format.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; {remedy}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = dict(file.metadata() or {})
            if header.get("format") != kind:
                found = header.get("format", "another program's file")
                raise InputError(f"{path}: holds {found!r}, not {kind!r}; {remedy}")
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: truncated or not a safetensors file ({error}); {remedy}") from error
