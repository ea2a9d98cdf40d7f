"""A table of one's own: rows to be clustered by their columns of numbers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import fingerprint_of
from clustering.errors import InputError
from clustering.parameters import validate
from clustering.row_files import RowFile

RECIPE = 1  # raised whenever the same file gives other points
LARGEST = 1e30  # of a value: float32 holds it


@dataclass(frozen=True, eq=False)
class Contents:
    """What is used of a table.

    Attributes:
        file: all of it.
        columns: D names.
        values: (N, D) in the columns' own units, finite.
        left_out: why, by the name of each column that is not used although none was asked for by name.
    """

    file: RowFile
    columns: tuple[str, ...]
    values: NDArray[np.float64]
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Rows of a CSV, Parquet or NumPy file, each column in its standard deviations, so that none counts for its unit.

    Attributes:
        path: the file. No part of a run's identity; what is in it is.
        columns: names of those to cluster by; empty: all that have numbers, less the label, those that are the same in
            every row, and those that count the rows.
        label: name of a column with known classes, which are only compared with what is found.
        scale: "standard": columns less their mean, over their standard deviation; None: as they are.
    """

    name: ClassVar[str] = "table"

    path: str | None = None
    columns: tuple[str, ...] = ()
    label: str | None = None
    scale: Literal["standard"] | None = "standard"

    def __post_init__(self) -> None:
        if isinstance(self.columns, (tuple, list)):  # a name such as 2024 comes as a number
            object.__setattr__(self, "columns", tuple(str(name) for name in self.columns))
        if self.label is not None:
            object.__setattr__(self, "label", str(self.label))
        validate(self)

    def source(self) -> str:
        path = self.file()
        if not path.is_file():
            raise InputError(f"dataset table: no file {path}; give path=FILE, a table")
        return fingerprint_of("table", RECIPE, [path])

    def read(self) -> Dataset:
        contents = self.contents()
        values = self.points(contents)
        labels, classes = (None, ()) if self.label is None else numbered(self._known(contents.file, self.label))
        return Dataset(values.astype(np.float32), labels, classes, contents.columns)

    def points(self, contents: Contents) -> NDArray[np.float64]:
        """(N, D) values of its contents, scaled."""
        values = contents.values
        return values if self.scale is None else (values - values.mean(axis=0)) / values.std(axis=0)

    def contents(self, without: Mapping[str, str] | None = None) -> Contents:
        """The table's rows in their own units.

        Args:
            without: columns that are not used unless they are asked for by name, and why.

        Raises:
            InputError: no such file or column, text, a value that is missing or infinite, a column that is the same in
                every row, where it was asked for; no column that is left.
        """
        file = RowFile.read(self.file())
        if len(file.rows) < 2:
            raise InputError(f"{file.path}: has one row, and clusters are made of several")
        if self.label is not None:
            file.column(self.label)
            if self.label in self.columns:
                raise InputError(f"{file.path}: {self.label!r} is the label, and cannot be clustered by; take it out")
        twice = next((name for name, count in Counter(self.columns).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"columns: {twice!r} is there twice")
        names, left_out = list(self.columns), {}
        if not self.columns:
            without = without or {}
            left_out = {name: why for name in file.names if (why := without.get(name) or self._why_not(file, name))}
            names = [name for name in file.names if name not in left_out and name != self.label]
        if not names:
            reasons = "; ".join(f"{name!r} ({why})" for name, why in left_out.items())
            raise InputError(f"{file.path}: has no column to cluster by: {reasons or 'there is the label alone'}")
        values = np.stack([file.numbers(name) for name in names], axis=1)
        self._check_values(file, names, values)
        return Contents(file, tuple(names), values, left_out)

    def file(self) -> Path:
        """Where it is.

        Raises:
            InputError: it was not said.
        """
        if not self.path:
            raise InputError("dataset table: no file given; add path=FILE, a table in CSV, Parquet or NumPy's .npz")
        return Path(self.path).expanduser()

    def _why_not(self, file: RowFile, name: str) -> str:
        """Why a column is not used unless it is asked for; empty where it is."""
        if name == self.label:
            return ""
        if not file.numeric(name):
            return "text, or no values"
        numbers = file.numbers(name)
        if len(numbers) > 1 and (numbers == numbers[0]).all():
            return "the same in every row"
        if len(numbers) > 2 and (np.diff(numbers) == 1).all():
            return "counts the rows"
        return ""

    def _check_values(self, file: RowFile, names: list[str], values: NDArray[np.float64]) -> None:
        wrong: NDArray[np.bool_] = np.logical_not(np.abs(values) < LARGEST)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            what = "no value" if np.isnan(values[row, column]) else f"the value {values[row, column]:g}"
            rows = int(wrong.any(axis=1).sum())
            more = f"; {rows:,} of {len(values):,} rows are like that" if rows > 1 else ""
            complete = [name for j, name in enumerate(names) if not wrong[:, j].any()]
            without = f", or leave the column out with columns={','.join(complete)}" if 0 < len(complete) <= 8 else ""
            raise InputError(
                f"{file.path}: column {names[column]!r} has {what} in row {row + 1}{more}. Mend it, or delete such "
                f"rows{without}"
            )
        same = (values == values[0]).all(axis=0)
        if same.any() and self.scale == "standard":
            name = names[int(same.argmax())]
            raise InputError(f"{file.path}: column {name!r} is the same in every row and tells nothing; leave it out")

    def _known(self, file: RowFile, label: str) -> NDArray[np.str_]:
        column = file.column(label)
        text = column.astype("str").str.strip().where(column.notna(), "")
        if (text == "").any():
            row = int((text == "").to_numpy().argmax())
            raise InputError(
                f"{file.path}: label {label!r} has no value in row {row + 1}; leave label out, or fill it in"
            )
        return np.asarray(text.tolist(), dtype=np.str_)
