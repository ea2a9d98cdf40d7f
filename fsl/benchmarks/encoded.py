"""Encoded pictures (JPEG, PNG and others), decoded on demand."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from clustering.files.picture_formats import HEIF_REMEDY, eight_bits, is_heif, read_heif
from clustering.foundation.errors import InputError

Fit = Literal["squeeze", "crop"]
_DRAFT = 3  # JPEGs are decoded at 1/2, 1/4 or 1/8 of their size if the result is at least this multiple of the square
_SIXTEEN = ("PNG", "PPM")  # formats whose 16-bit grey images Pillow opens as 32-bit


@dataclass(frozen=True)
class EncodedPictures:
    """JPEG, PNG or other pictures as RGB squares.

    Attributes:
        names: names of the N pictures, for messages.
        read: thread-safe function that returns the bytes, or the (H, W, 3) uint8 pixels, of the picture at an index;
            it raises InputError if it cannot read them.
        size: side of the squares in pixels.
        fit: how other shapes are resized (Lanczos): "squeeze", as mini-ImageNet was made from ImageNet, or "crop" to
            the central square.
        upright: rotate pictures according to their EXIF data, which the papers' code ignores.
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
            InputError: a picture cannot be read or decoded; the message names it.
        """
        indices = range(*part.indices(len(self.names)))
        images = np.empty((len(indices), *self.shape[1:]), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self.decoded(index, self.read(index)).transpose(2, 0, 1)
        return images

    def decoded(self, index: int, stored: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
        """(size, size, 3) pixels of a picture, from the result of `read`.

        Raises:
            InputError: the picture cannot be decoded; the message names it.
        """
        if isinstance(stored, np.ndarray) and stored.shape == (self.size, self.size, 3):
            return stored
        colour = open_rgb(stored, self.names[index], least=self.size, upright=self.upright)
        return np.asarray(squared(colour, self.size, self.fit))


def open_rgb(stored: bytes | NDArray[np.uint8] | Image.Image, name: str, *, least: int, upright: bool) -> Image.Image:
    """Convert a picture of any mode to RGB; transparency becomes white, and 16-bit grey is scaled to 8 bits.

    Args:
        stored: the bytes of a file, pixels (H, W) or (H, W, 3), or a Pillow image.
        name: name of the picture, for messages.
        least: side in pixels after resizing; much larger JPEGs are decoded at a fraction of their size.
        upright: rotate according to the EXIF data.

    Raises:
        InputError: the picture cannot be decoded, or has 32-bit values; the message names it.
    """
    heif = read_heif()
    try:
        if isinstance(stored, bytes):
            file: Image.Image = Image.open(io.BytesIO(stored))
            file.draft("RGB", (_DRAFT * least, _DRAFT * least))
        else:
            file = Image.fromarray(stored) if isinstance(stored, np.ndarray) else stored
        if file.mode == "F" or (file.mode == "I" and file.format not in _SIXTEEN):
            raise InputError(f"{name}: has 32-bit values, whose range is unknown; save it with 8 or 16 bits")
        picture = ImageOps.exif_transpose(file) if upright else file
        if picture.mode.startswith("I"):  # Pillow's conversion would clip values above 255
            return Image.fromarray(eight_bits(np.asarray(picture))).convert("RGB")
        if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA"):
            below = Image.new("RGBA", picture.size, "white")  # transparent pixels have arbitrary colours in the file
            return Image.alpha_composite(below, picture.convert("RGBA")).convert("RGB")
        return picture.convert("RGB")
    except (MemoryError, InputError):
        raise
    except Exception as error:  # for a damaged picture, Pillow may raise any error
        if is_heif(name) and not heif:
            raise InputError(f"{name}: {HEIF_REMEDY}") from error
        if isinstance(error, Image.DecompressionBombError):
            raise InputError(f"{name}: has more pixels than Pillow decodes ({error}); save it smaller") from error
        reason = str(error) if not isinstance(error, UnidentifiedImageError) else "not a picture"
        raise InputError(f"{name}: cannot be decoded ({reason}); download it again") from error


def squared(colour: Image.Image, size: int, fit: Fit) -> Image.Image:
    """Resize a picture to a square (Lanczos); a square of the right size is returned unchanged."""
    if colour.size == (size, size):
        return colour
    resized = ImageOps.fit if fit == "crop" else Image.Image.resize
    return resized(colour, (size, size), Image.Resampling.LANCZOS)
