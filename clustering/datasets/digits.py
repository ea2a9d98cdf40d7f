"""The digits of scikit-learn: 1,797 hand-written digits, 8 x 8 grey (test part of UCI's optical recognition set)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Digits:
    """1,797 points of 64 grey values in [0, 1], 10 classes. Included in scikit-learn, so there is nothing to
    download."""

    name: ClassVar[str] = "digits"

    def source(self) -> str:
        return fingerprint("digits", RECIPE)

    def read(self) -> Dataset:
        from sklearn.datasets import load_digits

        digits = load_digits()
        names = tuple(str(name) for name in digits.target_names)
        return Dataset((digits.data / 16).astype(np.float32), digits.target.astype(np.int64), names, picture=(8, 8))
