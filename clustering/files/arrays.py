"""Arrays of an .npz file, of which nothing is unpacked before it is known how large it is."""

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
"""What files of arrays and packed files raise where they are damaged: a RuntimeError where they are encrypted."""


def read_arrays(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, by name; none of objects, which only running code could build.

    Names, types and shapes are read first: a few kilobytes can be packed zeros for the whole memory.

    Args:
        wanted: which of them, by name.

    Raises:
        OSError: there is none, or it cannot be opened.
        ValueError: it is damaged, no archive of arrays, or larger than what is free of memory.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = {name: member for name, member in _members(archive).items() if wanted(name)}
            sizes = {name: _size(archive, member) for name, member in members.items()}
            memory.require(f"{path}: unpacking it", sizes, "give a smaller file")
            return {name: _array(archive, member) for name, member in members.items()}
    except (*_DAMAGED, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def array_names(path: Path) -> list[str]:
    """The names of the arrays, of which none is unpacked.

    Raises:
        OSError, ValueError: as `read_arrays`.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return list(_members(archive))
    except _DAMAGED as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {member.filename.removesuffix(".npy"): member for member in archive.infolist() if not member.is_dir()}


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Bytes of an array, as its header says; never more than there are in the archive."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{member.filename} is an array of another version")
        shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds pickled objects, which are not loaded")
    if not dtype.itemsize and math.prod(shape):
        raise ValueError(f"{member.filename} has items of no bytes, of which there may be any number")
    size: int = math.prod(shape) * dtype.itemsize
    if size > member.file_size or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} is cut short: of {size:,} bytes there are {member.file_size:,}")
    return size


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # its checksum is looked at when the end is reached
    return array
