"""MNIST (GAN): digits as features of a discriminator (Ziko, Granger and Ben Ayed, NeurIPS 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import fingerprint_of
from clustering.datasets.stored_features import stored_features, stored_file
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same file would give other points
WHAT = "features of the discriminator of a GAN trained on MNIST (data/mnist_gan.npz of the authors' repository SLK)"


@dataclass(frozen=True)
class MNISTGAN:
    """70,000 points of 256 numbers, 10 classes. The network is not published: you must provide the file.

    Attributes:
        root: folder with mnist_gan.npz or mnist_gan.mat, which contains x (N, 256) and y (N,).
    """

    name: ClassVar[str] = "mnist_gan"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [stored_file(self.name, self.root, "mnist_gan", WHAT)])

    def read(self) -> Dataset:
        path = stored_file(self.name, self.root, "mnist_gan", WHAT)
        return stored_features(self.name, path, dimensions=256, classes=10)
