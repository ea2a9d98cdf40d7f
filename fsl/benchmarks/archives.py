"""Archives of arrays (.npz) that may be larger than memory."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import read_arrays
from clustering.files.regular import open_regular

LOCAL_HEADER = struct.Struct("<26xHH")  # header of a member, which ends with the lengths of its name and extra field


def open_archive(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz by name. Uncompressed arrays (`np.savez`) are memory-mapped; compressed ones are loaded.

    Raises:
        OSError, ValueError, zipfile.BadZipFile: the file is damaged or not an archive, or has arrays of objects, which
            are not loaded.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            mapped = _mapped(path, member) if member.compress_type == zipfile.ZIP_STORED else None
            if mapped is not None:
                arrays[member.filename.removesuffix(".npy")] = mapped
        names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
    arrays |= read_arrays(path, lambda name: name not in arrays)
    return {name: arrays[name] for name in names}


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray[Any] | None:
    """Memory-map an uncompressed array; None if that is impossible."""
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
