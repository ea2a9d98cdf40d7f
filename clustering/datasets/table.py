"""A table of one's own: rows to be clustered by their columns of numbers, dates and categories."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import fingerprint_of
from clustering.datasets.table_columns import NO_MEANT, Column, Kind, Unfit, read_column, why_needless
from clustering.evaluation.profiles import spreads
from clustering.files.tables import RowFile
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate

RECIPE = 2  # raised whenever the same file gives other points
LARGEST = 1e30  # of a value: float32 holds it
MOST_NUMBERS = 1 << 28  # of all rows, where categories are numbers of their own: 2 GiB
Missing = Literal["error", "drop", "mean", "median", "most_frequent"]
ACTIONS = "missing=median (or mean, most_frequent), or leave such rows out with missing=drop"


@dataclass(frozen=True)
class Feature:
    """One number of each row: a column of numbers or dates, or whether it has one category of a column."""

    column: str
    kind: Kind
    category: str = ""

    @property
    def name(self) -> str:
        return f"{self.column} = {self.category}" if self.kind == "categories" else self.column


@dataclass(frozen=True, eq=False)
class Contents:
    """What is used of a table.

    Attributes:
        file: all of it.
        columns: names of those that are clustered by, in the file.
        values: (n, D) in the columns' own units (dates: days since 1970-01-01; categories: 1 where it is, else 0),
            finite.
        features: D of them.
        rows: (n,) rows of the file that are clustered, counted from 0; the others lack a value.
        filled: how many gaps were filled, by the name of the column.
        left_out: why, by the name of each column that is not used although none was asked for by name.
        mistakes: those of `left_out` that a few cells keep from use.
    """

    file: RowFile
    columns: tuple[str, ...]
    values: NDArray[np.float64]
    features: tuple[Feature, ...]
    rows: NDArray[np.intp]
    filled: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    mistakes: tuple[str, ...] = ()

    @property
    def column_of(self) -> NDArray[np.intp]:
        """(D,) the place of each feature's column in `columns`."""
        place = {name: number for number, name in enumerate(self.columns)}
        return np.array([place[feature.column] for feature in self.features])

    @property
    def dropped(self) -> int:
        """Rows of the file that are not clustered."""
        return len(self.file.rows) - len(self.rows)


