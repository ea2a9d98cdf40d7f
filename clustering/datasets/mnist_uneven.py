"""MNIST with unequal class sizes, to test methods that assume equal ones."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.mnist import mnist_source, pixels
from clustering.datasets.uneven import uneven_rows
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate

RECIPE = 1  # increase it when the same files would give other points


@dataclass(frozen=True)
class MNISTUneven:
    """Random digits of MNIST in their original order, with digits 0 to 4 and digits 5 to 9 at different frequencies.

    The protocol is that of XSDC (Jones, Roulet and Harchaoui, Figure 10).

    Attributes:
        root: folder with mnist.npz, or with the four IDX files, plain or compressed (.gz).
        share: share of digits 0 to 4, divided equally among them; 0.5 gives equal sizes.
        points: total number of points.
        seed: seed of the selection.
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
        rows = uneven_rows(labels, self.points, self.share, seed=self.seed, name=self.name)
        return Dataset(values[rows], labels[rows], tuple(map(str, range(10))), picture=(28, 28))
