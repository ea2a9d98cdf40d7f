"""MNIST: 70,000 hand-written digits, 28 x 28 grey (LeCun, Bottou, Bengio and Haffner 1998), whole and in part."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.datasets.digits import uneven_rows
from clustering.datasets.files import Part, fingerprint_of, open_bytes
from clustering.datasets.paper_files import RECIPE, PaperFiles
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream

IDX = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class MNIST(PaperFiles):
    """70,000 points of 784 grey values in [0, 1], 10 classes: training images first, then test.

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


class _Selected(MNIST):
    """Some of the digits, in their original order."""

    def source(self) -> str:
        return fingerprint(self.name, RECIPE, fingerprint_of("mnist", RECIPE, self._files()))

    def read(self) -> Dataset:
        values, labels, names = self._checked()
        rows = self._selected(labels)
        return Dataset(values[rows], labels[rows], names, picture=self.picture)

    def _selected(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        raise NotImplementedError


@dataclass(frozen=True)
class MNISTSmall(_Selected):
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
class MNISTUneven(_Selected):
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
