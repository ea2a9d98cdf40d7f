"""A user's table: rows to cluster by columns of numbers, dates and categories."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.table_columns import NO_MEANT, Column, Kind, Unfit, read_column, spreads, useful
from clustering.datasets.table_remarks import remarks
from clustering.files.regular import fingerprint_of_files
from clustering.files.tables import TableFile, read_table, typed
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 4  # increase it when the same file would give other points
EXACT = 1 << 24  # float32 would lose digits of larger values, such as times in milliseconds
LARGEST = 1e30  # limit of absolute values, well within the range of float32
MAX_NUMBERS = 1 << 28  # limit of the encoded table with one column per category: 2 GiB
Missing = Literal["auto", "error", "drop", "mean", "median", "most_frequent"]
FILLED = 0.2  # largest share of gaps in a column that missing="auto" fills
ACTIONS = "missing=median (or mean, most_frequent), or remove such rows with missing=drop"


@dataclass(frozen=True)
class Feature:
    """One numeric input: a column of numbers or dates, or the indicator of one category of a column."""

    column: str
    kind: Kind
    category: str = ""

    @property
    def name(self) -> str:
        return f"{self.column} = {self.category}" if self.kind == "categories" else self.column


@dataclass(frozen=True, eq=False)
class Contents:
    """The part of a table that is used.

    Attributes:
        file: the whole table.
        columns: names of the columns to cluster by, as in the file.
        values: (n, D) finite values in original units (dates: days since 1970-01-01; categories: 0 or 1).
        features: the D features.
        rows: (n,) rows of the file that are clustered, counted from 0; the others lack a value.
        filled: number of filled gaps by column.
        filled_by: what the gaps are filled with: "mean", "median" or "most_frequent".
        remarks: what may be a mistake in the used columns, see `clustering.datasets.table_remarks`.
        left_out: reason by column, for columns that are not used although the user named no columns.
    """

    file: TableFile
    columns: tuple[str, ...]
    values: NDArray[np.float64]
    features: tuple[Feature, ...]
    rows: NDArray[np.intp]
    filled: dict[str, int] = field(default_factory=dict)
    filled_by: str = ""
    remarks: tuple[str, ...] = ()
    left_out: dict[str, Unfit] = field(default_factory=dict)

    @property
    def column_of(self) -> NDArray[np.intp]:
        """(D,) index in `columns` of the column of each feature."""
        place = {name: number for number, name in enumerate(self.columns)}
        return np.array([place[feature.column] for feature in self.features])

    @property
    def complete(self) -> str:
        """The used columns without gaps, as the value of `columns`; empty if there are none, or more than eight."""
        names = [typed(name) for name in self.columns if name not in self.filled]
        return ",".join(names) if len(names) <= 8 else ""

    @property
    def dropped(self) -> int:
        """Number of rows of the file that are not clustered."""
        return len(self.file.rows) - len(self.rows)


@dataclass(frozen=True)
class Table:
    """Rows of a CSV or Parquet file, with standardised columns, so that units do not matter.

    Attributes:
        path: the file. Its content is part of a run's identity, its location is not.
        columns: names of the columns to cluster by. Empty uses all columns with numbers, dates or at most 50
            categories, except the label, constant columns, and columns that number the rows.
        label: name of a column with known classes, which are used only for comparison with the result.
        scale: "standard" subtracts the mean of each column and divides by its standard deviation; for categories that
            is the square root of twice the summed variances of their indicator columns, see
            `clustering.datasets.table_columns.spreads`. None changes nothing.
        missing: how to treat rows without a value in a used column: "mean", "median" or "most_frequent" fill the gaps
            with this value of the column, "drop" removes the rows, and "error" rejects them. "auto" is "median" if at
            most a fifth of the column is missing, else "error". Gaps of categories are filled by the most frequent one.
    """

    name: ClassVar[str] = "table"

    path: str | None = None
    columns: tuple[str, ...] = ()
    label: str | None = None
    scale: Literal["standard"] | None = "standard"
    missing: Missing = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.columns, (tuple, list)):  # YAML reads a name such as 2024 as a number
            object.__setattr__(self, "columns", tuple(str(name) for name in self.columns))
        if self.label is not None:
            object.__setattr__(self, "label", str(self.label))
        validate(self)

    def source(self) -> str:
        path = self.file()
        if not path.is_file():
            raise InputError(f"dataset table: no file {path}; set path=FILE to a table")
        return fingerprint_of_files([path], "table", RECIPE)

    def read(self) -> Dataset:
        contents = self.contents()
        values = self.points(contents)
        labels, classes = (None, ()) if self.label is None else numbered(self._known(contents, self.label))
        names = tuple(feature.name for feature in contents.features)
        kept = None
        if contents.dropped:
            kept = np.zeros(len(contents.file.rows), dtype=bool)
            kept[contents.rows] = True
        if np.abs(values).max() <= EXACT:
            values = values.astype(np.float32)
        return Dataset(values, labels, classes, names, kept=kept)

    def points(self, contents: Contents) -> NDArray[np.float64]:
        """(n, D) scaled values of the contents."""
        values = contents.values
        return values if self.scale is None else (values - values.mean(axis=0)) / spreads(values, contents.column_of)

    def contents(self, without: Mapping[str, str] | None = None, leave: NDArray[np.bool_] | None = None) -> Contents:
        """The rows of the table in their original units.

        Args:
            without: reason by column, for columns that are used only if they are named in `columns`.
            leave: (N,) mask of rows to remove.

        Raises:
            InputError: the file or a named column does not exist; a named column cannot be clustered or is constant; a
                value is missing or infinite; no column or fewer than two rows remain; or the table is too large for
                memory.
        """
        file = read_table(self.file())
        if len(file.rows) < 2:
            raise InputError(f"{file.path}: has one row, but clustering needs at least two")
        used, left_out = self._columns(file, without or {})
        table = np.stack([column.values for column in used], axis=1)
        left = np.isnan(table).any(axis=1) & (self.missing == "drop")
        rows = np.flatnonzero(~(left if leave is None else left | leave))
        if len(rows) < 2:
            raise InputError(
                f"{file.path}: every row{' but one' * len(rows)} lacks a value; fill the gaps with "
                "missing=median, or select fewer columns with columns="
            )
        table = table[rows]
        self._check_values(file, used, table, rows)
        gaps = np.isnan(table).sum(axis=0)
        filled = {column.name: int(count) for column, count in zip(used, gaps, strict=True) if count}
        for j in np.flatnonzero(gaps):
            table[:, j] = self._filled(used[j], table[:, j])
        constant = (table == table[0]).all(axis=0)
        if self.columns and constant.any() and self.scale == "standard":
            name = used[int(constant.argmax())].name
            advice = f" that has a value{NO_MEANT}, or" if name in filled else "; it cannot separate clusters:"
            raise InputError(f"{file.path}: column {name!r} is the same in every row{advice} remove it from columns=")
        if constant.any() and not self.columns:  # in the remaining rows only
            left_out |= {used[j].name: Unfit("constant in the remaining rows") for j in np.flatnonzero(constant)}
            used = [column for column, out in zip(used, constant, strict=True) if not out]
            table = table[:, ~constant]
            _check_any(file, used, left_out)
        values, features = _encoded(file, used, table)
        names = tuple(column.name for column in used)
        told, filled_by = remarks(used), "median" if self.missing == "auto" else self.missing
        return Contents(file, names, values, features, rows, filled, filled_by, told, left_out)

    def file(self) -> Path:
        """Path of the file.

        Raises:
            InputError: no file was named.
        """
        if not self.path:
            raise InputError("dataset table: no file given; add path=FILE, a table in CSV or Parquet")
        return Path(os.path.expanduser(self.path))  # of Path, it fails for a file called ~a.csv

    def _columns(self, file: TableFile, without: Mapping[str, str]) -> tuple[list[Column], dict[str, Unfit]]:
        """Columns to cluster by, and the reasons why others are not used."""
        if self.label is not None:
            file.column(self.label)
            if self.label in self.columns:
                raise InputError(
                    f"{file.path}: {self.label!r} is the label and cannot be clustered by; remove it from columns="
                )
        check_distinct("columns", self.columns)
        used: list[Column] = []
        left_out: dict[str, Unfit] = {}
        for name in self.columns:
            column = read_column(file, name)
            if isinstance(column, Unfit):
                raise InputError(f"{file.path}: column {name!r} cannot be clustered by: {column.why}")
            used.append(column)
        for name in [] if self.columns else [name for name in file.names if name != self.label]:
            column = Unfit(without[name]) if name in without else useful(read_column(file, name))
            if isinstance(column, Unfit):
                left_out[name] = column
            else:
                used.append(column)
        _check_any(file, used, left_out)
        return used, left_out

    def _check_values(
        self, file: TableFile, used: Sequence[Column], table: NDArray[np.float64], rows: NDArray[np.intp]
    ) -> None:
        gaps, allowed = np.isnan(table), {"error": 0.0, "auto": FILLED}.get(self.missing, 1.0)
        wrong = (np.abs(table) >= LARGEST) | (gaps & (gaps.mean(axis=0) > allowed))
        if not wrong.any():
            return
        row, place = (int(i) for i in np.argwhere(wrong)[0])
        gap = bool(np.isnan(table[row, place]))
        problem = "no value" if gap else f"the value {table[row, place]:g}"
        count = int(wrong.any(axis=1).sum())
        more = f"; this affects {count:,} of {len(table):,} rows" if count > 1 else ""
        complete = [typed(column.name) for j, column in enumerate(used) if not wrong[:, j].any()]
        without = f", or remove the column with columns={','.join(complete)}" if 0 < len(complete) <= 8 else ""
        remedy = f"Fill it in, or add {ACTIONS}" if gap else "Correct it, or delete such rows"
        raise InputError(
            f"{file.path}: column {used[place].name!r} has {problem} in row {rows[row] + 1}{more}. {remedy}{without}"
        )

    def _filled(self, column: Column, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) values with their gaps filled; 0 if there are no values."""
        gaps = np.isnan(values)
        present = np.zeros(1) if gaps.all() else values[~gaps]
        if column.kind == "categories" or self.missing == "most_frequent":
            distinct, counts = np.unique(present, return_counts=True)
            return np.where(gaps, distinct[counts.argmax()], values)
        return np.where(gaps, np.mean(present) if self.missing == "mean" else np.median(present), values)

    def _known(self, contents: Contents, label: str) -> NDArray[np.str_]:
        file, cells = contents.file, contents.file.cells(label)
        texts, gaps = cells.texts[contents.rows], cells.missing[contents.rows]
        if gaps.any():
            row = int(contents.rows[int(gaps.argmax())])
            raise InputError(
                f"{file.path}: label {label!r} has no value in row {row + 1}; remove label=, or fill in the value"
            )
        return np.asarray(texts.tolist(), dtype=np.str_)


