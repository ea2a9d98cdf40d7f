"""Pictures of digits and things: those of scikit-learn, and USPS, MNIST and CIFAR in files that a user provides."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import Part, arrays_of, files_of, fingerprint_of, open_bytes
from clustering.datasets.paper_files import PaperFiles
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate
from clustering.foundation.streams import stream

IDX = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
PIXELS = 3072  # values of a picture of CIFAR: its red ones, then the green, then the blue
RECIPE = 1  # increase it when other points would be selected


@dataclass(frozen=True)
class Digits:
    """1,797 hand-written digits (test part of UCI's optical recognition set): points of 64 grey values in [0, 1], 10
    classes. Included in scikit-learn, so there is nothing to download."""

    name: ClassVar[str] = "digits"

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)

    def read(self) -> Dataset:
        from sklearn.datasets import load_digits

        digits = load_digits()
        names = tuple(str(name) for name in digits.target_names)
        return Dataset((digits.data / 16).astype(np.float32), digits.target.astype(np.int64), names, picture=(8, 8))


@dataclass(frozen=True)
class DigitsUneven(Digits):
    """Random digits of scikit-learn in their original order; digits 0 to 4 and digits 5 to 9 have different
    frequencies.

    Attributes:
        share: share of digits 0 to 4, divided equally among them; 0.5 gives equal sizes.
        points: total number of points; about 178 of each digit are available.
        seed: seed of the selection.
    """

    name = "digits_uneven"

    share: Annotated[float, Within(0.01, 0.99)] = 0.8
    points: Annotated[int, AtLeast(100)] = 900
    seed: Annotated[int, AtLeast(0)] = 0

    def read(self) -> Dataset:
        digits = super().read()
        assert digits.labels is not None  # digits always have labels
        rows = uneven_rows(digits.labels, self.points, self.share, seed=self.seed, name=self.name)
        return digits._replace(values=digits.values[rows], labels=digits.labels[rows])


def uneven_rows(labels: NDArray[np.int64], points: int, share: float, *, seed: int, name: str) -> NDArray[np.int64]:
    """Indices (m,), ascending, of random points of ten classes (N,), where m is about `points`.

    Classes 0 to 4 have equal parts of the given share of the points, and classes 5 to 9 equal parts of the rest.

    Raises:
        InputError: a class has too few points; `name` is the name of the requested data set.
    """
    rows = []
    for digit in range(10):
        count = round(points * (share if digit < 5 else 1 - share) / 5)
        available = np.flatnonzero(labels == digit)
        if count > len(available):
            raise InputError(
                f"dataset {name}: points={points} and share={share:g} need {count:,} of digit {digit}, but "
                f"there are {len(available):,}; set fewer points"
            )
        rows.append(stream(seed, name, digit).permutation(available)[:count])
    return np.sort(np.concatenate(rows))


@dataclass(frozen=True)
class USPS(PaperFiles):
    """9,298 hand-written digits of postal codes, 256 grey values in [0, 1] (Hull 1994), training images first.

    Attributes:
        root: folder with usps.npz, with zip.train and zip.test (compressed or not), or with LIBSVM's usps.bz2 and
            usps.t.bz2.
    """

    name = "usps"
    wanted = "usps.npz, or zip.train.gz and zip.test.gz, or usps.bz2 and usps.t.bz2 of LIBSVM"
    forms = (("usps.npz",), ("zip.train", "zip.test"), ("usps.bz2", "usps.t.bz2"), ("usps", "usps.t"))
    shape, classes, picture = (9298, 256), 10, (16, 16)

    def _rows(self, paths: Sequence[Path]) -> Part:
        """Values in [0, 1], from integers in [0, 2000], as is usual for USPS, or from floats in [-1, 1]."""
        values, classes = super()._rows(paths)
        if np.issubdtype(values.dtype, np.integer):
            values = values / 2000
        elif values.min(initial=0) < 0:
            values = (values + 1) / 2
        return values, classes.astype(np.int64)

    @staticmethod
    def _part(path: Path) -> Part:
        """Lines with a digit and 256 numbers; LIBSVM's have a digit plus one, and column:value pairs."""
        if path.name.startswith("usps"):
            from sklearn.datasets import load_svmlight_file

            with io.BytesIO(open_bytes(path)) as file:
                values, classes = load_svmlight_file(file, n_features=256)
            return values.toarray(), classes - 1
        table = np.loadtxt(open_bytes(path).decode().splitlines())
        return table[:, 1:], table[:, 0]


@dataclass(frozen=True)
class MNIST(PaperFiles):
    """70,000 hand-written digits of 784 grey values in [0, 1], 10 classes: training images first, then test (LeCun,
    Bottou, Bengio and Haffner 1998).

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
    """

    name = "mnist"
    wanted = (
        "mnist.npz (for example of Keras), or the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
        "t10k-..."
    )
    forms = (("mnist.npz",), IDX, tuple(name.replace("-idx", ".idx") for name in IDX))
    shape, classes, picture = (70_000, 784), 10, (28, 28)

    def source(self) -> str:
        whole = fingerprint_of("mnist", self.recipe, self._files())
        return whole if self.name == "mnist" else fingerprint(self.name, self.recipe, whole)

    def read(self) -> Dataset:
        values, labels, names = self._checked()
        rows = self._selected(labels)
        return Dataset(values[rows], labels[rows], names, picture=self.picture)

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64] | slice:
        """The rows to use, in their original order."""
        return slice(None)

    def _rows(self, paths: Sequence[Path]) -> Part:
        if len(paths) == 1:
            images, classes = super()._rows(paths)
        else:
            parts = [_idx(path) for path in paths]
            images = np.concatenate([part.reshape(len(part), -1) for part in parts[:2]])
            classes = np.concatenate(parts[2:])
        values = images.astype(np.float32)
        values /= 255 if images.max() > 1 else 1
        return values, classes.astype(np.int64)


