"""A user's table in a CSV or Parquet file: read without interpretation, and written again with added columns."""

import codecs
import csv
import io
import itertools
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.atomic import replacing
from clustering.files.cells import Cells
from clustering.files.regular import head_of, state_of, text_of
from clustering.foundation.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
MAX_COLUMNS = 10_000  # maximum number of columns; pandas takes minutes to read ten times as many
AMBIGUOUS = "values such as {}, whose mark may group thousands or begin decimals; write them without it"
_FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\d.]+$)")  # start of a formula, excluding numbers


def read_table(path: str | Path, *, blank_lines: bool = False) -> "TableFile":
    """Read a table in the format given by its extension.

    Args:
        path: the file: CSV (separated by comma, semicolon, tab or bar, in UTF-8, also .gz) or Parquet.
        blank_lines: whether an empty line of a CSV is a row without values; otherwise empty lines are skipped.

    Raises:
        InputError: the file does not exist, its extension is unknown, it cannot be read in the format of the extension,
            it has no rows, two columns have the same name, or there are more than `MAX_COLUMNS`; or a CSV has an
            unclosed quote, or rows with more values than names.
    """
    path = Path(path)
    is_parquet(path)
    if not path.is_file():
        raise InputError(f"no file {path}; set path=FILE to a table in CSV or Parquet")
    return _read(path, blank_lines, state_of(path))


def is_parquet(path: Path) -> bool:
    """Whether a table is a Parquet file according to its extension; otherwise it is a CSV.

    Raises:
        InputError: the extension is of neither.
    """
    name = path.name.lower()
    if name.endswith((*CSV, *PARQUET)):
        return name.endswith(PARQUET)
    comma = "" if path.suffix else "; a comma separates values, so quote a name that has one: 'path=\"a, b.csv\"'"
    raise InputError(f"{path}: must be a table, as .csv, .tsv or .parquet; in Excel, save it as CSV UTF-8{comma}")


def csv_layout(text: str, delimiters: str = ",;\t|") -> tuple[str, int]:
    """The delimiter of a CSV, and the number of lines above its header: blank ones, and `sep=;`, as Excel writes.

    Unless such a line says it, the delimiter is the most frequent one outside of quotes in the header.
    """
    lines = enumerate(io.StringIO(text, newline=""))
    above, header = next(((number, line) for number, line in lines if line.strip()), (0, ""))
    if stated := re.fullmatch(r"sep=([,;\t|])", header.strip("\r\n \ufeff")):
        return stated[1], above + 1
    return max(delimiters, key=re.sub(r'"[^"]*"', "", header).count), above


def as_text(cell: str, mark: str = "'") -> str:
    """A cell that spreadsheets do not evaluate: `=1+1` becomes `'=1+1`; numbers, such as -1, are unchanged.

    It is for cells that are added to a table; existing cells of a user's table are not changed.

    Args:
        cell: the text.
        mark: prefix of a formula; `./` for file names, which then still name the same file.
    """
    return f"{mark}{cell}" if _FORMULA.match(cell) else cell


def typed(name: str) -> str:
    """A name in a list of names, as it is given: in quotes if it has blanks, commas or brackets, or is null."""
    plain = re.fullmatch(r"[^\s,'\"\[\](){}]+", name) and name.lower() not in ("null", "none")
    return name if plain else "'" + name.replace("'", "''") + "'"


