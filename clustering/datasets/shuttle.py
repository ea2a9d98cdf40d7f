"""Shuttle (Statlog, UCI): 58,000 sensor readings of the space shuttle, of seven very unequal classes."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import (
    UNREADABLE,
    arrays_of,
    damaged,
    fingerprint_of,
    first_of,
    folder_of,
    missing,
    open_bytes,
    train_and_test,
)
from clustering.errors import InputError
from clustering.parameters import validate

RECIPE = 1  # raised whenever the same files give other points
WANTED = "shuttle.npz, or UCI's shuttle.trn and shuttle.tst (unpack shuttle.trn.Z first)"
CLASSES = ("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open")


@dataclass(frozen=True)
class Shuttle:
    """58,000 points of 9 whole numbers, 7 classes of 45,586 / 50 / 171 / 8,903 / 3,267 / 10 / 13: training rows first.

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
        try:
            if len(paths) == 1:
                values, classes = train_and_test(arrays_of(paths[0]))
            else:
                tables = [np.loadtxt(open_bytes(path).decode().splitlines()) for path in paths]
                values, classes = (
                    np.concatenate([t[:, :-1] for t in tables]),
                    np.concatenate([t[:, -1] for t in tables]),
                )
        except UNREADABLE as error:
            raise damaged(self.name, paths[0], error) from error
        if values.shape != (58_000, 9) or set(np.unique(classes)) != set(range(1, 8)):
            raise InputError(f"dataset shuttle: {paths[0]} holds rows {values.shape}, not (58000, 9) of seven classes")
        return Dataset(values.astype(np.float32), numbered(classes.astype(np.int64))[0], CLASSES)

    def _files(self) -> list[Path]:
        folder = folder_of(self.name, self.root, WANTED)
        for names in (("shuttle.npz",), ("shuttle.trn", "shuttle.tst")):
            found = [path for path in (first_of(folder, name) for name in names) if path]
            if len(found) == len(names):
                return found
        raise missing(self.name, folder, WANTED)
