"""Adult (UCI, census income 1994): people described by numeric columns, with sex or race as sensitive attribute."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from clustering.datasets.files import damaged, fingerprint_of, first_of, folder_of, missing
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fairness.datasets.dataset import FairDataset, Preprocess, of_size, preprocessed

RECIPE = 1  # increase it when the same file would give other points
WANTED = "adult.data of UCI, or the same file as .csv, with or without a header line"
ROWS = 32_561
NAMES = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
FEATURES = {
    "thesis": ("age", "fnlwgt", "education-num", "hours-per-week"),
    "aaai": ("age", "fnlwgt", "education-num", "capital-gain", "hours-per-week"),
}


@dataclass(frozen=True)
class Adult:
    """The 32,561 people of the training part: 10,771 women and 21,790 men. No row is dropped.

    Attributes:
        root: folder with adult.data.
        features: "thesis" uses age, fnlwgt, education-num and hours-per-week (K = 30 in the thesis); "aaai" adds
            capital-gain, as in the public code from August 2020 on (K = 10).
        preprocess: how the columns are scaled.
        sensitive: "sex" (2 groups) or "race" (5).
    """

    name: ClassVar[str] = "adult"

    root: str | None = None
    features: Literal["thesis", "aaai"] = "aaai"
    preprocess: Preprocess = "aaai"
    sensitive: Literal["sex", "race"] = "sex"

    def __post_init__(self) -> None:
        validate(self)

    @property
    def clusters(self) -> int:
        return 30 if self.features == "thesis" else 10

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, [self._file()])

    def read(self) -> FairDataset:
        import pandas as pd

        path = self._file()
        try:
            table = pd.read_csv(path, header=None, skipinitialspace=True, dtype=str, compression="infer")
            if str(table.iloc[0, 0]).strip().lower() == "age":
                table = table.iloc[1:]
            if table.shape[1] != len(NAMES):
                raise ValueError(f"{table.shape[1]} columns, not {len(NAMES)}")
            table.columns = list(NAMES)
            columns = FEATURES[self.features]
            values = table[list(columns)].to_numpy(dtype=np.float64)
        except UNREADABLE as error:
            raise damaged(self.name, path, error) from error
        of_size(self.name, path, len(values), ROWS)
        groups = table[self.sensitive].str.strip().to_numpy(dtype=str)
        if self.sensitive == "sex" and set(groups) != {"Female", "Male"}:
            raise InputError(f"dataset adult: {path} has {sorted(set(groups))[:4]} for sex; download it again")
        return FairDataset(preprocessed(values, self.preprocess), columns, {self.sensitive: groups})

    def _file(self) -> Path:
        folder = folder_of(self.name, self.root, WANTED)
        path = first_of(folder, "adult.data", "adult.data.csv", "adult.csv")
        if path is None:
            raise missing(self.name, folder, WANTED)
        return path
