"""Plug-ins for the tests of clustering: points without classes, and methods in trouble."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from clustering.datasets.dataset import Dataset
from clustering.foundation.streams import stream


@dataclass(frozen=True)
class Unlabelled:
    """Two heaps of points, of which nobody knows the classes."""

    name: ClassVar[str] = "unlabelled"

    points: int = 40

    def source(self) -> str:
        return f"{self.points:016x}"

    def read(self) -> Dataset:
        values = stream(0, "unlabelled").normal(size=(self.points, 3))
        values[::2] += 10
        return Dataset(values.astype(np.float32))


class Halves(ClusterMixin, BaseEstimator):
    """Splits the points by a column; knows no seed and no objective."""

    def __init__(self, column: int = 0, trouble: str = "") -> None:
        self.column = column
        self.trouble = trouble

    def fit(self, X, y=None):
        marks = os.environ.get("TINY_MARKS")
        if marks:
            with (Path(marks) / "fits").open("a") as file:
                file.write("x")
        if self.trouble:
            raise ZeroDivisionError(self.trouble)
        column = np.asarray(X)[:, self.column]
        self.labels_ = (column > np.median(column)).astype(int)
        return self
