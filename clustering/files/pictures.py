"""Pictures: their formats, where they lie in folders, and how they are decoded (by Pillow, an extra).

HEIC and HEIF, as smartphones write them, are read if pillow-heif is installed.
"""

import functools
import io
import mimetypes
import os
import warnings
from collections import Counter
from collections.abc import Collection
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError, InputWarning

if TYPE_CHECKING:
    from PIL import Image

Fit = Literal["squeeze", "crop"]

_HEIF = (".heic", ".heif")
PICTURES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".dib", ".webp", ".gif", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".j2k", ".jpx", ".tga", ".psd", *_HEIF),
)
"""Endings of the pictures that are read."""
OTHERS = (
    *(".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".jxl", ".exr", ".hdr", ".eps"),
    *(".dcm", ".fits", ".fit", ".xcf", ".pcx", ".svs", ".ndpi", ".czi"),
)
"""Endings of other pictures, besides those that `mimetypes` knows."""
_DRAFT = 3  # JPEGs are decoded at 1/2, 1/4 or 1/8 of their size if the result is at least this multiple of the square
_SIXTEEN = ("PNG", "PPM")  # formats whose 16-bit grey images Pillow opens as 32-bit
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"II*\0", b"MM\0*", b"\0\0\0 ftyp", b"\0\0\0\x1cftyp")
_TYPES = mimetypes.MimeTypes()  # those of Python alone, the same on every system
HIDDEN = (".", "__MACOSX", "lost+found", "@eaDir", "$RECYCLE.BIN")
"""Prefixes of folders that are ignored."""
_HEIF_REMEDY = "reading HEIC and HEIF requires pillow-heif: pip install 'transduce[heif]', or save the file as JPEG"


@functools.cache
def read_heif() -> bool:
    """Enable HEIC and HEIF in Pillow. Returns False if pillow-heif is missing."""
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
        told = f"{folder}: pictures that cannot be read are left out: {counted}; save them as PNG"
        warnings.warn(told, InputWarning, stacklevel=3)


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


def pictures_under(folder: Path) -> list[str]:
    """The pictures in a folder and its subfolders, sorted by name, without hidden files and files added by macOS.

    Paths are strings, because `Path` objects of a million pictures take half a minute.

    Raises:
        InputError: a folder cannot be read, or occurs twice (through circular links).
    """

    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); make it readable, or remove it")

    pictures: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    for place, folders, files in os.walk(folder, followlinks=True, onerror=fail):
        if (first := seen.setdefault(os.path.realpath(place), place)) != place:
            raise InputError(f"{place} and {first} are the same folder because of a link; remove the link")
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        warn_of_others(place, files)
        pictures += [(name, place) for name in files if is_picture(name)]
    return [f"{place}{os.sep}{name}" for name, place in sorted(pictures)]


def open_picture(
    stored: "bytes | NDArray[np.uint8] | Image.Image",
    name: str,
    *,
    least: int,
    upright: bool,
    mode: Literal["RGB", "L"] = "RGB",
) -> "Image.Image":
    """Convert a picture of any mode to RGB or grey; transparency becomes white, and 16-bit grey is scaled to 8 bits.

    Args:
        stored: the bytes of a file, pixels (H, W) or (H, W, 3), or a Pillow image.
        name: name of the picture, for messages.
        least: side in pixels after resizing; much larger JPEGs are decoded at a fraction of their size.
        upright: rotate according to the EXIF data.
        mode: that of the result.

    Raises:
        InputError: the picture cannot be decoded, or has 32-bit values; the message names it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    heif = read_heif()
    try:
        if isinstance(stored, bytes):
            file: Image.Image = Image.open(io.BytesIO(stored))
            file.draft(mode, (_DRAFT * least, _DRAFT * least))
        else:
            file = Image.fromarray(stored) if isinstance(stored, np.ndarray) else stored
        if file.mode == "F" or (file.mode == "I" and file.format not in _SIXTEEN):
            raise InputError(f"{name}: has 32-bit values, whose range is unknown; save it with 8 or 16 bits")
        picture = ImageOps.exif_transpose(file) if upright else file
        if picture.mode.startswith("I"):  # Pillow's conversion would clip values above 255
            return Image.fromarray(eight_bits(np.asarray(picture))).convert(mode)
        if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA"):
            below = Image.new("RGBA", picture.size, "white")  # transparent pixels have arbitrary colours in the file
            return Image.alpha_composite(below, picture.convert("RGBA")).convert(mode)
        return picture.convert(mode)
    except (MemoryError, InputError):
        raise
    except Exception as error:  # for a damaged picture, Pillow may raise any error
        if name.lower().endswith(_HEIF) and not heif:
            raise InputError(f"{name}: {_HEIF_REMEDY}") from error
        if isinstance(error, Image.DecompressionBombError):
            raise InputError(f"{name}: has more pixels than Pillow decodes ({error}); save it smaller") from error
        reason = str(error) if not isinstance(error, UnidentifiedImageError) else "not a picture"
        raise InputError(f"{name}: cannot be decoded ({reason}); repair or remove it, or download it again") from error


def squared(colour: "Image.Image", size: int, fit: Fit) -> "Image.Image":
    """Resize a picture to a square (Lanczos); a square of the right size is returned unchanged."""
    from PIL import Image, ImageOps

    if colour.size == (size, size):
        return colour
    resized = ImageOps.fit if fit == "crop" else Image.Image.resize
    return resized(colour, (size, size), Image.Resampling.LANCZOS)
