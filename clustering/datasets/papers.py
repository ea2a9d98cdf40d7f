"""Data sets of papers in files that a user provides: which files, what they contain, and how they are read."""

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.digits import uneven_rows
from clustering.datasets.files import ProvidedFiles
from clustering.files.arrays import UNREADABLE, read_arrays
from clustering.files.regular import fingerprint_of_files, read_bytes
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream

Part = tuple[NDArray[Any], NDArray[Any]]
"""Rows and their classes."""
IDX = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
AS = "as x (N, D), and y (N,)"
PIXELS = 3072  # values of a picture of CIFAR: its red ones, then the green, then the blue


@dataclass(frozen=True)
class PaperPoints(ProvidedFiles):
    """Points with classes. Each form is one .npz file, with both parts as x_train, y_train, x_test and y_test or all
    points as x and y, or one file a part, training part first. A class whose files are not lines of numbers and a class
    has its own `_part`, or `_rows`.

    Attributes:
        root: folder with the files.
    """

    shape: ClassVar[tuple[int | None, int]]
    """N, None if it is not known, and D."""
    classes: ClassVar[int | tuple[str, ...]]
    """Names of the classes in the order of their numbers in the files, or how many there are."""
    place: ClassVar[int] = -1
    """Place of the class in a line."""
    picture: ClassVar[tuple[int, int] | None] = None
    channels: ClassVar[int] = 1

    def read(self) -> Dataset:
        paths = self._files()
        try:
            values, classes = self._rows(paths)
        except UNREADABLE as error:
            raise self._damaged(paths[0], error) from error
        labels, names = numbered(classes)
        count = self.classes if isinstance(self.classes, int) else len(self.classes)
        points = len(values) if self.shape[0] is None else self.shape[0]
        if values.shape != (points, self.shape[1]) or classes.shape != (points,) or len(names) != count:
            expected = f"({self.shape[0] or 'N'}, {self.shape[1]}) and {'(N,)' if self.shape[0] is None else points}"
            raise self._error(
                f"{paths[0]} has rows {values.shape}, and {classes.shape} labels of {len(names)} classes, not "
                f"{expected} of {count} classes; download it again"
            )
        rows = self._selected(labels)
        return Dataset(
            self._scaled(values[rows]).astype(np.float32, copy=False),
            labels[rows],
            names if isinstance(self.classes, int) else self.classes,
            picture=self.picture,
            channels=self.channels,
        )

    def _rows(self, paths: Sequence[Path]) -> Part:
        """Rows and classes of all files."""
        if paths[0].suffix == ".npz":
            arrays = read_arrays(paths[0])
            parts = ("_train", "_test") if "x_train" in arrays else ("",)
            x, y = (np.concatenate([arrays[f"{name}{part}"] for part in parts]) for name in "xy")
            return x.reshape(len(x), -1), y.ravel()
        rows, classes = zip(*(self._part(path) for path in paths), strict=True)
        return np.concatenate(rows), np.concatenate(classes)

    def _part(self, path: Path) -> Part:
        """Rows and classes of one file."""
        table = np.loadtxt(path)
        return np.delete(table, self.place, axis=1), table[:, self.place].astype(np.int64)

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64] | slice:
        """The rows to use, in their original order."""
        return slice(None)

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        """The rows in the scale of the papers."""
        return values


@dataclass(frozen=True)
class Shuttle(PaperPoints):
    """58,000 sensor readings of the space shuttle (Statlog, UCI), 9 integers in 7 classes of very unequal size.

    There are 45,586 / 50 / 171 / 8,903 / 3,267 / 10 / 13 points in the classes, training rows first.

    Attributes:
        root: folder with shuttle.npz, or with UCI's shuttle.trn (unpacked) and shuttle.tst.
    """

    name = "shuttle"
    forms = (("shuttle.npz",), ("shuttle.trn", "shuttle.tst"))
    shape = (58_000, 9)
    classes = ("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open")


@dataclass(frozen=True)
class MAGIC(PaperPoints):
    """Particle showers in a Cherenkov telescope (UCI), 10 standardised measurements; 12,332 gammas and 6,688 hadrons.

    Attributes:
        root: folder with magic04.csv, or with UCI's magic04.data.
        balanced: whether to use as many gammas as hadrons, 13,376 points in total, as the authors of XSDC do, instead
            of all 19,020.
        seed: seed of the selection of gammas.
    """

    name = "magic"
    forms = (("magic04.csv",), ("magic04.data",))
    shape, classes = (19_020, 10), ("gamma", "hadron")

    balanced: bool = True
    seed: Annotated[int, AtLeast(0)] = 0

    def _part(self, path: Path) -> Part:
        import pandas as pd

        table = pd.read_csv(path, header=None, dtype=str)
        if not str(table.iloc[0, 0])[0].isdigit():  # UCI's file has no header line
            table = table.iloc[1:]
        return table.iloc[:, :-1].to_numpy(dtype=np.float64), table.iloc[:, -1].str.strip().to_numpy(dtype=str)

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64] | slice:
        if not self.balanced:
            return slice(None)
        gammas = stream(self.seed, self.name).permutation(np.flatnonzero(labels == 0))[: int(labels.sum())]
        return np.sort(np.concatenate([gammas, np.flatnonzero(labels == 1)]))

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        scaled: NDArray[Any] = (values - values.mean(axis=0)) / values.std(axis=0)
        return scaled


