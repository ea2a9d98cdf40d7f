"""Digits of scikit-learn: 1,797 hand-written digits, 8 x 8 grey (the test part of UCI's optical recognition set)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.foundation.fingerprint import fingerprint

RECIPE = 1  # raised whenever other points are given


@dataclass(frozen=True)
class Digits:
    """1,797 points of 64 grey values in [0, 1], 10 classes. Comes with scikit-learn: nothing to fetch."""

    name: ClassVar[str] = "digits"

    def source(self) -> str:
        return fingerprint("digits", RECIPE)

    def read(self) -> Dataset:
        from sklearn.datasets import load_digits

        found = load_digits()
        names = tuple(str(name) for name in found.target_names)
        return Dataset((found.data / 16).astype(np.float32), found.target.astype(np.int64), names, picture=(8, 8))
