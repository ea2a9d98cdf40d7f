"""Arrays of an .npz file, whose sizes are checked before anything is decompressed."""

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation import memory

_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_DAMAGED = (
    *(EOFError, LookupError, NotImplementedError, RuntimeError, SyntaxError, TypeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)
UNREADABLE = (OSError, ValueError, *_DAMAGED)
"""Errors of damaged array files and archives; an encrypted one raises RuntimeError."""


def read_arrays(path: Path, select: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; object arrays, which can run code, are rejected.

    Names, dtypes and shapes are read first, since a few kilobytes can decompress to more than the memory.

    Args:
        path: the file.
        select: selects arrays by name.

    Raises:
        OSError: the file does not exist, or cannot be opened.
        ValueError: the file is damaged, is not an archive of arrays, or exceeds the free memory.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = {name: member for name, member in _members(archive).items() if select(name)}
            sizes = {name: _size(archive, member) for name, member in members.items()}
            memory.require(f"{path}: unpacking it", sizes, "use a smaller file")
            return {name: _array(archive, member) for name, member in members.items()}
    except (*_DAMAGED, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def array_names(path: Path) -> list[str]:
    """The names of the arrays, without decompression.

    Raises:
        OSError, ValueError: as in `read_arrays`.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return list(_members(archive))
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {member.filename.removesuffix(".npy"): member for member in archive.infolist() if not member.is_dir()}


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Bytes of an array according to its header, at most the size of the archive member."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{member.filename} is an array of an unsupported version")
        shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} contains pickled objects, which are not loaded")
    if not dtype.itemsize and math.prod(shape):
        raise ValueError(f"{member.filename} has items of zero bytes, whose number is unlimited")
    size: int = math.prod(shape) * dtype.itemsize
    if size > member.file_size or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} is truncated: it has {member.file_size:,} of {size:,} bytes")
    return size


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is verified at the end
    return array