@dataclass(frozen=True)
class Table:
    """Rows of a CSV, Parquet or NumPy file, each column in its standard deviations, so that none counts for its unit.

    Attributes:
        path: the file. No part of a run's identity; what is in it is.
        columns: names of those to cluster by; empty: all with numbers, dates or at most 50 categories, less the label,
            those that are the same in every row, and those that count the rows.
        label: name of a column with known classes, which are only compared with what is found.
        scale: "standard": columns less their mean, over their standard deviation, which for categories is the root of
            the variances of their numbers, summed; None: as they are.
        missing: rows without a value in a column that is clustered by are an "error"; are left out ("drop"); or get
            the "mean", the "median" or the "most_frequent" value of the column. Of categories the mean and the median
            are the most frequent one.
    """

    name: ClassVar[str] = "table"

    path: str | None = None
    columns: tuple[str, ...] = ()
    label: str | None = None
    scale: Literal["standard"] | None = "standard"
    missing: Missing = "error"

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
        labels, classes = (None, ()) if self.label is None else numbered(self._known(contents, self.label))
        names = tuple(feature.name for feature in contents.features)
        kept = None
        if contents.dropped:
            kept = np.zeros(len(contents.file.rows), dtype=bool)
            kept[contents.rows] = True
        return Dataset(values.astype(np.float32), labels, classes, names, kept=kept)

    def points(self, contents: Contents) -> NDArray[np.float64]:
        """(n, D) values of its contents, scaled."""
        values = contents.values
        return values if self.scale is None else (values - values.mean(axis=0)) / spreads(values, contents.column_of)

    def contents(self, without: Mapping[str, str] | None = None, leave: NDArray[np.bool_] | None = None) -> Contents:
        """The table's rows in their own units.

        Args:
            without: columns that are not used unless they are asked for by name, and why.
            leave: (N,) rows that are left out in any case.

        Raises:
            InputError: no such file or column, a column by name that cannot be clustered by, a value that is missing or
                infinite, a column that is the same in every row, where it was asked for; no column or no two rows that
                are left; more numbers than memory is to hold.
        """
        file = RowFile.read(self.file())
        if len(file.rows) < 2:
            raise InputError(f"{file.path}: has one row, and clusters are made of several")
        used, left_out, mistakes = self._columns(file, without or {})
        table = np.stack([column.values for column in used], axis=1)
        left = np.isnan(table).any(axis=1) if self.missing == "drop" else np.zeros(len(table), dtype=bool)
        if leave is not None:
            left |= leave
        rows = np.flatnonzero(~left)
        if len(rows) < 2:
            raise InputError(
                f"{file.path}: every row{' but one' * len(rows)} lacks a value; fill the gaps with missing=median, or "
                "use fewer columns with columns="
            )
        self._check_values(file, used, table, rows)
        if len(rows) < len(table):
            table = table[rows]
            if not self.columns:  # what was told of all rows may not be of those that are left
                same = (table == table[0]).all(axis=0)
                left_out |= {used[j].name: "the same in every row that is left" for j in np.flatnonzero(same)}
                used, table = [column for column, out in zip(used, same, strict=True) if not out], table[:, ~same]
                self._check_any(file, used, left_out)
        filled = {
            column.name: int(gaps) for column, gaps in zip(used, np.isnan(table).sum(axis=0), strict=True) if gaps
        }
        if filled:
            table = self._filled(used, table)
        self._check_same(file, used, table, filled)
        values, features = _encoded(file, used, table)
        names = tuple(column.name for column in used)
        return Contents(file, names, values, features, rows, filled, left_out, mistakes)

    def file(self) -> Path:
        """Where it is.

        Raises:
            InputError: it was not said.
        """
        if not self.path:
            raise InputError("dataset table: no file given; add path=FILE, a table in CSV, Parquet or NumPy's .npz")
        return Path(self.path).expanduser()

    def _columns(
        self, file: RowFile, without: Mapping[str, str]
    ) -> tuple[list[Column], dict[str, str], tuple[str, ...]]:
        """Those to cluster by; why others are not used; and those of them with mistakes."""
        if self.label is not None:
            file.column(self.label)
            if self.label in self.columns:
                raise InputError(f"{file.path}: {self.label!r} is the label, and cannot be clustered by; take it out")
        twice = next((name for name, count in Counter(self.columns).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"columns: {twice!r} is there twice")
        used: list[Column] = []
        left_out: dict[str, str] = {}
        mistakes: list[str] = []
        for name in self.columns or file.names:
            if not self.columns and (name in without or name == self.label):
                left_out |= {name: without[name]} if name in without else {}
                continue
            column = read_column(file, name)
            if isinstance(column, Unfit):
                if self.columns:
                    raise InputError(f"{file.path}: column {name!r} cannot be clustered by: {column.why}")
                left_out[name] = column.why
                mistakes += [name] * column.mistakes
            elif not self.columns and (why := why_needless(column)):
                left_out[name] = why
            else:
                used.append(column)
        self._check_any(file, used, left_out)
        return used, left_out, tuple(mistakes)

    def _check_any(self, file: RowFile, used: Sequence[Column], left_out: Mapping[str, str]) -> None:
        if not used:
            reasons = "; ".join(f"{name!r} ({why})" for name, why in list(left_out.items())[:8])
            more = f"; and {len(left_out) - 8:,} more" if len(left_out) > 8 else ""
            raise InputError(f"{file.path}: has no column to cluster by: {reasons or 'there is the label alone'}{more}")

    def _check_values(
        self, file: RowFile, used: Sequence[Column], table: NDArray[np.float64], kept: NDArray[np.intp]
    ) -> None:
        """Of the rows that are clustered; what the others have does not matter."""
        wrong: NDArray[np.bool_] = np.abs(table) >= LARGEST
        if self.missing == "error":
            wrong |= np.isnan(table)
        wrong[np.setdiff1d(np.arange(len(table)), kept)] = False
        if wrong.any():
            row, place = (int(i) for i in np.argwhere(wrong)[0])
            gap = bool(np.isnan(table[row, place]))
            what = "no value" if gap else f"the value {table[row, place]:g}"
            rows = int(wrong.any(axis=1).sum())
            more = f"; {rows:,} of {len(table):,} rows are like that" if rows > 1 else ""
            complete = [column.name for j, column in enumerate(used) if not wrong[:, j].any()]
            without = f", or leave the column out with columns={','.join(complete)}" if 0 < len(complete) <= 8 else ""
            remedy = f"Fill it in, or add {ACTIONS}" if gap else "Mend it, or delete such rows"
            raise InputError(
                f"{file.path}: column {used[place].name!r} has {what} in row {row + 1}{more}. {remedy}{without}"
            )

    def _check_same(
        self, file: RowFile, used: Sequence[Column], table: NDArray[np.float64], filled: Mapping[str, int]
    ) -> None:
        same = (table == table[0]).all(axis=0)
        if same.any() and self.scale == "standard":
            name = used[int(same.argmax())].name
            where = f" that has a value{NO_MEANT}, or" if name in filled else ", so no clusters differ in it;"
            raise InputError(f"{file.path}: column {name!r} is the same in every row{where} leave it out")

    def _filled(self, used: Sequence[Column], table: NDArray[np.float64]) -> NDArray[np.float64]:
        from sklearn.impute import SimpleImputer

        filled = table.copy()
        words = np.array([column.kind == "categories" for column in used])
        for which, strategy in ((~words, self.missing), (words, "most_frequent")):
            gaps = which & np.isnan(table).any(axis=0)
            if gaps.any():
                imputer = SimpleImputer(strategy=strategy, keep_empty_features=True)
                filled[:, gaps] = imputer.fit_transform(table[:, gaps])
        return filled

    def _known(self, contents: Contents, label: str) -> NDArray[np.str_]:
        file = contents.file
        column = file.column(label)
        text = column.astype("str").str.strip().where(column.notna(), "").iloc[contents.rows]
        if (text == "").any():
            row = int(contents.rows[int((text == "").to_numpy().argmax())])
            raise InputError(
                f"{file.path}: label {label!r} has no value in row {row + 1}; leave label out, or fill it in"
            )
        return np.asarray(text.tolist(), dtype=np.str_)


def _encoded(
    file: RowFile, used: Sequence[Column], table: NDArray[np.float64]
) -> tuple[NDArray[np.float64], tuple[Feature, ...]]:
    """Columns as they are, but for categories, each of which is a column of 0 and 1."""
    from sklearn.preprocessing import OneHotEncoder

    words = [j for j, column in enumerate(used) if column.kind == "categories"]
    if not words:
        return table, tuple(Feature(column.name, column.kind) for column in used)
    width = len(used) - len(words) + sum(len(used[j].categories) for j in words)
    if width * len(table) > MOST_NUMBERS:
        raise InputError(
            f"{file.path}: {len(words):,} columns of categories make {width:,} numbers of each of {len(table):,} rows, "
            "which are too many for memory; name fewer columns with columns="
        )
    encoder = OneHotEncoder(sparse_output=False, dtype=np.float64)
    blocks: list[NDArray[np.float64]] = []
    features: list[Feature] = []
    for j, column in enumerate(used):
        if column.kind == "categories":
            blocks.append(encoder.fit_transform(table[:, j : j + 1]))
            present = encoder.categories_[0].astype(int)
            features += [Feature(column.name, column.kind, column.categories[place]) for place in present]
        else:
            blocks.append(table[:, j : j + 1])
            features.append(Feature(column.name, column.kind))
    return np.concatenate(blocks, axis=1), tuple(features)
