"""MNIST (code): digits as ten outputs of an auto-encoder (SpectralNet, Shaham et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
WHAT = "codes of the auto-encoder of variational deep embedding that SpectralNet uses"


@dataclass(frozen=True)
class MNISTCode:
    """70,000 points of 10 numbers, 10 classes. The trained auto-encoder is not included: you must provide the file.

    Attributes:
        root: folder with mnist_code.npz or mnist_code.mat, which contains x (N, 10) and y (N,).
    """

    name: ClassVar[str] = "mnist_code"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [stored_file(self.name, self.root, "mnist_code", WHAT)])

    def read(self) -> Dataset:
        path = stored_file(self.name, self.root, "mnist_code", WHAT)
        return stored_features(self.name, path, dimensions=10, classes=10)
