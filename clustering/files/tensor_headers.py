"""Headers of safetensors files, read without torch."""

import contextlib
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors

from clustering.foundation.errors import InputError


def read_header(path: Path, remedy: str, kind: str | None = None) -> dict[str, str]:
    """The text in the header of a safetensors file. Nothing else is read, and the checksum is not verified.

    Args:
        kind: what its "format" must be; None: anything.

    Raises:
        InputError: the file is missing, truncated, not safetensors, or of another format.
    """
    with opened(path, remedy) as file:
        header = dict(file.metadata() or {})
    if kind is not None:
        check_format(path, header, kind, remedy)
    return header


def check_format(path: Path, header: Mapping[str, str], kind: str, remedy: str) -> None:
    """Check that a file has this format.

    Raises:
        InputError: it has another format.
    """
    if header.get("format") != kind:
        actual = header.get("format", "another program's file")
        raise InputError(f"{path}: holds {actual!r}, not {kind!r}; {remedy}")


@contextlib.contextmanager
def opened(path: Path, remedy: str, framework: str = "numpy") -> Iterator[Any]:
    """The open file of the library.

    Raises:
        InputError: the file is missing, truncated, or not safetensors.
    """
    if not os.path.isfile(path):  # devices and pipes may be endless
        raise InputError(f"{path}: {'not a file' if os.path.lexists(path) else 'no such file'}; {remedy}")
    try:
        with safetensors.safe_open(path, framework=framework) as file:
            yield file
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = textwrap.shorten(str(error), 80)
        raise InputError(f"{path}: truncated or not a safetensors file ({reason}); {remedy}") from error
