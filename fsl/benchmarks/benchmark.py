"""The protocol of few-shot benchmarks: images of three disjoint sets of classes, and their preprocessing."""

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.fingerprint import Fingerprint as Fingerprint
from clustering.foundation.fingerprint import fingerprint as fingerprint

if TYPE_CHECKING:
    from fsl.benchmarks.augmentation import Augmentation

Split = Literal["base", "validation", "novel"]
SPLITS: tuple[Split, ...] = get_args(Split)


class ImageArray(Protocol):
    """Images (N, C, H, W) that can be sliced: a numpy array, or an object that decodes images on demand."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, part: slice, /) -> NDArray[np.uint8]:
        """The images of a slice. Thread-safe."""
        ...


class Decoded(NamedTuple):
    """A split as a benchmark reads it.

    Attributes:
        images: (N, C, H, W) uint8.
        labels: (N,) int64, 0..K-1; every class has at least one image.
        class_names: K names.
    """

    images: ImageArray
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]


class Benchmark(Protocol):
    """A frozen dataclass whose fields are its config.

    Attributes:
        name: name in the table of benchmarks.
        channels: number of channels, 1 or 3.
        size: height and width in pixels of the images returned by `read`.
        mean, std: per-channel mean and standard deviation of the base images, scaled to 0..1; the network's input is
            (image / 255 - mean) / std.
        augmentation: augmentation of the images in training.
    """

    name: ClassVar[str]
    channels: ClassVar[int]
    size: ClassVar[int]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]
    augmentation: ClassVar["Augmentation"]

    def source(self) -> str:
        """Identity of the source of the images (16 hexadecimal digits), computed without decoding images.

        Equal identities imply equal images; the paths of the files have no influence.

        Raises:
            InputError: files are missing; the message names the folder and the origin of the data.
        """
        ...

    def read(self, split: Split) -> Decoded:
        """Decode or generate all images of a split. The classes of the three splits are disjoint, except that a
        benchmark with `validates_on_base = True` may use base classes for validation.

        Raises:
            InputError: files are missing or invalid.
        """
        ...
