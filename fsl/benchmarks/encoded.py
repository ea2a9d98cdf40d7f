"""Pictures as files hold them, decoded when they are asked for."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from clustering.errors import InputError

Fit = Literal["squeeze", "crop"]
_DRAFT = 3  # a JPEG is decoded at a half, a quarter or an eighth of its size that is at least so many times the square


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
        try:
            with Image.fromarray(stored) if isinstance(stored, np.ndarray) else Image.open(io.BytesIO(stored)) as file:
                file.draft("RGB", (_DRAFT * self.size, _DRAFT * self.size))
                picture = ImageOps.exif_transpose(file) if self.upright else file
                colour = _rgb(picture)
        except Exception as error:  # what Pillow raises for a damaged picture cannot be listed
            reason = str(error) if not isinstance(error, UnidentifiedImageError) else "no picture"
            raise InputError(f"{self.names[index]}: cannot be decoded ({reason}); fetch it again") from error
        square = (self.size, self.size)
        if colour.size != square:
            if self.fit == "crop":
                colour = ImageOps.fit(colour, square, Image.Resampling.LANCZOS)
            else:
                colour = colour.resize(square, Image.Resampling.LANCZOS)
        return np.asarray(colour)


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
    with open(file, "rb") as stream:
        return stream.read()
