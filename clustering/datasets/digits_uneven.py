"""The digits of scikit-learn with unequal class sizes, a small counterpart of `mnist_uneven`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from clustering.datasets.dataset import Dataset
from clustering.datasets.digits import Digits
from clustering.datasets.uneven import uneven_rows
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import AtLeast, Within, validate

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class DigitsUneven:
    """Random digits of scikit-learn in their original order; digits 0 to 4 and digits 5 to 9 have different
    frequencies.

    Attributes:
        share: share of digits 0 to 4, divided equally among them; 0.5 gives equal sizes.
        points: total number of points; about 178 of each digit are available.
        seed: seed of the selection.
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
        digits = Digits().read()
        assert digits.labels is not None  # digits always have labels
        rows = uneven_rows(digits.labels, self.points, self.share, seed=self.seed, name=self.name)
        return Dataset(digits.values[rows], digits.labels[rows], digits.class_names, picture=digits.picture)
