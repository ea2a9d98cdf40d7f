"""Hand-written digits of scikit-learn, and the selection of digits at unequal frequencies."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.datasets.generated import Included
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, Within
from clustering.foundation.streams import stream


@dataclass(frozen=True)
class Digits(Included):
    """1,797 hand-written digits (test part of UCI's optical recognition set): points of 64 grey values in [0, 1], 10
    classes. Included in scikit-learn, so there is nothing to download."""

    name = "digits"

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
