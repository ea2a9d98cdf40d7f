"""Pictures as files hold them, decoded when they are asked for."""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from clustering.files.heif import HEIF_REMEDY, is_heif, read_heif
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError

Fit = Literal["squeeze", "crop"]
_DRAFT = 3  # a JPEG is decoded at a half, a quarter or an eighth of its size that is at least so many times the square
_SIXTEEN = ("PNG", "PPM")  # their grey of 16 bits is opened as if it were of 32


@dataclass(frozen=True)
class EncodedPictures:
    """JPEG, PNG or other pictures as RGB squares.

    Attributes:
        names: what each picture is called, for messages; N of them.
        read: the bytes of the picture at an index, or its pixels (H, W, 3) uint8; from several threads at once.
        size: side of the squares in pixels.
        fit: how a picture of another shape becomes one (Lanczos): squeezed, as mini-ImageNet was made from ImageNet, or
            its middle cut out.
        upright: turned as its EXIF data say. The papers' code does not look at them.
    """

    names: Sequence[str]
    read: Callable[[int], bytes | NDArray[np.uint8]]
    size: int
    fit: Fit = "squeeze"
    upright: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, 3, size, size)."""
        return len(self.names), 3, self.size, self.size

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        """The pictures of a slice, decoded.

        Raises:
            InputError: names the picture that cannot be read or decoded.
        """
        indices = range(*part.indices(len(self.names)))
        images = np.empty((len(indices), *self.shape[1:]), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self.decoded(index, self.stored(index)).transpose(2, 0, 1)
        return images

    def stored(self, index: int) -> bytes | NDArray[np.uint8]:
        """What is there of a picture.

        Raises:
            InputError: names the picture that cannot be read.
        """
        try:
            return self.read(index)
        except OSError as error:
            raise InputError(f"{self.names[index]}: cannot be read ({error.strerror}); put it there again") from error

    def decoded(self, index: int, stored: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(size, size, 3) of what `stored` gave for an index.

        Raises:
            InputError: names the picture that cannot be decoded.
        """
        if isinstance(stored, np.ndarray) and stored.shape == (self.size, self.size, 3):
            return stored
        colour = open_rgb(stored, self.names[index], least=self.size, upright=self.upright)
        return np.asarray(squared(colour, self.size, self.fit))


def open_rgb(stored: bytes | NDArray[np.uint8] | Image.Image, name: str, *, least: int, upright: bool) -> Image.Image:
    """A picture of any mode in colour; what is transparent becomes white.

    Args:
        stored: the bytes of a file, pixels (H, W) or (H, W, 3), or a picture of Pillow's.
        name: of the picture, for messages.
        least: side in pixels that it will get: a JPEG that is many times as large is decoded at a fraction of its size.
        upright: turned as its EXIF data say.

    Raises:
        InputError: names the picture that cannot be decoded, or has values of 32 bits.
    """
    try:
        with _opened(stored) as file:
            if file.mode == "F" or (file.mode == "I" and file.format not in _SIXTEEN):
                raise InputError(
                    f"{name}: has values of 32 bits, of which black and white are not known; save it with 8 or 16"
                )
            if isinstance(stored, bytes):
                file.draft("RGB", (_DRAFT * least, _DRAFT * least))
            return _rgb(ImageOps.exif_transpose(file) if upright else file)
    except (MemoryError, InputError):
        raise
    except Exception as error:  # what Pillow raises for a damaged picture cannot be listed
        if is_heif(name) and not read_heif():
            raise InputError(f"{name}: {HEIF_REMEDY}") from error
        reason = str(error) if not isinstance(error, UnidentifiedImageError) else "no picture"
        raise InputError(f"{name}: cannot be decoded ({reason}); fetch it again") from error


def squared(colour: Image.Image, size: int, fit: Fit) -> Image.Image:
    """A picture as a square of so many pixels (Lanczos); itself where it is one."""
    square = (size, size)
    if colour.size == square:
        return colour
    if fit == "crop":
        return ImageOps.fit(colour, square, Image.Resampling.LANCZOS)
    return colour.resize(square, Image.Resampling.LANCZOS)


def _opened(stored: bytes | NDArray[np.uint8] | Image.Image) -> contextlib.AbstractContextManager[Image.Image]:
    read_heif()
    if isinstance(stored, Image.Image):
        return contextlib.nullcontext(stored)  # whose it is, closes it
    return Image.fromarray(stored) if isinstance(stored, np.ndarray) else Image.open(io.BytesIO(stored))


def _rgb(picture: Image.Image) -> Image.Image:
    """In colour; grey of 16 bits scaled, for which Pillow's own conversion cuts off all that is above 255."""
    if picture.mode.startswith("I;16") or picture.mode == "I":
        levels = np.asarray(picture)
        return Image.fromarray((levels >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA"):
        below = Image.new("RGBA", picture.size, "white")  # what is transparent has any colour in the file
        return Image.alpha_composite(below, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")


def read_bytes(file: str) -> bytes:
    """What is in a file."""
    with open_regular(file) as stream:
        return stream.read()
