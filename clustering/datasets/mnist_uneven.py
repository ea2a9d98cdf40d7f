"""MNIST with more of some digits than of others: clusters of sizes that a method may not expect."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.mnist import mnist_source, pixels
from clustering.datasets.uneven import uneven_rows
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate

RECIPE = 1  # raised whenever the same files give other points


@dataclass(frozen=True)
class MNISTUneven:
    """So many random digits of MNIST, in its order: a share of them 0 to 4, as many of each, the rest 5 to 9 (XSDC,
    Jones, Roulet and Harchaoui, Figure 10).

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, packed (.gz) or not.
        share: of 0 to 4; 0.5 is even.
        points: how many in all.
        seed: which ones.
    """

    name: ClassVar[str] = "mnist_uneven"

    root: str | None = None
    share: Annotated[float, Within(0.01, 0.99)] = 0.8
    points: Annotated[int, AtLeast(500)] = 25_000
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint(self.name, RECIPE, mnist_source(self.name, self.root))

    def read(self) -> Dataset:
        values, labels = pixels(self.name, self.root)
        taken = uneven_rows(labels, self.points, self.share, seed=self.seed, name=self.name)
        return Dataset(values[taken], labels[taken], tuple(map(str, range(10))), picture=(28, 28))