@dataclass(frozen=True)
class MNISTSmall(MNIST):
    """Equally many random digits of each class of MNIST (Table 2.1 of the thesis, which does not say which ones).

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
        per_class: number of digits per class.
        seed: seed of the selection.
    """

    name = "mnist_small"

    per_class: Annotated[int, Within(1, 6000)] = 200
    seed: Annotated[int, AtLeast(0)] = 0

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
        drawn = [stream(self.seed, self.name, digit).permutation(rows) for digit, rows in enumerate(of_digit)]
        return np.sort(np.concatenate([rows[: self.per_class] for rows in drawn]))


@dataclass(frozen=True)
class MNISTUneven(MNIST):
    """Random digits of MNIST, with digits 0 to 4 and digits 5 to 9 at different frequencies.

    It tests methods that assume equal sizes, by the protocol of XSDC (Jones, Roulet and Harchaoui, Figure 10).

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
        share: share of digits 0 to 4, divided equally among them; 0.5 gives equal sizes.
        points: total number of points.
        seed: seed of the selection.
    """

    name = "mnist_uneven"

    share: Annotated[float, Within(0.01, 0.99)] = 0.8
    points: Annotated[int, AtLeast(500)] = 25_000
    seed: Annotated[int, AtLeast(0)] = 0

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return uneven_rows(labels, self.points, self.share, seed=self.seed, name=self.name)


def _idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes."""
    content = open_bytes(path)
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape)


@dataclass(frozen=True)
class CIFAR10(PaperFiles):
    """60,000 colour pictures of 10 classes, 32 x 32, values in [0, 1] (Krizhevsky 2009): 50,000 training pictures
    first, then 10,000 of the test.

    Attributes:
        root: folder with the binary version, data_batch_1.bin and so on; or with cifar10.npz, which has three arrays
            for each part: blob_test, the bytes of its JPEG files; offset_test, where each begins and the last ends; and
            label_test, their classes.
        part: all pictures, or those of one part.
    """

    name = "cifar10"
    folder: ClassVar[str] = "cifar-10-batches-bin"  # of the binary version, as its archive is unpacked
    parts: ClassVar = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
    label_bytes: ClassVar[int] = 1
    """Bytes before the pixels of a picture in these files; the first one is its class."""
    classes: ClassVar[tuple[str, ...]] = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    shape, picture, channels = (None, PIXELS), (32, 32), 3

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
        packed = paths[0].suffix == ".npz"
        parts = self._packed(paths[0]) if packed else [self._records(path) for path in paths]
        pictures, labels = zip(*parts, strict=True)
        return np.concatenate(pictures), np.concatenate(labels)

    def _records(self, path: Path) -> Part:
        """The pictures of a binary file: its labels, then its pixels, one picture after the other."""
        content, size = np.frombuffer(open_bytes(path), dtype=np.uint8), self.label_bytes + PIXELS
        if not len(content) or len(content) % size:
            raise ValueError(f"its {len(content):,} bytes are no pictures of {size:,} bytes")
        table = content.reshape(-1, size)
        return table[:, self.label_bytes :], table[:, 0].astype(np.int64)

    def _packed(self, path: Path) -> list[Part]:
        """The pictures of each part of a .npz file."""
        arrays, found = arrays_of(path), []
        for part in self._chosen():
            if f"blob_{part}" not in arrays:
                has = [one for one in ("train", "test") if f"blob_{one}" in arrays]
                remedy = f"set part={has[0]}" if has else "download it again"
                raise InputError(
                    f"dataset {self.name}: {path} has no pictures of the {part} part (blob_{part}); {remedy}"
                )
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


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """60,000 pictures of CIFAR-100 by its 20 superclasses, values in [0, 1], training pictures first.

    Attributes:
        root: folder with the binary version, train.bin and test.bin; or with cifar100.npz, as for `CIFAR10`.
        part: all pictures, or those of one part.
    """

    name, folder, label_bytes = "cifar100", "cifar-100-binary", 2
    parts: ClassVar = {"train": ("train.bin",), "test": ("test.bin",)}
    classes: ClassVar[tuple[str, ...]] = (
        *("aquatic mammals", "fish", "flowers", "food containers", "fruit and vegetables"),
        *("household electrical devices", "household furniture", "insects", "large carnivores"),
        *("large man-made outdoor things", "large natural outdoor scenes", "large omnivores and herbivores"),
        *("medium mammals", "non-insect invertebrates", "people", "reptiles", "small mammals", "trees"),
        *("vehicles 1", "vehicles 2"),
    )


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
