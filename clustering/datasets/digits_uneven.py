"""Digits of scikit-learn, with more of some than of others: what `mnist_uneven` is of MNIST, in seconds."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.digits import Digits
from clustering.datasets.uneven import uneven_rows
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate

RECIPE = 1  # raised whenever other points are given


@dataclass(frozen=True)
class DigitsUneven:
    """So many random digits of scikit-learn, in order: a share of them 0 to 4, as many of each, the rest 5 to 9.

    Attributes:
        share: of 0 to 4; 0.5 is even.
        points: how many in all; there are some 178 of each digit.
        seed: which ones.
    """

    name: ClassVar[str] = "digits_uneven"

    share: Annotated[float, Within(0.01, 0.99)] = 0.8
    points: Annotated[int, AtLeast(100)] = 900
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)

    def read(self) -> Dataset:
        whole = Digits().read()
        assert whole.labels is not None  # they come with scikit-learn
        taken = uneven_rows(whole.labels, self.points, self.share, seed=self.seed, name=self.name)
        return Dataset(whole.values[taken], whole.labels[taken], whole.class_names, picture=whole.picture)
