"""A tensor too large for memory, written block by block; an interrupted writing goes on at its last whole block."""

import contextlib
import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Block = NDArray[np.uint8]
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_blocks(
    path: Path,
    counted: Mapping[str, Tensor],
    name: str,
    shape: Sequence[int],
    blocks: Callable[[int], Iterable[Block]],
    header: Callable[[], Mapping[str, str]],
    seen: Callable[[Block], None],
) -> None:
    """Write a safetensors file of small tensors and a large one, of which only a block is in memory at a time.

    `path` appears when all is there. Until then the blocks lie in `<path>.partial`, and a journal beside it has the
    number of rows and the SHA-256 of each: a process that was killed is followed by one that takes over what agrees
    with the journal. So it is after a full disk; after any other error both are removed. Nobody else may write there
    meanwhile.

    Args:
        path: the file; its folder must exist.
        counted: int64 tensors, small ones.
        name, shape: of the uint8 tensor of the blocks.
        blocks: its parts along the first dimension, in order, from a row on.
        header: asked before the blocks and again after them, when it may say what they came to, such as a checksum,
            in text of the same length.
        seen: called with each block in order, with those that were there already, too.
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

    first = head()
    start = first + b"".join(tensor.cpu().numpy().astype("<i8").tobytes() for tensor in counted.values())
    with _unfinished(path) as (file, journal):
        rows = _take_over(file, journal, start, shape, seen)
        for block in blocks(rows):
            block = np.ascontiguousarray(block)
            file.write(block.data)
            file.flush()
            journal.write(f"{len(block)} {hashlib.sha256(block.data).hexdigest()}\n".encode())
            journal.flush()
            seen(block)
        file.seek(0)
        if file.write(head()) != len(first):
            raise ValueError(f"{path}: its header has changed in length")


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The file to be and its journal; renamed over `path` when all went well, and removed after an error."""
    partial, journal = path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.journal")
    try:
        for file in (partial, journal):
            file.touch()
        with partial.open("r+b") as content, journal.open("r+b") as log:
            yield content, log
            content.flush()
            os.fsync(content.fileno())
        partial.replace(path)
    except Exception as error:  # an interruption is none: it leaves both
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        with contextlib.suppress(OSError):
            partial.unlink()
            journal.unlink()
        raise
    with contextlib.suppress(OSError):
        journal.unlink()


def _take_over(
    file: BinaryIO, journal: BinaryIO, start: bytes, shape: Sequence[int], seen: Callable[[Block], None]
) -> int:
    """How many rows of an earlier process agree with its journal. Both files end there, ready to go on."""
    rows, end, lines = 0, len(start), 0
    row_bytes = math.prod(shape[1:])
    if file.read(len(start)) == start:
        for line in journal:
            count, _, digest = line.decode("ascii", "replace").strip().partition(" ")
            wanted = int(count) * row_bytes if count.isdecimal() else 0
            data = file.read(wanted) if 0 < wanted <= (shape[0] - rows) * row_bytes else b""
            if not data or hashlib.sha256(data).hexdigest() != digest:
                break
            seen(np.frombuffer(data, np.uint8).reshape(-1, *shape[1:]))
            rows, end, lines = rows + int(count), end + wanted, lines + len(line)
    file.seek(0)
    file.write(start)
    file.seek(end)
    file.truncate()
    journal.seek(lines)
    journal.truncate()
    return rows