def check_distinct(key: str, names: Sequence[str]) -> None:
    """Check that no column is named twice in a setting.

    Raises:
        InputError: one is.
    """
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"{key}: {duplicate!r} is named twice")


def _check_any(file: TableFile, used: Sequence[Column], left_out: Mapping[str, Unfit]) -> None:
    if not used:
        reasons = "; ".join(f"{name!r} ({reason.why})" for name, reason in list(left_out.items())[:8])
        more = f"; and {len(left_out) - 8:,} more" if len(left_out) > 8 else ""
        raise InputError(f"{file.path}: has no column to cluster by: {reasons or 'it has only the label'}{more}")


def _encoded(
    file: TableFile, used: Sequence[Column], table: NDArray[np.float64]
) -> tuple[NDArray[np.float64], tuple[Feature, ...]]:
    """Values with one indicator column per category; other columns are unchanged."""
    width = sum(len(column.categories) or 1 for column in used)
    if width > len(used) and width * len(table) > MAX_NUMBERS:
        raise InputError(
            f"{file.path}: the categories expand {len(table):,} rows to {width:,} numbers each, which exceeds the "
            "memory limit; select fewer columns with columns="
        )
    blocks: list[NDArray[np.float64]] = []
    features: list[Feature] = []
    for column, values in zip(used, table.T, strict=True):
        if column.kind == "categories":
            present = np.unique(values)
            blocks.append((values[:, None] == present).astype(np.float64))
            features += [Feature(column.name, column.kind, column.categories[int(code)]) for code in present]
        else:
            blocks.append(values[:, None])
            features.append(Feature(column.name, column.kind))
    return np.concatenate(blocks, axis=1), tuple(features)
