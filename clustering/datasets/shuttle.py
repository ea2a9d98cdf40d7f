"""Shuttle (Statlog, UCI): 58,000 sensor readings of the space shuttle in seven classes of very unequal size."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import Part, files_of, fingerprint_of, open_bytes, rows_and_classes
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 1  # increase it when the same files would give other points
WANTED = "shuttle.npz, or UCI's shuttle.trn and shuttle.tst (unpack shuttle.trn.Z first)"
CLASSES = ("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open")


@dataclass(frozen=True)
class Shuttle:
    """58,000 points of 9 integers, with 45,586 / 50 / 171 / 8,903 / 3,267 / 10 / 13 in the 7 classes, training rows
    first.

    Attributes:
        root: folder with shuttle.npz, or with UCI's shuttle.trn and shuttle.tst.
    """

    name: ClassVar[str] = "shuttle"

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, self._files())

    def read(self) -> Dataset:
        paths = self._files()
        values, classes = rows_and_classes(self.name, paths, _part)
        if values.shape != (58_000, 9) or set(np.unique(classes)) != set(range(1, 8)):
            raise InputError(
                f"dataset shuttle: {paths[0]} has rows {values.shape}, but (58000, 9) with seven classes are expected; "
                "download it again"
            )
        return Dataset(values.astype(np.float32), numbered(classes.astype(np.int64))[0], CLASSES)

    def _files(self) -> list[Path]:
        return files_of(self.name, self.root, WANTED, ("shuttle.npz",), ("shuttle.trn", "shuttle.tst"))


def _part(path: Path) -> Part:
    """Lines with nine numbers and a class."""
    table = np.loadtxt(open_bytes(path).decode().splitlines())
    return table[:, :-1], table[:, -1]
