"""MNIST (small): 200 digits of each class (Table 2.1 of the thesis, which does not say which ones)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.datasets.mnist import mnist_source, pixels
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when the same files would give other points


@dataclass(frozen=True)
class MNISTSmall:
    """Equally many random digits of each class of MNIST, in their original order.

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
        per_class: number of digits per class.
        seed: seed of the selection.
    """

    name: ClassVar[str] = "mnist_small"

    root: str | None = None
    per_class: Annotated[int, Within(1, 6000)] = 200
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint(self.name, RECIPE, mnist_source(self.name, self.root))

    def read(self) -> Dataset:
        values, labels = pixels(self.name, self.root)
        drawn = [
            stream(self.seed, self.name, digit).permutation(np.flatnonzero(labels == digit))[: self.per_class]
            for digit in range(10)
        ]
        rows = np.sort(np.concatenate(drawn))
        return Dataset(values[rows], labels[rows], tuple(map(str, range(10))), picture=(28, 28))
