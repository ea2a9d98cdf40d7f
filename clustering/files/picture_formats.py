"""Formats of pictures. HEIC and HEIF, as smartphones write them, are read if pillow-heif is installed."""

import functools
import mimetypes
import os
import warnings
from collections import Counter
from collections.abc import Collection
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular

HEIF = (".heic", ".heif")
PICTURES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".dib", ".webp", ".gif", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".j2k", ".jpx", ".tga", ".psd", *HEIF),
)
"""Endings of the pictures that are read."""
OTHERS = (
    *(".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".jxl", ".exr", ".hdr", ".eps"),
    *(".dcm", ".fits", ".fit", ".xcf", ".pcx", ".svs", ".ndpi", ".czi"),
)
"""Endings of other pictures, besides those that `mimetypes` knows."""
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"II*\0", b"MM\0*", b"\0\0\0 ftyp", b"\0\0\0\x1cftyp")
_TYPES = mimetypes.MimeTypes()  # those of Python alone, the same on every system
HEIF_REMEDY = "reading HEIC and HEIF requires pillow-heif: pip install 'transduce[heif]', or save the file as JPEG"


def is_heif(name: str) -> bool:
    """Whether the name has an extension of these formats."""
    return name.lower().endswith(HEIF)


@functools.cache
def read_heif() -> bool:
    """Enable these formats in Pillow. Returns False if pillow-heif is missing."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def is_picture(name: str) -> bool:
    """Whether a file has the name of a picture; hidden files have not."""
    return name.lower().endswith(PICTURES) and not name.startswith(".")


def warn_of_others(folder: object, names: Collection[str]) -> None:
    """Warn of pictures in a folder that are left out because of their format."""
    endings = {name: PurePath(name).suffix.lower() for name in names if not name.startswith(".")}
    others = Counter(
        ending or "without ending"
        for name, ending in endings.items()
        if ending not in PICTURES and (_is_of_others(ending) or _begins_as_picture(os.path.join(str(folder), name)))
    )
    if others:
        counted = ", ".join(f"{count} {ending}" for ending, count in sorted(others.items()))
        warnings.warn(f"{folder}: pictures that cannot be read are left out: {counted}; save them as PNG", stacklevel=3)


def _is_of_others(ending: str) -> bool:
    kind = _TYPES.guess_type(f"picture{ending}")[0] or ""
    return ending in OTHERS or kind.startswith("image/")


def _begins_as_picture(file: str) -> bool:
    """Whether a file of unknown ending, as photo.jpg_large, has the first bytes of a common format."""
    if _TYPES.guess_type(file)[0]:
        return False
    try:
        with open_regular(file) as stream:
            return stream.read(12).startswith(_BEGINNINGS)
    except OSError:
        return False


def eight_bits(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey values of 16 bits as 8 bits. Pictures of cameras and scanners that use only 12 or 10 of them are recognised
    by their largest value."""
    largest = int(levels.max(initial=0))
    shift = 8 if largest >= 1 << 12 else 4 if largest >= 1 << 10 else 2 if largest >= 1 << 8 else 0
    return (levels >> shift).clip(0, 255).astype(np.uint8)
