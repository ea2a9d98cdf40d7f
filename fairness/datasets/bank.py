"""Bank marketing (UCI, Moro et al. 2014): bank clients described by numeric columns, with marital status as sensitive
attribute."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clustering.datasets.files import damaged, fingerprint_of, first_of, folder_of, missing
from clustering.files.arrays import UNREADABLE
from clustering.foundation.parameters import validate
from fairness.datasets.dataset import FairDataset, Preprocess, of_size, preprocessed

RECIPE = 1  # increase it when the same file would give other points
WANTED = "bank-additional-full.csv of UCI's bank-additional.zip"
ROWS = 41_188
COLUMNS = ("age", "duration", "euribor3m", "nr.employed", "cons.price.idx", "campaign")


@dataclass(frozen=True)
class Bank:
    """The 41,108 clients with known marital status: 24,928 married, 11,568 single, 4,612 divorced.

    K is 30 in the thesis, and 10 in the public code from August 2020 on.

    Attributes:
        root: folder with bank-additional-full.csv.
        preprocess: how the six columns are scaled.
    """

    name: ClassVar[str] = "bank"

    root: str | None = None
    preprocess: Preprocess = "aaai"

    def __post_init__(self) -> None:
        validate(self)

    @property
    def clusters(self) -> int:
        return 30 if self.preprocess == "thesis" else 10

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._file()])

    def read(self) -> FairDataset:
        import pandas as pd

        path = self._file()
        try:
            table = pd.read_csv(path, sep=None, engine="python", compression="infer")
            rows, table = len(table), table[table["marital"] != "unknown"]
            values = table[list(COLUMNS)].to_numpy(dtype=np.float64)
        except UNREADABLE as error:
            raise damaged(self.name, path, error) from error
        of_size(self.name, path, rows, ROWS)
        groups = table["marital"].to_numpy(dtype=str)
        return FairDataset(preprocessed(values, self.preprocess), COLUMNS, {"marital": groups})

    def _file(self) -> Path:
        folder = folder_of(self.name, self.root, WANTED)
        path = first_of(folder, "bank-additional-full.csv", "bank-additional/bank-additional-full.csv")
        if path is None:
            raise missing(self.name, folder, WANTED)
        return path
