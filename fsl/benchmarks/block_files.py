"""Writing of tensors larger than memory, block by block; an interrupted write resumes after its last complete block."""

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
    on_block: Callable[[Block], None],
) -> None:
    """Write a safetensors file with small tensors and one large tensor, of which only one block is in memory.

    `path` is created when all blocks are written. Until then they are in `<path>.partial`, with a journal of the number
    of rows and the SHA-256 of each block. After a killed process or a full disk, the next call reuses the blocks that
    agree with the journal; after any other error both files are removed. Concurrent writers are not allowed.

    Args:
        path: the file; its folder must exist.
        counted: small int64 tensors.
        name, shape: name and shape of the large uint8 tensor.
        blocks: function of a row that yields the blocks from this row on, in order.
        header: returns the header; called before and after the blocks. The second result may contain a checksum, but
            must have the same length.
        on_block: called with each block in order, including reused ones.
    """
    # The int64 tensors are first, so that their offsets are multiples of eight bytes.
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
        rows = _take_over(file, journal, start, shape, on_block)
        for block in blocks(rows):
            block = np.ascontiguousarray(block)
            file.write(block.data)
            file.flush()
            journal.write(f"{len(block)} {hashlib.sha256(block.data).hexdigest()}\n".encode())
            journal.flush()
            on_block(block)
        file.seek(0)
        if file.write(head()) != len(first):
            raise ValueError(f"{path}: its header has changed in length")


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open the partial file and its journal; on success the file is renamed to `path`, on errors both are removed."""
    partial, journal = path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.journal")
    try:
        for file in (partial, journal):
            file.touch()
        with partial.open("r+b") as content, journal.open("r+b") as log:
            yield content, log
            content.flush()
            os.fsync(content.fileno())
        partial.replace(path)
    except Exception as error:  # an interruption is not an Exception and leaves both files
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        with contextlib.suppress(OSError):
            partial.unlink()
            journal.unlink()
        raise
    with contextlib.suppress(OSError):
        journal.unlink()


def _take_over(
    file: BinaryIO, journal: BinaryIO, start: bytes, shape: Sequence[int], on_block: Callable[[Block], None]
) -> int:
    """The number of rows of an earlier process that agree with its journal. Both files are truncated to these rows."""
    rows, end, lines = 0, len(start), 0
    row_bytes = math.prod(shape[1:])
    if file.read(len(start)) == start:
        for line in journal:
            count, _, digest = line.decode("ascii", "replace").strip().partition(" ")
            length = int(count) * row_bytes if count.isdecimal() else 0
            data = file.read(length) if 0 < length <= (shape[0] - rows) * row_bytes else b""
            if not data or hashlib.sha256(data).hexdigest() != digest:
                break
            on_block(np.frombuffer(data, np.uint8).reshape(-1, *shape[1:]))
            rows, end, lines = rows + int(count), end + length, lines + len(line)
    file.seek(0)
    file.write(start)
    file.seek(end)
    file.truncate()
    journal.seek(lines)
    journal.truncate()
    return rows
