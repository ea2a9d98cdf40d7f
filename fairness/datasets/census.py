"""Census II (UCI, raw file of the US census 1990): people described by 25 columns, with sex as sensitive attribute."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.files import damaged, fingerprint_of, first_of, folder_of, missing
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fairness.datasets.dataset import FairDataset, Preprocess, of_size, preprocessed

RECIPE = 1  # increase it when the same file would give other points
WANTED = "USCensus1990raw.data.txt of UCI (tab-separated, 125 columns, no header line; not the discretised file)"
ROWS = 2_458_285
WIDTH = 125
SEX = 112
COLUMNS = {
    12: "AGE", 35: "ANCSTRY1", 36: "ANCSTRY2", 47: "AVAIL", 53: "CITIZEN", 54: "CLASS", 55: "DEPART", 58: "ENGLISH",
    60: "FERTIL", 63: "HOURS", 64: "IMMIGR", 65: "INCOME1", 73: "INDUSTRY", 80: "MEANS", 81: "MIGPUMA", 93: "PWGT1",
    94: "RACE", 95: "RAGECHLD", 96: "REARNING", 101: "RIDERS", 109: "SCHOOL", 116: "TRAVTIME", 118: "WEEK89",
    122: "YEARSCH", 124: "YRSSERV",
}  # fmt: skip
_AT_ONCE = 200_000  # rows read at a time


@dataclass(frozen=True)
class Census:
    """2,458,285 people, 1,191,601 of one sex (0) and 1,266,684 of the other (1); K is 20 in the thesis.

    Many of its "numeric attributes" are codes, and RACE and the sampling weight of the person are among them.

    Attributes:
        root: folder with USCensus1990raw.data.txt.
        preprocess: how the columns are scaled.
    """

    name: ClassVar[str] = "census"
    clusters: ClassVar[int] = 20

    root: str | None = None
    preprocess: Preprocess = "aaai"

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._file()])

    def read(self) -> FairDataset:
        import pandas as pd

        path = self._file()
        try:
            read = []
            with pd.read_csv(path, sep="\t", header=None, chunksize=_AT_ONCE, dtype=np.float32) as parts:
                for part in parts:
                    if part.shape[1] != WIDTH:
                        raise ValueError(f"{part.shape[1]} columns, not {WIDTH}")
                    read.append(part.to_numpy()[:, [*COLUMNS, SEX]])
        except UNREADABLE as error:
            raise damaged(self.name, path, error) from error
        values = np.concatenate(read)
        of_size(self.name, path, len(values), ROWS)
        groups = values[:, -1].astype(np.int64)
        if not set(np.unique(groups)) <= {0, 1}:
            raise InputError(f"dataset census: {path} has values other than 0 and 1 in column {SEX}; download it again")
        return FairDataset(preprocessed(values[:, :-1], self.preprocess), tuple(COLUMNS.values()), {"sex": groups})

    def _file(self) -> Path:
        folder = folder_of(self.name, self.root, WANTED)
        path = first_of(folder, "USCensus1990raw.data.txt", "USCensus1990raw.data", "USCensus1990.data.txt")
        if path is None:
            raise missing(self.name, folder, WANTED)
        return path
