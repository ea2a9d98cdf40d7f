"""Data sets of papers: generated points, where an unfair method recovers the groups, and people in files that a user
provides, described by numeric columns, with a sensitive attribute.

The papers use K = 30 clusters for Adult and Bank in the thesis and 10 in the public code from August 2020 on, and 20
for the census.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.files import ProvidedFiles
from clustering.files.arrays import UNREADABLE
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.parameters import Validated
from fairness.datasets.dataset import FairDataset, Preprocess, preprocessed

RECIPE = 1  # increase it when other points would be generated


@dataclass(frozen=True)
class Synthetic(Validated):
    """400 points in four blobs of 100 with standard deviation 0.1; the groups of 200 are the lower and the upper blobs.

    Attributes:
        preprocess: how rows are scaled; division by their norm turns points into angles.
    """

    name: ClassVar[str] = "synthetic"
    clusters: ClassVar[int] = 2
    sizes: ClassVar[tuple[int, ...]] = (100, 100, 100, 100)
    upper: ClassVar[float] = 5.0
    deviation: ClassVar[float] = 0.1

    preprocess: Preprocess = "thesis"

    def source(self) -> str:
        return fingerprint(self.name, RECIPE)

    def read(self) -> FairDataset:
        from sklearn.datasets import make_blobs

        centres = [(1, 1), (2.1, 1), (1, self.upper), (2.1, self.upper)]
        values, blobs = make_blobs(
            list(self.sizes), centers=centres, cluster_std=self.deviation, random_state=1, shuffle=False
        )
        groups = np.where(blobs < 2, "lower", "upper")
        return FairDataset(preprocessed(values, self.preprocess), ("x", "y"), {"row": groups})


@dataclass(frozen=True)
class SyntheticUnequal(Synthetic):
    """400 points in blobs of 150, 150, 50 and 50 with standard deviation 0.13.

    The groups, of 300 and 100 points, are the lower and the upper blobs.

    Attributes:
        preprocess: how rows are scaled.
    """

    name: ClassVar[str] = "synthetic_unequal"
    sizes: ClassVar[tuple[int, ...]] = (150, 150, 50, 50)
    upper: ClassVar[float] = 3.5
    deviation: ClassVar[float] = 0.13


@dataclass(frozen=True)
class PaperTable(ProvidedFiles, ABC):
    """People in one file. The class attributes say which, and `_parsed` reads it.

    Attributes:
        root: folder with the file.
        preprocess: how the columns are scaled.
    """

    rows: ClassVar[int]
    """Number of rows of the file."""

    preprocess: Preprocess = "aaai"

    def read(self) -> FairDataset:
        (path,) = self._files()
        try:
            rows, values, columns, sensitive = self._parsed(path)
        except UNREADABLE as error:
            raise self._damaged(path, error) from error
        if rows != self.rows:
            raise self._error(f"{path} has {rows:,} rows, not {self.rows:,}; download it again")
        return FairDataset(preprocessed(values, self.preprocess), columns, sensitive)

    @abstractmethod
    def _parsed(self, path: Path) -> tuple[int, NDArray[Any], tuple[str, ...], dict[str, NDArray[Any]]]:
        """Number of rows of the file; (N, D) values; D names; and (N,) values by sensitive attribute."""


@dataclass(frozen=True)
class Adult(PaperTable):
    """Adult (UCI, census income 1994), training part: 10,771 women and 21,790 men. No row is dropped.

    Attributes:
        root: folder with adult.data, or the same file as .csv, with or without a header line.
        preprocess: how the columns are scaled.
        features: "thesis" uses age, fnlwgt, education-num and hours-per-week (K = 30 in the thesis); "aaai" adds
            capital-gain, as in the public code from August 2020 on (K = 10).
        sensitive: "sex" (2 groups) or "race" (5).
    """

    name = "adult"
    forms, rows = (("adult.data",), ("adult.data.csv",), ("adult.csv",)), 32_561
    width: ClassVar[int] = 15
    places: ClassVar = {
        "age": 0,
        "fnlwgt": 2,
        "education-num": 4,
        "capital-gain": 10,
        "hours-per-week": 12,
        "race": 8,
        "sex": 9,
    }

    features: Literal["thesis", "aaai"] = "aaai"
    sensitive: Literal["sex", "race"] = "sex"

    @property
    def clusters(self) -> int:
        return 30 if self.features == "thesis" else 10

    def _parsed(self, path: Path) -> tuple[int, NDArray[Any], tuple[str, ...], dict[str, NDArray[Any]]]:
        import pandas as pd

        table = pd.read_csv(path, header=None, skipinitialspace=True, dtype=str)
        if str(table.iloc[0, 0]).strip().lower() == "age":
            table = table.iloc[1:]
        if table.shape[1] != self.width:
            raise ValueError(f"{table.shape[1]} columns, not {self.width}")
        columns = tuple(list(self.places)[:5])
        if self.features == "thesis":
            columns = tuple(name for name in columns if name != "capital-gain")
        values = table.iloc[:, [self.places[name] for name in columns]].to_numpy(dtype=np.float64)
        groups = table.iloc[:, self.places[self.sensitive]].str.strip().to_numpy(dtype=str)
        if self.sensitive == "sex" and set(groups) != {"Female", "Male"}:
            raise ValueError(f"{sorted(set(groups))[:4]} for sex")
        return len(table), values, columns, {self.sensitive: groups}


@dataclass(frozen=True)
class Bank(PaperTable):
    """Bank marketing (UCI, Moro et al. 2014): the 41,108 clients with known marital status: 24,928 married, 11,568
    single, 4,612 divorced.

    Attributes:
        root: folder with bank-additional-full.csv of UCI's bank-additional.zip.
        preprocess: how the six columns are scaled.
    """

    name = "bank"
    forms, rows = (("bank-additional-full.csv",), ("bank-additional/bank-additional-full.csv",)), 41_188
    columns: ClassVar[tuple[str, ...]] = (
        *("age", "duration", "euribor3m", "nr.employed", "cons.price.idx", "campaign"),
    )

    @property
    def clusters(self) -> int:
        return 30 if self.preprocess == "thesis" else 10

    def _parsed(self, path: Path) -> tuple[int, NDArray[Any], tuple[str, ...], dict[str, NDArray[Any]]]:
        import pandas as pd

        table = pd.read_csv(path, sep=None, engine="python")
        known = table[table["marital"] != "unknown"]
        values = known[list(self.columns)].to_numpy(dtype=np.float64)
        return len(table), values, self.columns, {"marital": known["marital"].to_numpy(dtype=str)}


@dataclass(frozen=True)
class Census(PaperTable):
    """Census II (UCI, raw file of the US census 1990): 2,458,285 people, 1,191,601 of one sex (0) and 1,266,684 of the
    other (1).

    Many of its 25 "numeric attributes" are codes, and RACE and the sampling weight of the person are among them.

    Attributes:
        root: folder with USCensus1990raw.data.txt: tab-separated, 125 columns, no header line; not the discretised
            file.
        preprocess: how the columns are scaled.
    """

    name = "census"
    forms = (("USCensus1990raw.data.txt",), ("USCensus1990raw.data",), ("USCensus1990.data.txt",))
    rows = 2_458_285
    clusters: ClassVar[int] = 20
    width: ClassVar[int] = 125
    sex: ClassVar[int] = 112
    columns: ClassVar = {
        12: "AGE", 35: "ANCSTRY1", 36: "ANCSTRY2", 47: "AVAIL", 53: "CITIZEN", 54: "CLASS", 55: "DEPART", 58: "ENGLISH",
        60: "FERTIL", 63: "HOURS", 64: "IMMIGR", 65: "INCOME1", 73: "INDUSTRY", 80: "MEANS", 81: "MIGPUMA", 93: "PWGT1",
        94: "RACE", 95: "RAGECHLD", 96: "REARNING", 101: "RIDERS", 109: "SCHOOL", 116: "TRAVTIME", 118: "WEEK89",
        122: "YEARSCH", 124: "YRSSERV",
    }  # fmt: skip
    at_once: ClassVar[int] = 200_000
    """Number of rows read at a time."""

    def _parsed(self, path: Path) -> tuple[int, NDArray[Any], tuple[str, ...], dict[str, NDArray[Any]]]:
        import pandas as pd

        read = []
        with pd.read_csv(path, sep="\t", header=None, chunksize=self.at_once, dtype=np.float32) as parts:
            for part in parts:
                if part.shape[1] != self.width:
                    raise ValueError(f"{part.shape[1]} columns, not {self.width}")
                read.append(part.to_numpy()[:, [*self.columns, self.sex]])
        values = np.concatenate(read)
        groups = values[:, -1].astype(np.int64)
        if not set(np.unique(groups)) <= {0, 1}:
            raise ValueError(f"values other than 0 and 1 in column {self.sex}")
        return len(values), values[:, :-1], tuple(self.columns.values()), {"sex": groups}
