"""Pictures in their files' own encoding, decoded when they are asked for."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from clustering.errors import InputError


@dataclass(frozen=True)
class EncodedPictures:
    """JPEG, PNG or other pictures as RGB squares.

    A picture of another size is squeezed into the square (Lanczos), as mini-ImageNet was made from ImageNet.

    Attributes:
        names: what each picture is called, for messages; N of them.
        read: the bytes of the picture at an index; from several threads at once.
        size: side of the squares in pixels.
    """

    names: Sequence[str]
    read: Callable[[int], bytes]
    size: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, 3, size, size)."""
        return len(self.names), 3, self.size, self.size

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        """The pictures of a slice, decoded.

        Raises:
            InputError: names the picture that cannot be decoded.
        """
        indices = range(*part.indices(len(self.names)))
        images = np.empty((len(indices), *self.shape[1:]), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._decoded(index).transpose(2, 0, 1)
        return images

    def _decoded(self, index: int) -> NDArray[np.uint8]:
        try:
            with Image.open(io.BytesIO(self.read(index))) as picture:
                colour = picture.convert("RGB")
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises all of these
            reason = str(error) if not isinstance(error, UnidentifiedImageError) else "no picture"
            raise InputError(f"{self.names[index]}: cannot be decoded ({reason}); fetch it again") from error
        if colour.size != (self.size, self.size):
            colour = colour.resize((self.size, self.size), Image.Resampling.LANCZOS)
        return np.asarray(colour)


def of_files(paths: Sequence[Path], size: int) -> EncodedPictures:
    """The pictures in these files."""
    return EncodedPictures([str(path) for path in paths], lambda index: paths[index].read_bytes(), size)
