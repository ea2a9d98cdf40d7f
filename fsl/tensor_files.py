"""Tensors on disk: safetensors, written in one step, memory-mapped and checked when read. Never a pickle."""

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
from numpy.typing import NDArray
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


def write_blocks(
    path: Path,
    counted: Mapping[str, Tensor],
    name: str,
    shape: Sequence[int],
    blocks: Iterable[NDArray[np.uint8]],
    header: Callable[[], Mapping[str, str]],
) -> None:
    """As `write_tensors`, with one more tensor that comes block by block and is never in memory as a whole.

    Args:
        path: the file; its folder must exist.
        counted: int64 tensors, small ones.
        name, shape: of the uint8 tensor of the blocks.
        blocks: its parts along the first dimension, in order.
        header: asked before the blocks and again after them, when it may say what they came to, such as a checksum,
            in text of the same length.
    """
    # Those of int64 first, so that they lie at multiples of eight bytes.
    layout = [*((key, "I64", tensor.shape, 8) for key, tensor in counted.items()), (name, "U8", shape, 1)]

    def head() -> bytes:
        entries: dict[str, object] = {"__metadata__": dict(header())}
        end = 0
        for key, kind, size, width in layout:
            start, end = end, end + width * math.prod(size)
            entries[key] = {"dtype": kind, "shape": list(size), "data_offsets": [start, end]}
        text = json.dumps(entries).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    with _partial(path) as partial, partial.open("wb") as file:
        size = file.write(head())
        for tensor in counted.values():
            file.write(tensor.cpu().numpy().astype("<i8").tobytes())
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
        file.seek(0)
        if file.write(head()) != size:
            raise ValueError(f"{path}: its header has changed in length")


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
