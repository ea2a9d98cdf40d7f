"""A user's table: rows to cluster by some columns, fairly with respect to others."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.table import Contents, Missing, check_distinct
from clustering.datasets.table import Table as Rows
from clustering.files.cells import ALMOST, spelling
from clustering.files.regular import fingerprint_of_files
from clustering.files.tables import TableFile, read_table
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fairness.datasets.dataset import FairDataset

if TYPE_CHECKING:
    import pandas as pd

RECIPE = 4  # increase it when the same file would give other points or groups
NUMBERS = 20  # maximum number of distinct numbers that form groups without bins
VALUES = 100  # the same for text
NOT_GIVEN = "not given"


@dataclass(frozen=True)
class Table:
    """Rows of a CSV or Parquet file, clustered by some columns, and grouped by the sensitive ones.

    Attributes:
        path: the file. Its content is part of a run's identity, its location is not.
        columns: names of the columns to cluster by. Empty uses all columns with numbers, dates or at most 50
            categories, except sensitive and constant columns, and columns that number the rows. A sensitive column is
            used if it is named here.
        sensitive: names of the columns with the groups; several columns are separate attributes.
        bins: bins of numeric sensitive columns. A single number is the number of bins with about equally many rows, for
            columns with more distinct numbers than that; several numbers are the upper ends of bins. Empty makes each
            value a group.
        missing_sensitive: how to treat rows without a sensitive value: "error" rejects them, "own_group" makes them a
            group, "drop" removes them.
        spellings: how to treat groups that differ only in case or blanks, such as Female and female: "error" rejects
            them, "merge" makes them one group named by the most frequent spelling, "keep" keeps them separate.
        scale: "standard" subtracts the mean of each column and divides by its standard deviation; for categories that
            is the square root of twice the summed variances of their indicator columns. None changes nothing.
        missing: as in `clustering.datasets.table.Table`.
    """

    name: ClassVar[str] = "table"

    path: str | None = None
    columns: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    bins: tuple[float, ...] = ()
    missing_sensitive: Literal["error", "own_group", "drop"] = "error"
    spellings: Literal["error", "merge", "keep"] = "error"
    scale: Literal["standard"] | None = "standard"
    missing: Missing = "auto"

    def __post_init__(self) -> None:
        for name in ("columns", "sensitive"):
            names = getattr(self, name)
            if isinstance(names, (tuple, list)):  # YAML reads a name such as 2024 as a number
                object.__setattr__(self, name, tuple(str(column) for column in names))
        validate(self)
        bins = self.bins
        if not (np.diff(bins) > 0).all():
            raise InputError(f"table: bins must be increasing numbers, not {', '.join(map(str, bins))}")
        if len(bins) == 1 and not (2 <= bins[0] <= VALUES and float(bins[0]).is_integer()):
            raise InputError(
                f"table: bins={bins[0]:g}: a single number is the number of groups, 2 to {VALUES}; to split "
                f"rows at {bins[0]:g}, add a number below all values"
            )

    def source(self) -> str:
        self._rows.source()  # raises if there is no file
        return fingerprint_of_files([self._rows.file()], "fair table", RECIPE)

    def read(self) -> FairDataset:
        groups, contents = self.attributes(), self.contents()
        return FairDataset(self._rows.points(contents), tuple(one.name for one in contents.features), groups)

    def contents(self) -> Contents:
        """The rows to cluster, in their original units.

        Raises:
            InputError: as in `clustering.datasets.table.Table`, or a sensitive column does not exist.
        """
        leave = None
        if self.missing_sensitive == "drop":
            file = read_table(self._rows.file())
            leave = np.any([_read_groups(file, name)[1] for name in self.sensitive], axis=0)
            if (left := int((~leave).sum())) < 2:
                raise InputError(
                    f"{file.path}: every row{' but one' * left} lacks a sensitive value; fill in values, name "
                    "fewer columns in sensitive=, or set missing_sensitive=own_group"
                )
        return self._rows.contents(dict.fromkeys(self.sensitive, "a sensitive attribute"), leave)

    def attributes(self) -> "dict[str, pd.Categorical]":
        """Groups of the rows to cluster, (N,) by sensitive column, in order: numbers ascending, rows without a value
        last.

        Raises:
            InputError: no sensitive column is named, or a named one does not exist, lacks a value in some row, has a
                single value or too many of them, or has a value in several spellings.
        """
        file = read_table(self._rows.file())
        if not self.sensitive:
            names = ", ".join(file.names[:20]) + ", ..." * (len(file.names) > 20)
            raise InputError(f"{file.path}: no sensitive column is named; add sensitive=COLUMN, one of {names}")
        check_distinct("sensitive", self.sensitive)
        drops = "drop" in (self.missing, self.missing_sensitive)
        rows = self.contents().rows if drops else np.arange(len(file.rows))
        return {name: self._attribute(file, name, rows) for name in self.sensitive}

    @property
    def _rows(self) -> Rows:
        return Rows(self.path, self.columns, scale=self.scale, missing=self.missing)

    def _attribute(self, file: TableFile, name: str, rows: NDArray[np.intp]) -> "pd.Categorical":
        import pandas as pd

        column = f"{file.path}: sensitive column {name!r}"
        texts, gaps, numbers = _read_groups(file, name)
        texts, gaps = texts[rows], gaps[rows]
        if gaps.all():
            raise InputError(f"{column} has no values")
        if gaps.any() and self.missing_sensitive == "error":
            more = f"; {gaps.sum():,} of {len(gaps):,} rows lack a value" if gaps.sum() > 1 else ""
            raise InputError(
                f"{column} has no value in row {rows[gaps.argmax()] + 1}{more}. Fill in the values, set "
                "missing_sensitive=own_group to make these rows a group, or set missing_sensitive=drop to remove them"
            )
        values = np.full(len(gaps), NOT_GIVEN, dtype=object)
        if numbers is None:
            values[~gaps] = self._spelt(column, texts[~gaps])
            names = sorted(set(values[~gaps].tolist()))
            if self.bins or len(names) > NUMBERS:
                self._check_text(file, name)
        else:
            present = numbers[rows][~gaps]
            distinct, first, codes = np.unique(present, return_index=True, return_inverse=True)
            if len(distinct) > self._bins > 0:
                if np.isinf(present).any():
                    row = rows[~gaps][np.isinf(present).argmax()] + 1
                    raise InputError(f"{column} is infinite in row {row}; enter a finite number, or clear the cell")
                names, codes = self._binned(name, present)
            elif len(distinct) > NUMBERS:
                raise InputError(
                    f"{column} has {len(distinct):,} different numbers, each of which would be a group; add bins=4 to "
                    "make 4 groups of about equally many rows"
                )
            else:
                names = [re.sub(r"\.0+$", "", text) for text in texts[~gaps][first].tolist()]
            values[~gaps] = np.array(names)[codes]
        if len(names) > VALUES:
            raise InputError(
                f"{column} has {len(names):,} different values, each of which would be a group; name a column with few "
                "values, or merge rare ones"
            )
        names = [group for group in names if group != NOT_GIVEN] + [NOT_GIVEN] * bool((values == NOT_GIVEN).any())
        if len(names) < 2:
            raise InputError(
                f"{column} is {names[0]!r} in every row, so all clusters are equally fair; name a column with two "
                "values or more"
            )
        return pd.Categorical(values, categories=names, ordered=True)

    def _check_text(self, file: TableFile, name: str) -> None:
        """Check that a column with many groups, or with bins, is not a numeric column with a few invalid cells.

        Raises:
            InputError: names the first invalid cell; or bins are set but no column is numeric.
        """
        cells = file.cells(name)
        row, numbers = int(cells.is_text.argmax()), (~np.isnan(cells.numbers)).sum()
        has = f"sensitive column {name!r} has {cells.shown(row)} in row {row + 1}"
        if numbers >= ALMOST * (cells.is_text.sum() + numbers):
            raise InputError(
                f"{file.path}: {has}, and numbers elsewhere. Enter a number, or clear the cell and set "
                "missing_sensitive="
            )
        if self.bins and not any(file.numeric(other) for other in self.sensitive):
            raise InputError(f"{file.path}: bins= needs a numeric column, but {has}; remove bins=")

    def _spelt(self, column: str, texts: NDArray[np.object_]) -> NDArray[np.object_]:
        """Texts with a single spelling of each group, if spellings are to be merged.

        Raises:
            InputError: groups differ only in their spelling, and spellings is "error".
        """
        if self.spellings == "keep":
            return texts
        counts = Counter(texts.tolist())
        spellings_of: dict[str, list[str]] = {}
        for text in sorted(counts, key=lambda text: (-counts[text], text)):
            spellings_of.setdefault(spelling(text), []).append(text)
        several = [spellings for spellings in spellings_of.values() if len(spellings) > 1]
        if several and self.spellings == "error":
            named = " and ".join(f"{text!r} ({counts[text]:,})" for text in several[0][:4])
            raise InputError(
                f"{column} has {named}, which differ only in case or blanks. Set "
                "spellings=merge to make them one group, or spellings=keep to keep them separate"
            )
        merged = {text: spellings[0] for spellings in spellings_of.values() for text in spellings}
        return np.array([merged[text] for text in texts.tolist()], dtype=texts.dtype)

    @property
    def _bins(self) -> int:
        """Maximum number of bins; 0 if there are none."""
        bins = self.bins
        return int(bins[0]) if len(bins) == 1 else len(bins) + 1 if bins else 0

    def _binned(self, name: str, numbers: NDArray[np.float64]) -> tuple[list[str], NDArray[np.int64]]:
        """Names of the right-closed bins that have rows, in order, and the bin of each number."""
        edges = np.array([-np.inf, *self.bins, np.inf])
        if len(self.bins) == 1:
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, self._bins + 1)))
        bin_of_row = np.maximum(np.searchsorted(edges, numbers) - 1, 0)
        kept, codes = np.unique(bin_of_row, return_inverse=True)
        names = _interval_names(edges.tolist(), whole=bool((numbers % 1 == 0).all()))
        return [names[place] for place in kept], codes


def _read_groups(
    file: TableFile, name: str
) -> tuple[NDArray[np.object_], NDArray[np.bool_], NDArray[np.float64] | None]:
    """(N,) texts of a column, mask of missing values, and numbers if it is numeric.

    Raises:
        InputError: there is no such column, or its numbers are ambiguous.
    """
    cells = file.cells(name)
    if not file.numeric(name):
        return cells.texts, cells.missing, None
    numbers = file.numbers(name)
    return cells.texts, np.isnan(numbers), numbers


def _interval_names(edges: Sequence[float], *, whole: bool) -> list[str]:
    """Readable names of the right-closed intervals between edges, for integers or any numbers."""
    for digits in range(4, 18):
        shown = [f"{edge:.0f}" if abs(edge) < 1e15 and edge == round(edge) else f"{edge:.{digits}g}" for edge in edges]
        if len(set(shown)) == len(set(edges)):
            break
    names = []
    for i, (low, high) in enumerate(pairwise(edges)):
        if low == -np.inf:
            names.append(f"up to {shown[i + 1]}")
        elif high == np.inf:
            names.append(f"over {shown[i]}")
        elif whole:
            first, last = np.ceil(low) if i == 0 else np.floor(low) + 1, np.floor(high)
            names.append(f"{first:.0f}" if first >= last else f"{first:.0f} to {last:.0f}")
        else:
            names.append(f"{'' if i == 0 else 'over '}{shown[i]} to {shown[i + 1]}")
    return names
