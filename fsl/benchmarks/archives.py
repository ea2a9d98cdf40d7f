"""Archives of arrays (.npz) that may be larger than the memory."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from clustering.files.regular import open_regular

LOCAL_HEADER = struct.Struct("<26xHH")  # of a member: the lengths of its name and of its extra field come last


def open_archive(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz by name. One that is stored as it is (`np.savez`) is mapped from the file and takes no
    memory; one that is compressed takes its whole size.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: damaged, no archive, or arrays of objects, which are not loaded.
    """
    found: dict[str, NDArray[Any]] = {}
    with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            mapped = _mapped(path, member) if member.compress_type == zipfile.ZIP_STORED else None
            if mapped is not None:
                found[member.filename.removesuffix(".npy")] = mapped
        names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
    found |= read_arrays(path, lambda name: name not in found)
    return {name: found[name] for name in names}


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray[Any] | None:
    """An array that is stored as it is; None for one that cannot be mapped."""
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        stream.seek(sum(LOCAL_HEADER.unpack(stream.read(LOCAL_HEADER.size))), 1)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        header = read.get(np.lib.format.read_magic(stream))
        if header is None:
            return None
        shape, fortran, dtype = header(stream)
        if dtype.hasobject or 0 in shape or shape == ():
            return None
        return np.memmap(path, dtype, "r", stream.tell(), shape, "F" if fortran else "C")
