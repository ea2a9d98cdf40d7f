"""Arrays of .npy and .npz files, and arrays by name whose values are read when they are needed."""

import contextlib
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular

_DAMAGED = (
    *(EOFError, LookupError, NotImplementedError, RuntimeError, SyntaxError, TypeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)
UNREADABLE = (OSError, ValueError, *_DAMAGED)
"""Errors of damaged array files and archives; an encrypted one raises RuntimeError."""


class ArrayKind(NamedTuple):
    """What is known of an array before it is read.

    Attributes:
        letter: kind of its values, as in `numpy.dtype.kind`: f, i, u, b, U, S; O for objects; ? if it is unreadable.
        shape: its shape; -1 for the length of lists in a column, which is known only after reading.
    """

    letter: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class NamedArrays:
    """Named arrays, whose values are read when they are needed.

    Attributes:
        kinds: type and shape of each array by name; the name is empty if the file contains a single array.
        read: reads the arrays of these names.
        table: whether the arrays are columns of a table: (N,), or (N, D) for a column of lists.
        index: names of columns that number or name the rows.
    """

    kinds: Mapping[str, ArrayKind]
    read: Callable[[Sequence[str]], Mapping[str, NDArray[Any]]]
    table: bool = False
    index: tuple[str, ...] = ()


def read_array(path: Path) -> NDArray[Any]:
    """The array of an .npy file; an array of objects, which can run code, is rejected.

    Raises:
        OSError, ValueError: as in `read_arrays`.
    """
    with _opened(path) as file:
        return _array(file, "it")


def array_kinds(path: Path) -> dict[str, ArrayKind]:
    """Kinds and shapes of the arrays of an .npz file by name, from their headers.

    Raises:
        OSError, ValueError: as in `read_arrays`.
    """
    kinds = {}
    with _members(path) as (archive, members):
        for name, member in members.items():
            try:
                with archive.open(member) as stream:
                    shape, dtype = _header(stream)
                kinds[name] = ArrayKind("O" if dtype.hasobject else dtype.kind, shape)
            except UNREADABLE:
                kinds[name] = ArrayKind("?", ())
    return kinds


def read_arrays(path: Path, select: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; object arrays, which can run code, are rejected.

    Args:
        path: the file.
        select: selects arrays by name.

    Raises:
        OSError: the file does not exist, or cannot be opened.
        ValueError: the file is damaged, or is not an archive of arrays.
    """
    arrays = {}
    with _members(path) as (archive, members):
        for name, member in members.items():
            if select(name):
                with archive.open(member) as stream:
                    arrays[name] = _array(stream, member.filename)
                    stream.read(1)  # the checksum is verified at the end
    return arrays


def array_names(path: Path) -> list[str]:
    """The names of the arrays, without decompression.

    Raises:
        OSError, ValueError: as in `read_arrays`.
    """
    with _members(path) as (_, members):
        return list(members)


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The array in native byte order, and with at most 64 bits per number."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """The file, with all errors of damaged content as ValueError."""
    try:
        with open_regular(path) as file:
            yield file
    except (*_DAMAGED, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextlib.contextmanager
def _members(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An archive, and its members by the names of their arrays."""
    with _opened(path) as file, zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        yield archive, {member.filename.removesuffix(".npy"): member for member in members}


def _array(stream: IO[bytes], name: str) -> NDArray[Any]:
    shape, dtype = _header(stream)
    if dtype.hasobject:
        raise ValueError(f"{name} contains pickled objects, which are not loaded")
    if not dtype.itemsize and np.prod(shape, dtype=object):
        raise ValueError(f"{name} has items of zero bytes, whose number is unlimited")
    stream.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array that a stream begins with."""
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError("it is an array of an unsupported version")
    shape, _, dtype = read[version](stream)
    return tuple(shape), dtype