@dataclass(frozen=True)
class R8(PaperPoints):
    """7,674 news of Reuters-21578 in 8 topics of very unequal size, training part first.

    The weight of a word is 1 + log(count in the document), times its inverse document frequency over all documents.
    Rows of words are reduced to unit rows of latent components by a truncated singular value decomposition.

    Attributes:
        root: folder with r8-train.txt.gz and r8-test.txt.gz, compressed or not; a line is `topic<TAB>text`.
        min_documents: minimum number of documents that contain a word; rarer words are removed.
        stop_words: whether to remove frequent English words.
        components: number of latent components; fewer if there are fewer words.
    """

    name, recipe, content = "r8", 2, "lines of topic<TAB>text"
    forms = tuple((f"r8-train{kind}.txt", f"r8-test{kind}.txt") for kind in ("", "-all-terms", "-stemmed"))
    shape, classes = (None, 1), 8

    min_documents: Annotated[int, AtLeast(1)] = 3
    stop_words: bool = True
    components: Annotated[int, AtLeast(2)] = 200

    def _part(self, path: Path) -> Part:
        """Texts (n, 1) and topics."""
        lines = [line.partition("\t") for line in read_bytes(path).decode().splitlines()]
        if not lines or not all(tab for _, tab, _ in lines):
            raise ValueError(f"{path.name} does not consist of lines topic<TAB>text")
        return np.array([[text] for _, _, text in lines], dtype=object), np.array([topic for topic, _, _ in lines])

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Unit rows of latent components."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import normalize

        stop_words = "english" if self.stop_words else None
        words = TfidfVectorizer(min_df=self.min_documents, stop_words=stop_words, sublinear_tf=True, dtype=np.float32)
        try:
            counted = words.fit_transform(values[:, 0])
        except ValueError as error:
            raise InputError(f"dataset r8: no word is left ({error}); lower min_documents") from error
        reduces = self.components < min(counted.shape)
        svd = TruncatedSVD(self.components, algorithm="arpack", random_state=0)
        rows: NDArray[Any] = normalize(svd.fit_transform(counted) if reduces else counted.toarray())
        return rows


class MNISTCode(PaperPoints):
    """MNIST (code): 70,000 points of 10 outputs of an auto-encoder (SpectralNet, Shaham et al. 2018), 10 classes."""

    name, forms = "mnist_code", (("mnist_code.npz",),)
    shape, classes = (None, 10), 10
    content = f"codes of the auto-encoder of variational deep embedding that SpectralNet uses, {AS}"


class MNISTGAN(PaperPoints):
    """MNIST (GAN): 70,000 points of 256 features of a discriminator (Ziko, Granger and Ben Ayed 2018), 10 classes."""

    name, forms = "mnist_gan", (("mnist_gan.npz",),)
    shape, classes = (None, 256), 10
    content = f"features of the discriminator of a GAN trained on MNIST (the authors' repository SLK has them), {AS}"


class ReutersCode(PaperPoints):
    """Reuters (code): 685,071 news of RCV1 as 10 outputs of an auto-encoder (Shaham et al. 2018), 4 topics."""

    name, forms = "reuters_code", (("reuters_code.npz",),)
    shape, classes = (None, 10), 4
    content = f"codes of the 685,071 documents with a single root topic, by the auto-encoder of SpectralNet, {AS}"


class YTF(PaperPoints):
    """YouTube Faces (Wolf, Hassner and Maoz 2011; thesis, Table 2.1): 10,036 crops of 9,075 raw values, 40 people."""

    name, forms = "ytf", (("ytf.npz",),)
    shape, classes = (None, 9075), 40
    content = f"10,036 faces of 40 people, 55 x 55 x 3 values each, {AS}"


@dataclass(frozen=True)
class LabelMe(PaperPoints):
    """LabelMe: 2,688 outdoor scenes of 8 types (Oliva and Torralba 2001; thesis, Table 2.1).

    Attributes:
        root: folder with labelme_alexnet.npz or labelme_gist.npz, which contains x (N, D) and y (N,).
        features: alexnet: 4,096 outputs of a fully connected layer; gist: 44,604 values.
    """

    name, classes, content = "labelme", 8, f"features of 2,688 scenes of 8 kinds, {AS}"

    features: Literal["alexnet", "gist"] = "alexnet"

    @property
    def shape(self) -> tuple[None, int]:  # type: ignore[override]
        return None, {"alexnet": 4096, "gist": 44_604}[self.features]

    @property
    def forms(self) -> tuple[tuple[str], ...]:  # type: ignore[override]
        return ((f"labelme_{self.features}.npz",),)


