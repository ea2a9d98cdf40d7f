"""A table of one's own: rows to be clustered by some columns, and fair about others."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.files import fingerprint_of
from clustering.datasets.table import Contents, Missing
from clustering.datasets.table import Table as Rows
from clustering.files.cells import ALMOST
from clustering.files.tables import RowFile
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import validate
from fairness.datasets.dataset import FairDataset

RECIPE = 3  # raised whenever the same file gives other points or groups
NUMBERS = 20  # different ones of a column that are groups by themselves, at most
VALUES = 100  # likewise of text
NOT_GIVEN = "not given"


@dataclass(frozen=True, eq=False)
class Attribute:
    """One sensitive column.

    Attributes:
        column: its name.
        values: (N,) the group of each row, by its name.
        names: of the groups in their order: numbers rise, and rows without a value come last.
    """

    column: str
    values: NDArray[np.str_]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of a CSV, Parquet or NumPy file, by some of their columns, and the groups of people that they belong to.

    Attributes:
        path: the file. No part of a run's identity; what is in it is.
        columns: names of those to cluster by; empty: all with numbers, dates or at most 50 categories, less the
            sensitive ones, those that are the same in every row, and those that count the rows. A sensitive one is used
            where it is named.
        sensitive: names of the columns with the groups; of several, each counts for itself.
        bins: of sensitive columns with more different numbers than that: one number, so many groups of about
            equally many rows; several, the numbers that groups reach up to. Empty: each value is a group.
        missing_sensitive: rows without a sensitive value are an "error", a group of their own ("own_group"), or left
            out ("drop").
        spellings: groups that differ in case or blanks alone, as Female and female, are an "error", one group
            ("merge", by the most frequent spelling), or several ("keep").
        scale: "standard": columns less their mean, over their standard deviation, which for categories is the root of
            the variances of their numbers, summed; None: as they are.
        missing: as of `clustering.datasets.table.Table`.
    """

    name: ClassVar[str] = "table"

    path: str | None = None
    columns: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    bins: tuple[float, ...] = ()
    missing_sensitive: Literal["error", "own_group", "drop"] = "error"
    spellings: Literal["error", "merge", "keep"] = "error"
    scale: Literal["standard"] | None = "standard"
    missing: Missing = "error"

    def __post_init__(self) -> None:
        for name in ("columns", "sensitive"):
            given = getattr(self, name)
            if isinstance(given, (tuple, list)):  # a name such as 2024 comes as a number
                object.__setattr__(self, name, tuple(str(column) for column in given))
        validate(self)
        asked = self.bins
        if not (np.diff(asked) > 0).all():
            raise InputError(f"table: bins must be numbers that rise, not {', '.join(map(str, asked))}")
        if len(asked) == 1 and not (2 <= asked[0] <= VALUES and float(asked[0]).is_integer()):
            raise InputError(
                f"table: bins={asked[0]:g}: one number is how many groups there are to be, 2 to {VALUES}; to "
                f"part rows at {asked[0]:g}, give a lower number besides, below all there are"
            )

    def source(self) -> str:
        self._rows.source()  # which says it where there is no file
        return fingerprint_of("fair table", RECIPE, [self._rows.file()])

    def read(self) -> FairDataset:
        import pandas as pd

        attributes = self.attributes()
        contents = self.contents()
        return FairDataset(
            self._rows.points(contents),
            tuple(feature.name for feature in contents.features),
            {own.column: pd.Categorical(own.values, categories=own.names, ordered=True) for own in attributes},
        )

    def contents(self) -> Contents:
        """The rows that are clustered, in their own units.

        Raises:
            InputError: as of `clustering.datasets.table.Table`; a sensitive column that is not there.
        """
        leave = None
        if self.missing_sensitive == "drop":
            file = RowFile.read(self._rows.file())
            leave = np.any([_gaps(file, name) for name in self.sensitive], axis=0)
            if (left := int((~leave).sum())) < 2:
                raise InputError(
                    f"{file.path}: every row{' but one' * left} lacks a sensitive value; fill them in, name fewer "
                    "columns in sensitive=, or give missing_sensitive=own_group"
                )
        return self._rows.contents(dict.fromkeys(self.sensitive, "the clusters are to be fair about it"), leave)

    def attributes(self) -> list[Attribute]:
        """The sensitive columns, of the rows that are clustered.

        Raises:
            InputError: none, one that is not there, has no value in a row, one value in all, too many of them, or one
                in several spellings.
        """
        file = RowFile.read(self._rows.file())
        if not self.sensitive:
            names = ", ".join(file.names[:20]) + ", ..." * (len(file.names) > 20)
            raise InputError(
                f"{file.path}: say which column has the groups that clusters are to be fair about; add "
                f"sensitive=COLUMN, one of {names}"
            )
        twice = next((name for name, count in Counter(self.sensitive).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"sensitive: {twice!r} is there twice")
        for name in self.sensitive:
            if _gaps(file, name).all():
                raise InputError(f"{file.path}: sensitive column {name!r} has no values")
        drops = "drop" in (self.missing, self.missing_sensitive)
        rows = self.contents().rows if drops else np.arange(len(file.rows))
        for name in self.sensitive:
            self._check_gaps(file, name, rows)
        return [self._attribute(file, name, rows) for name in self.sensitive]

    @property
    def _rows(self) -> Rows:
        return Rows(self.path, self.columns, scale=self.scale, missing=self.missing)

    def _attribute(self, file: RowFile, name: str, rows: NDArray[np.intp]) -> Attribute:
        texts, gaps = file.categories(name)[0][rows], _gaps(file, name)[rows]
        numbers = file.numbers(name)[rows] if file.numeric(name) else None
        if numbers is None:
            texts = texts.copy()
            texts[~gaps] = self._spelt(file, name, texts[~gaps])
        names, first, codes = np.unique(
            (texts if numbers is None else numbers)[~gaps], return_index=True, return_inverse=True
        )
        if numbers is not None and len(names) > self._bins > 0:
            names, codes = self._binned(name, numbers[~gaps])
        else:
            if numbers is None and (self.bins or len(names) > NUMBERS):
                self._check_text(file, name)
            _check_few(file, name, len(names), numeric=numbers is not None)
            names = texts[~gaps][first]
            if numbers is not None:
                names = np.array([re.sub(r"\.0+$", "", name) for name in names])
        values = np.full(len(gaps), NOT_GIVEN, dtype=object)
        values[~gaps] = names[codes]
        groups = [str(group) for group in names if group != NOT_GIVEN] + [NOT_GIVEN] * bool((values == NOT_GIVEN).any())
        if len(groups) < 2:
            raise InputError(
                f"{file.path}: sensitive column {name!r} is {groups[0]!r} in every row, so that all clusters are alike "
                "in it; name a column with two values or more"
            )
        return Attribute(name, values.astype(np.str_), tuple(groups))

    def _check_text(self, file: RowFile, name: str) -> None:
        """That a column of many groups, or of bins, is not one of numbers but for a few cells.

        Raises:
            InputError: names the first such cell; or bins are asked for where no column has numbers.
        """
        numbers, text = file.parsed(name)
        row = int(text.argmax())
        has = f"sensitive column {name!r} has {str(file.column(name).iloc[row])[:40]!r} in row {row + 1}"
        if (~np.isnan(numbers)).sum() >= ALMOST * (text.sum() + (~np.isnan(numbers)).sum()):
            raise InputError(
                f"{file.path}: {has}, and numbers elsewhere. Put a number there, or empty the cell and say with "
                "missing_sensitive= what becomes of it"
            )
        if self.bins and not any(file.numeric(other) for other in self.sensitive):
            raise InputError(f"{file.path}: bins= is for columns of numbers, and {has}; leave bins= out")

    def _spelt(self, file: RowFile, name: str, texts: NDArray[np.str_]) -> NDArray[np.str_]:
        """Texts with one spelling of each group, if that is asked for.

        Raises:
            InputError: groups that differ in their spelling alone, and nobody said what becomes of them.
        """
        if self.spellings == "keep":
            return texts
        counts = Counter(texts.tolist())
        alike: dict[str, list[str]] = {}
        for text in sorted(counts, key=lambda text: (-counts[text], text)):
            alike.setdefault(" ".join(unicodedata.normalize("NFKC", text).casefold().split()), []).append(text)
        several = [spellings for spellings in alike.values() if len(spellings) > 1]
        if several and self.spellings == "error":
            named = " and ".join(f"{text!r} ({counts[text]:,})" for text in several[0][:4])
            raise InputError(
                f"{file.path}: sensitive column {name!r} has {named}, which differ in case or blanks alone. Say "
                "whether they are one group: spellings=merge takes them as one, spellings=keep as several"
            )
        one = {text: spellings[0] for spellings in alike.values() for text in spellings}
        return np.array([one[text] for text in texts.tolist()], dtype=texts.dtype)

    def _check_gaps(self, file: RowFile, name: str, kept: NDArray[np.intp]) -> None:
        gaps = _gaps(file, name)[kept]
        if gaps.any() and self.missing_sensitive == "error":
            row, rows = int(kept[gaps.argmax()]) + 1, int(gaps.sum())
            more = f"; {rows:,} of {len(gaps):,} rows are like that" if rows > 1 else ""
            raise InputError(
                f"{file.path}: sensitive column {name!r} has no value in row {row}{more}. Fill it "
                "in, make them a group of their own with missing_sensitive=own_group, or leave them out with "
                "missing_sensitive=drop"
            )

    @property
    def _bins(self) -> int:
        """How many at most; 0: none are asked for."""
        asked = self.bins
        return int(asked[0]) if len(asked) == 1 else len(asked) + 1 if asked else 0

    def _binned(self, name: str, numbers: NDArray[np.float64]) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
        """Names of the bins that have rows, in their order, and the bin of each number."""
        from fairness.bins import binned

        found, edges = binned(name, numbers, self._bins if len(self.bins) == 1 else [-np.inf, *self.bins, np.inf])
        kept, codes = np.unique(found, return_inverse=True)
        names = _interval_names(edges.tolist(), whole=bool((numbers % 1 == 0).all()))
        return np.array(names)[kept], codes


def _gaps(file: RowFile, name: str) -> NDArray[np.bool_]:
    """(N,) where a column has no value."""
    if file.numeric(name):
        return np.isnan(file.numbers(name))
    return file.categories(name)[1]


def _check_few(file: RowFile, name: str, different: int, *, numeric: bool) -> None:
    if numeric and different > NUMBERS:
        raise InputError(
            f"{file.path}: sensitive column {name!r} has {different:,} different numbers, and each would be a group; "
            "add bins=4 to make 4 groups of about equally many rows"
        )
    if different > VALUES:
        raise InputError(
            f"{file.path}: sensitive column {name!r} has {different:,} different values, and each would be a group "
            "that is to be in every cluster; name a column with few values, or join those that are rare"
        )


def _interval_names(edges: Sequence[float], *, whole: bool) -> list[str]:
    """What a person calls the right-closed intervals between edges, of whole numbers or of any."""
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
