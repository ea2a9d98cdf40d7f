"""What a few-shot benchmark is: images of three sets of classes, and how a network is fed with them."""

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.fingerprint import Fingerprint as Fingerprint
from clustering.foundation.fingerprint import fingerprint as fingerprint

if TYPE_CHECKING:
    from fsl.training.augmentation import Augmentation

Split = Literal["base", "validation", "novel"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Pictures(Protocol):
    """Images (N, C, H, W) of which a part can be had: a numpy array, or what decodes them when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, part: slice, /) -> NDArray[np.uint8]:
        """The images start..stop; from several threads at once."""
        ...


class Decoded(NamedTuple):
    """A split as a benchmark reads it.

    Attributes:
        images: (N, C, H, W) uint8.
        labels: (N,) int64, 0..K-1; every class has at least one image.
        class_names: K names.
    """

    images: Pictures
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]


class Benchmark(Protocol):
    """A frozen dataclass whose fields are its config; one small file each.

    Attributes:
        name: as in the table of benchmarks.
        channels: of the images, 1 or 3.
        size: height and width in pixels of the images that `read` gives.
        mean, std: per channel, of the base images scaled to 0..1; a network gets (image / 255 - mean) / std.
        augmentation: what training does to the images.
    """

    name: ClassVar[str]
    channels: ClassVar[int]
    size: ClassVar[int]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]
    augmentation: ClassVar["Augmentation"]

    def source(self) -> str:
        """Identity of what the images are made from (16 hexadecimal digits), found without decoding an image.

        Equal identities give equal images; where the files lie does not enter.

        Raises:
            InputError: where files are missing; names the folder and says where the data come from.
        """
        ...

    def read(self, split: Split) -> Decoded:
        """Decode or draw all images of a split; the classes of the three splits are disjoint, but for validation
        classes of a benchmark with `validates_on_base = True`, of which base classes may be some.

        Raises:
            InputError: for files that are missing or are not what they should be.
        """
        ...
