"""MNIST: 70,000 hand-written digits, 28 x 28 grey (LeCun, Bottou, Bengio and Haffner 1998)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import (
    arrays_of,
    damaged,
    fingerprint_of,
    first_of,
    folder_of,
    missing,
    open_bytes,
    train_and_test,
)
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same files would give other points
IDX = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
WANTED = (
    "mnist.npz (for example of Keras), or the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
    "t10k-..."
)


@dataclass(frozen=True)
class MNIST:
    """70,000 points of 784 grey values in [0, 1], 10 classes: training images first, then test.

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
    """

    name: ClassVar[str] = "mnist"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return mnist_source(self.name, self.root)

    def read(self) -> Dataset:
        values, labels = pixels(self.name, self.root)
        return Dataset(values, labels, tuple(map(str, range(10))), picture=(28, 28))


def mnist_source(name: str, root: str | None) -> str:
    """Fingerprint of the files; `name` is the name of the requested data set."""
    return fingerprint_of("mnist", RECIPE, _files(name, root))


def pixels(name: str, root: str | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(70000, 784) grey values in [0, 1] and (70000,) digits.

    Raises:
        InputError: files are missing or are not MNIST; `name` is the name of the requested data set.
    """
    paths = _files(name, root)
    try:
        if len(paths) == 1:
            images, classes = train_and_test(arrays_of(paths[0]))
        else:
            parts = [_idx(path) for path in paths]
            images = np.concatenate([part.reshape(len(part), -1) for part in parts[:2]])
            classes = np.concatenate(parts[2:])
    except UNREADABLE as error:
        raise damaged(name, paths[0], error) from error
    if images.shape != (70_000, 784) or classes.shape != (70_000,):
        raise InputError(
            f"dataset {name}: {paths[0]} has images {images.shape}, but MNIST has (70000, 784); download it again"
        )
    values = images.astype(np.float32)
    values /= 255 if images.max() > 1 else 1
    return values, numbered(classes.astype(np.int64))[0]


def _files(name: str, root: str | None) -> list[Path]:
    """mnist.npz, or the images and labels of both parts."""
    folder = folder_of(name, root, WANTED)
    packed = first_of(folder, "mnist.npz")
    if packed:
        return [packed]
    paths = [first_of(folder, name, name.replace("-idx", ".idx")) for name in IDX]
    present = [path for path in paths if path]
    if len(present) < len(IDX):
        raise missing(name, folder, WANTED)
    return present


def _idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes."""
    content = open_bytes(path)
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape)