@dataclass(frozen=True, eq=False)
class TableFile:
    """The rows of a file. All cells of a CSV are stored as text, so that `save` writes them unchanged.

    Attributes:
        path: path of the file.
        rows: columns with their names in the file.
        delimiter: delimiter of a CSV, else empty.
        first_line: line number of the first row of a CSV, else 0.
        line_end: what ends the lines of a CSV.
    """

    path: Path
    rows: "pd.DataFrame"
    delimiter: str = ""
    first_line: int = 0
    line_end: str = "\n"
    _known: dict[str, Cells] = field(default_factory=dict, repr=False)

    def place(self, row: int) -> str:
        """Description of the position of a row (counted from 0), for messages. For a CSV it is the line number, which
        is correct if `read_table` kept blank lines and no cell spans several lines."""
        return f"line {self.first_line + row}" if self.first_line else f"row {row + 1}"

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.rows.columns]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> "pd.Series[Any]":
        """One column, not converted.

        Raises:
            InputError: there is no such column; the message suggests the nearest name.
        """
        if name not in self._places:
            message = str(unknown("column", name, self.names))
            others = "" if "known: " in message or len(self.names) > 20 else f" The columns are {', '.join(self.names)}"
            marked = next((typed(own) for own in self.names if typed(own) != own and name in own), "")
            rule = "a name with blanks, commas, brackets or quotes is quoted, also for the shell"
            quote = f"; {rule}: {marked}" * bool(marked)
            raise InputError(f"{self.path}: {message}{others}{quote}")
        return self.rows.iloc[:, self._places[name]]

    def cells(self, name: str) -> Cells:
        """The interpretation of a column. Only in a CSV that is not separated by commas can decimals have a comma.

        Raises:
            InputError: there is no such column.
        """
        if name not in self._known:
            self._known[name] = Cells(self.column(name), points_begin_decimals=self.delimiter in ("", ","))
        return self._known[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN for missing values; true and false are 1 and 0.

        Raises:
            InputError: there is no such column, it has text, or its values are ambiguous; the message names the row.
        """
        cells = self.cells(name)
        if cells.ambiguous:
            raise InputError(f"{self.path}: column {name!r} has {AMBIGUOUS.format(cells.ambiguous)}")
        if cells.is_text.any():
            row = int(cells.is_text.argmax())
            raise InputError(
                f"{self.path}: column {name!r} has text in row {row + 1} ({cells.shown(row)}), but only numbers can be "
                "clustered; leave the column out, or replace the text by numbers"
            )
        return cells.numbers

    def numeric(self, name: str) -> bool:
        """Whether a column has at least one number and no text."""
        cells = self.cells(name)
        return not cells.is_text.any() and not bool(np.isnan(cells.numbers).all())

    def check_output(self, path: str | Path, added: Sequence[str]) -> Path:
        """Check, before the computation starts, that the rows can be written with these columns added.

        Raises:
            InputError: as in `save`, or the file exists and is not this table with added columns.
        """
        path = self._check_place(Path(path).expanduser(), added)
        if os.path.lexists(path):
            try:
                names = read_table(path).names
            except InputError:
                names = []
            if names[: len(self.names)] != self.names or added[0] not in names[len(self.names) :]:
                raise InputError(
                    f"output={path}: the file exists and is not this table with clusters; choose another name, or move "
                    "the file"
                )
        return path

    def check_added(self, added: Sequence[str]) -> None:
        """Check that columns can be added.

        Raises:
            InputError: a column with one of these names exists.
        """
        present = [name for name in added if name in self.names]
        if present:
            raise InputError(
                f"{self.path}: already has a column {present[0]!r}, which the output would add; use the original "
                "table, or rename the column"
            )

    def save(self, path: str | Path, added: Mapping[str, NDArray[Any]], rows: NDArray[np.intp] | None = None) -> Path:
        """Write the rows atomically in the same order and format, with columns added on the right.

        In a CSV, added text is escaped so that spreadsheets do not evaluate it (`as_text`); existing cells are
        unchanged.

        Args:
            path: the file. An existing one is replaced.
            added: values by name; NaN is written as a missing value.
            rows: rows of the values, counted from 0; other rows get missing values. None means all rows in order.

        Raises:
            InputError: the extension differs from that of the table, a column exists, the file is the table itself, or
                the folder does not exist or is not writable.
        """
        import pandas as pd

        path = self._check_place(Path(path).expanduser(), list(added))
        whole, place = self.rows.index, slice(None) if rows is None else rows
        columns = {}
        for name, values in added.items():
            kind = "Int64" if values.dtype.kind in "iu" and len(values) < len(whole) else None
            column = pd.Series(values, index=whole[place], dtype=kind).reindex(whole)
            is_text = not self._is_parquet and values.dtype.kind in "OU"
            columns[name] = column.map(as_text, na_action="ignore") if is_text else column
        frame = pd.concat([self.rows, pd.DataFrame(columns)], axis=1)
        encoding = "utf-8-sig" if head_of(self.path).startswith(codecs.BOM_UTF8) else "utf-8"  # as Excel needs it
        with replacing(path) as partial:
            if self._is_parquet:
                frame.to_parquet(partial)
            else:
                # pandas' own chunks are few rows, and slow, if there are many columns
                frame.to_csv(
                    partial,
                    sep=self.delimiter,
                    index=False,
                    lineterminator=self.line_end,
                    encoding=encoding,
                    chunksize=10_000,
                )
        return path

    @property
    def _is_parquet(self) -> bool:
        return is_parquet(self.path)

    def _check_place(self, path: Path, added: Sequence[str]) -> Path:
        if is_parquet(path) != self._is_parquet:
            endings = " or ".join(PARQUET if self._is_parquet else CSV)
            raise InputError(
                f"output={path}: rows are written in the format of the input; choose a name that ends with {endings}"
            )
        if path.exists() and path.samefile(self.path):
            raise InputError(f"output={path}: is the table itself; choose another name")
        if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise InputError(
                f"output={path}: there is no folder {path.parent} that can be written to; choose another path"
            )
        self.check_added(added)
        return path


@lru_cache(maxsize=2)
def _read(path: Path, blank_lines: bool, state: tuple[int, ...]) -> TableFile:
    """The table of a file. The last ones are cached until they change, since a table is read several times."""
    kind = "Parquet" if is_parquet(path) else "CSV"
    try:
        table = _read_parquet(path) if kind == "Parquet" else _read_csv(path, blank_lines)
    except InputError:
        raise
    except Exception as error:  # readers raise many types of errors for damaged files
        raise InputError(
            f"{path}: cannot be read as {kind}: {str(error).strip() or repr(error)}; write it again"
        ) from error
    if not len(table.rows):
        raise InputError(f"{path}: has no rows")
    return table


def _read_parquet(path: Path) -> TableFile:
    import pandas as pd
    from pyarrow import parquet

    _check_names(path, parquet.read_schema(path).names)  # before possibly large data is read
    return TableFile(path, pd.read_parquet(path))


def _read_csv(path: Path, blank_lines: bool) -> TableFile:
    import pandas as pd

    text = text_of(path)
    delimiter, above = csv_layout(text)
    lines = itertools.islice(io.StringIO(text, newline=""), above, None)
    names = next(csv.reader(lines, delimiter=delimiter), [])
    _check_names(path, names)
    if not names:
        raise InputError(f"{path}: has no rows")
    if pd.to_numeric(pd.Series(names), errors="coerce").notna().all():
        raise InputError(
            f"{path}: the first line has numbers instead of names; add a header line with the names of the columns"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # it warns if values are truncated
        try:
            rows = pd.read_csv(
                io.StringIO(text, newline=""),
                sep=delimiter,
                dtype=str,
                keep_default_na=False,
                index_col=False,
                skip_blank_lines=not blank_lines,
                skiprows=above,
                header=0,
            )
        except pd.errors.ParserWarning as error:
            raise InputError(
                f"{path}: has a row with more values than the {len(names)} names in its first line; name every "
                "column, and remove lines above the header"
            ) from error
        except pd.errors.ParserError as error:
            said = str(error).strip().rpartition("C error: ")[2]
            if quote := re.search(r"EOF inside string starting at row (\d+)", said):
                said = f"a quote in line {int(quote[1]) + 1} is not closed"
            raise InputError(f"{path}: {said}; remove what is too much, or quote cells with separators") from error
    rows.columns = pd.Index(names)
    _check_quotes(path, rows, delimiter, above + 2)
    return TableFile(path, rows, delimiter, above + 2, "\r\n" if "\r" in text else "\n")


def _check_quotes(path: Path, rows: "pd.DataFrame", delimiter: str, first_line: int) -> None:
    """Raise if a cell contains rows of the table, because a quote at its beginning is not closed."""
    width = rows.shape[1]
    for place, name in enumerate(rows.columns):
        cells = rows.iloc[:, place]
        suspects = cells.str.contains("\n", regex=False) & cells.str.contains(delimiter, regex=False)
        for row in suspects.to_numpy().nonzero()[0]:
            first, *inner, _ = str(cells.iloc[row]).split("\n")
            whole = width - 1 in {line.count(delimiter) for line in inner}
            if whole or first.count(delimiter) == width - 1 - place > 0:
                raise InputError(
                    f"{path}: line {first_line + int(row)}, column {name!r}: the quote before {first[:40]!r} is not "
                    "closed in its line, so that the next lines would belong to this cell; remove it, or double it"
                )


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"{path}: has {len(names):,} columns, but at most {MAX_COLUMNS:,} can be read; select the columns that "
            "matter. Features of a network are read by `transduce cluster dataset=features`"
        )
    check_unique(names, f"{path}: ")


def check_unique(names: Sequence[str], place: str = "") -> None:
    """Check the names of columns.

    Raises:
        InputError: two are equal; the message begins with the place.
    """
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        problem = f"are called {duplicate!r}" if duplicate else "have no name"
        raise InputError(f"{place}two columns {problem}; give each column a unique name")