@dataclass(frozen=True)
class USPS(PaperPoints):
    """9,298 hand-written digits of postal codes, 256 grey values in [0, 1] (Hull 1994), training images first.

    Attributes:
        root: folder with usps.npz, or with zip.train and zip.test (compressed or not).
    """

    name = "usps"
    forms = (("usps.npz",), ("zip.train", "zip.test"))
    shape, classes, picture, place = (9298, 256), 10, (16, 16), 0

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in [0, 1], from integers in [0, 2000], as is usual for USPS, or from floats in [-1, 1]."""
        if np.issubdtype(values.dtype, np.integer):
            return values / 2000
        return (values + 1) / 2 if values.min(initial=0) < 0 else values


@dataclass(frozen=True)
class MNIST(PaperPoints):
    """70,000 hand-written digits of 784 grey values in [0, 1], 10 classes: training images first, then test (LeCun,
    Bottou, Bengio and Haffner 1998).

    Attributes:
        root: folder with mnist.npz, for example of Keras, or with the four IDX files, plain or compressed (.gz).
    """

    name = "mnist"
    forms = (("mnist.npz",), IDX, tuple(name.replace("-idx", ".idx") for name in IDX))
    shape, classes, picture = (70_000, 784), 10, (28, 28)

    def source(self) -> str:
        whole = fingerprint_of_files(self._files(), "mnist", self.recipe)
        return whole if self.name == "mnist" else fingerprint(self.name, self.recipe, whole)

    def _rows(self, paths: Sequence[Path]) -> Part:
        if len(paths) == 1:
            return super()._rows(paths)
        *images, train, test = (_idx(path) for path in paths)
        return np.concatenate(images).reshape(-1, 784), np.concatenate([train, test])

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        scaled = values.astype(np.float32)
        scaled /= 255 if values.max() > 1 else 1
        return scaled


def _idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes."""
    content = read_bytes(path)
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape)


@dataclass(frozen=True)
class MNISTSmall(MNIST):
    """Equally many random digits of each class of MNIST (Table 2.1 of the thesis, which does not say which ones).

    Attributes:
        per_class: number of digits per class.
        seed: seed of the selection.
    """

    name = "mnist_small"

    per_class: Annotated[int, Within(1, 6000)] = 200
    seed: Annotated[int, AtLeast(0)] = 0

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return uneven_rows(labels, 10 * self.per_class, 0.5, seed=self.seed, name=self.name)


@dataclass(frozen=True)
class MNISTUneven(MNIST):
    """Random digits of MNIST, with digits 0 to 4 and digits 5 to 9 at different frequencies.

    It tests methods that assume equal sizes, by the protocol of XSDC (Jones, Roulet and Harchaoui, Figure 10).

    Attributes:
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


@dataclass(frozen=True)
class CIFAR10(PaperPoints):
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
        *("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    )
    shape, picture, channels = (None, PIXELS), (32, 32), 3

    part: Literal["all", "train", "test"] = "all"

    def _chosen(self) -> tuple[str, ...]:
        return ("train", "test") if self.part == "all" else (self.part,)

    @property
    def forms(self) -> tuple[list[str], ...]:  # type: ignore[override]
        binary = [file for part in self._chosen() for file in self.parts[part]]
        return [f"{self.name}.npz"], binary, [f"{self.folder}/{file}" for file in binary]

    def _scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.astype(np.float32) / np.float32(255)

    def _rows(self, paths: Sequence[Path]) -> Part:
        if paths[0].suffix != ".npz":
            return super()._rows(paths)
        pictures, labels = zip(*(self._packed(paths[0], part) for part in self._chosen()), strict=True)
        return np.concatenate(pictures), np.concatenate(labels)

    def _part(self, path: Path) -> Part:
        """The pictures of a binary file: its labels, then its pixels, one picture after the other."""
        content, size = np.frombuffer(read_bytes(path), dtype=np.uint8), self.label_bytes + PIXELS
        if not len(content) or len(content) % size:
            raise ValueError(f"its {len(content):,} bytes are no pictures of {size:,} bytes")
        table = content.reshape(-1, size)
        return table[:, self.label_bytes :], table[:, 0]

    def _packed(self, path: Path, part: str) -> Part:
        """The pictures of a part of a .npz file."""
        from PIL import Image

        arrays = read_arrays(path)
        if f"blob_{part}" not in arrays:
            raise self._error(
                f"{path} has no pictures of the {part} part (blob_{part}); choose a part that it has, part=train or "
                "part=test"
            )
        blob, offsets = arrays[f"blob_{part}"], arrays[f"offset_{part}"].astype(np.int64)
        pictures = np.empty((len(offsets) - 1, PIXELS), dtype=np.uint8)
        for row, (start, end) in enumerate(itertools.pairwise(offsets)):
            with Image.open(io.BytesIO(blob[start:end].tobytes())) as picture:
                pictures[row] = np.asarray(picture.convert("RGB")).transpose(2, 0, 1).ravel()
        return pictures, arrays[f"label_{part}"].ravel()


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """60,000 pictures of CIFAR-100 by its 20 superclasses, values in [0, 1], training pictures first.

    Attributes:
        root: folder with the binary version, train.bin and test.bin; or with cifar100.npz, as for `CIFAR10`.
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
