"""MAGIC (UCI): particle showers in a Cherenkov telescope, caused by gamma rays or hadrons."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset
from clustering.datasets.files import damaged, files_of, fingerprint_of, open_bytes
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream

RECIPE = 1  # increase it when the same files would give other points
WANTED = "magic04.csv, or UCI's magic04.data, plain or compressed (.gz)"
CLASSES = ("gamma", "hadron")


@dataclass(frozen=True)
class MAGIC:
    """10 standardised measurements of each shower; 12,332 gammas and 6,688 hadrons.

    Attributes:
        root: folder with magic04.csv, or with UCI's magic04.data.
        balanced: whether to use as many gammas as hadrons, 13,376 points in total, as the authors of XSDC do, instead
            of all 19,020.
        seed: seed of the selection of gammas.
    """

    name: ClassVar[str] = "magic"

    root: str | None = None
    balanced: bool = True
    seed: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._file()])

    def read(self) -> Dataset:
        path = self._file()
        try:
            lines = [line for line in open_bytes(path).decode().splitlines() if line.strip()]
            lines = lines[not lines[0][0].isdigit() :]  # UCI's file has no header line
            table = np.array([line.split(",") for line in lines])
            values, letters = table[:, :-1].astype(np.float64), np.char.strip(table[:, -1])
        except UNREADABLE as error:
            raise damaged(self.name, path, error) from error
        if values.shape != (19_020, 10) or set(letters) != {"g", "h"}:
            raise InputError(
                f"dataset magic: {path} has rows {values.shape}, but (19020, 10) with classes g and h are expected; "
                "download it again"
            )
        labels = (letters == "h").astype(np.int64)
        if self.balanced:
            few = int(labels.sum())
            kept = stream(self.seed, self.name).permutation(np.flatnonzero(labels == 0))[:few]
            rows = np.sort(np.concatenate([kept, np.flatnonzero(labels == 1)]))
            values, labels = values[rows], labels[rows]
        scaled = (values - values.mean(axis=0)) / values.std(axis=0)
        return Dataset(scaled.astype(np.float32), labels, CLASSES)

    def _file(self) -> Path:
        return files_of(self.name, self.root, WANTED, ("magic04.csv",), ("magic04.data",))[0]
