"""CIFAR-10 and CIFAR-100: 60,000 colour pictures of things and animals, 32 x 32 (Krizhevsky 2009)."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import Arrays, Part, arrays_of, files_of, open_bytes
from clustering.datasets.paper_files import PaperFiles
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError

PIXELS = 3072  # values of a picture: its red ones, then the green, then the blue


@dataclass(frozen=True)
class _CIFAR(PaperFiles):
    """The files of either data set: those of the binary version, or NAME.npz."""

    folder: ClassVar[str]
    """Folder of the binary version, as its archive is unpacked."""
    parts: ClassVar[dict[str, tuple[str, ...]]]
    """Its files by part."""
    label_bytes: ClassVar[int]
    """Bytes before the pixels of a picture in these files; the first one is its class."""
    classes: ClassVar[tuple[str, ...]]
    shape = (None, PIXELS)

    part: Literal["all", "train", "test"] = "all"

    def read(self) -> Dataset:
        values, labels, names = self._checked()
        return Dataset(values.astype(np.float32) / np.float32(255), labels, names, picture=(32, 32), channels=3)

    def _chosen(self) -> tuple[str, ...]:
        return ("train", "test") if self.part == "all" else (self.part,)

    def _files(self) -> list[Path]:
        binary = [file for part in self._chosen() for file in self.parts[part]]
        wanted = f"{binary[0]} and the other files of the binary version, or {self.name}.npz"
        below = [f"{self.folder}/{file}" for file in binary]
        return files_of(self.name, self.root, wanted, (f"{self.name}.npz",), binary, below)

    def _rows(self, paths: Sequence[Path]) -> Part:
        if paths[0].suffix == ".npz":
            parts = _packed(self.name, paths[0], arrays_of(paths[0]), self._chosen())
        else:
            parts = [_records(path, self.label_bytes) for path in paths]
        pictures, labels = zip(*parts, strict=True)
        return np.concatenate(pictures), np.concatenate(labels)


@dataclass(frozen=True)
class CIFAR10(_CIFAR):
    """60,000 pictures of 10 classes, values in [0, 1]: 50,000 training pictures first, then 10,000 of the test.

    Attributes:
        root: folder with the binary version, data_batch_1.bin and so on; or with cifar10.npz, which has three arrays
            for each part: blob_test, the bytes of its JPEG files; offset_test, where each begins and the last ends; and
            label_test, their classes.
        part: all pictures, or those of one part.
    """

    name = "cifar10"
    folder = "cifar-10-batches-bin"
    parts: ClassVar = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
    label_bytes = 1
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class CIFAR100(_CIFAR):
    """60,000 pictures of CIFAR-100 by its 20 superclasses, values in [0, 1], training pictures first.

    Attributes:
        root: folder with the binary version, train.bin and test.bin; or with cifar100.npz, as for `CIFAR10`.
        part: all pictures, or those of one part.
    """

    name = "cifar100"
    folder = "cifar-100-binary"
    parts: ClassVar = {"train": ("train.bin",), "test": ("test.bin",)}
    label_bytes = 2
    classes = (
        *("aquatic mammals", "fish", "flowers", "food containers", "fruit and vegetables"),
        *("household electrical devices", "household furniture", "insects", "large carnivores"),
        *("large man-made outdoor things", "large natural outdoor scenes", "large omnivores and herbivores"),
        *("medium mammals", "non-insect invertebrates", "people", "reptiles", "small mammals", "trees"),
        *("vehicles 1", "vehicles 2"),
    )


def _records(path: Path, labels: int) -> Part:
    """The pictures of a binary file: its labels, then its pixels, one picture after the other."""
    content = np.frombuffer(open_bytes(path), dtype=np.uint8)
    if not len(content) or len(content) % (labels + PIXELS):
        raise ValueError(f"its {len(content):,} bytes are no pictures of {labels + PIXELS:,} bytes")
    table = content.reshape(-1, labels + PIXELS)
    return table[:, labels:], table[:, 0].astype(np.int64)


def _packed(name: str, path: Path, arrays: Arrays, parts: tuple[str, ...]) -> list[Part]:
    """The pictures of each part of a .npz file."""
    found = []
    for part in parts:
        if f"blob_{part}" not in arrays:
            has = [one for one in ("train", "test") if f"blob_{one}" in arrays]
            remedy = f"set part={has[0]}" if has else "download it again"
            raise InputError(f"dataset {name}: {path} has no pictures of the {part} part (blob_{part}); {remedy}")
        blob, begin = arrays[f"blob_{part}"], arrays[f"offset_{part}"].astype(np.int64)
        files = [blob[start:end].tobytes() for start, end in itertools.pairwise(begin)]
        pictures = np.empty((len(files), PIXELS), dtype=np.uint8)
        for row, (_, pixels) in enumerate(on_each_core(_decoded, files)):
            pictures[row] = pixels
        labels = arrays[f"label_{part}"].astype(np.int64).ravel()
        if len(labels) != len(files):
            raise ValueError(f"it has {len(files):,} pictures and {len(labels):,} classes of the {part} part")
        found.append((pictures, labels))
    return found


def _decoded(file: bytes) -> NDArray[np.uint8]:
    """(PIXELS,) of a picture in a file.

    Raises:
        ValueError: it is no picture of 32 x 32 pixels.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(file)) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except Exception as error:  # Pillow raises many types of errors for damaged images
        raise ValueError(f"a picture cannot be decoded: {error}") from error
    if pixels.shape != (32, 32, 3):
        raise ValueError(f"a picture has {pixels.shape[0]} x {pixels.shape[1]} pixels")
    return pixels.transpose(2, 0, 1).ravel()
