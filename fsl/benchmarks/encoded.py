"""Encoded pictures (JPEG, PNG and others), decoded on demand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clustering.files.pictures import Fit, open_picture, squared


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
        colour = open_picture(stored, self.names[index], least=self.size, upright=self.upright)
        return np.asarray(squared(colour, self.size, self.fit))
