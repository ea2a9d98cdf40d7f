"""Reading of a user's table from a CSV file, Parquet file or NumPy archive, and writing of it with added columns."""

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import array_names, read_arrays
from clustering.files.atomic import replacing
from clustering.files.cells import NO_CATEGORY, NO_VALUE, Numbers, days, days_of, numbers_of, words_of
from clustering.files.spreadsheets import as_text
from clustering.files.table_readers import ENDINGS, column_names, kind_of, open_text, read_rows, wanted
from clustering.foundation.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

GROUPED = "values such as {}, whose point may group thousands or begin decimals; write them without it"


@dataclass(frozen=True, eq=False)
class RowFile:
    """The rows of a file. All cells of a CSV are stored as text, so that `save` writes them unchanged.

    Attributes:
        path: path of the file.
        rows: columns with their names in the file; an array (N, D) named a has columns a0 to a(D-1).
        delimiter: delimiter of a CSV, else empty.
        first_line: line number of the first row of a CSV, else 0.
    """

    path: Path
    rows: "pd.DataFrame"
    delimiter: str = ""
    first_line: int = 0
    _known: dict[str, Numbers] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | Path, *, blank_lines: bool = False) -> "RowFile":
        """Read a file in the format given by its extension.

        Args:
            path: path of the file.
            blank_lines: whether an empty line is a row without values; otherwise empty lines are skipped.

        Raises:
            InputError: the file does not exist, its extension is unknown, it cannot be read in the format of the
                extension, it has no rows, two columns have the same name, or there are more than `MAX_COLUMNS`
                columns.
        """
        path = Path(path)
        kind_of(path)
        if not path.is_file():
            raise InputError(f"no file {path}; set path=FILE to a table in {wanted()}")
        state = path.stat()
        return cls._read(path, blank_lines, state.st_mtime_ns, state.st_size)

    @classmethod
    @lru_cache(maxsize=1)
    def _read(cls, path: Path, blank_lines: bool, changed: int, size: int) -> "RowFile":
        """The rows of a file. The last file is cached until it changes, since a table is read several times."""
        kind = kind_of(path)
        try:
            rows, delimiter, first_line = read_rows(path, blank_lines=blank_lines)
        except InputError:
            raise
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not in UTF-8; save it as such (in Excel: CSV UTF-8)") from error
        except Exception as error:  # readers raise many types of errors for damaged files
            raise InputError(f"{path}: cannot be read as {kind}: {str(error).strip() or repr(error)}") from error
        if not len(rows):
            raise InputError(f"{path}: has no rows")
        return cls(path, rows, delimiter, first_line)

    def place(self, row: int) -> str:
        """Description of the position of a row (counted from 0), for messages. For a CSV it is the line number, which
        is correct if `read` kept blank lines and no cell spans several lines."""
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
            raise InputError(f"{self.path}: {message}{others}")
        return self.rows.iloc[:, self._places[name]]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN for missing values; true and false are 1 and 0.

        Raises:
            InputError: there is no such column, or it has text; the message names the row.
        """
        column = self.column(name)
        values, text = self.parsed(name)
        if value := self.grouped(name):
            raise InputError(f"{self.path}: column {name!r} has {GROUPED.format(value)}")
        if text.any():
            row = int(text.argmax())
            raise InputError(
                f"{self.path}: column {name!r} has text in row {row + 1} ({str(column.iloc[row])[:40]!r}), but only "
                "numbers can be clustered; leave the column out, or replace the text by numbers"
            )
        return values

    def categories(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """A column as text without surrounding blanks, and a mask of missing values.

        Raises:
            InputError: there is no such column.
        """
        import pandas as pd

        column = self.column(name)
        if pd.api.types.is_float_dtype(column):  # integers with missing values are stored as floats
            texts = pd.Series([f"{value:.15g}" for value in column.to_numpy(dtype=np.float64, na_value=np.nan)])
        else:
            texts = column.astype("str").str.strip()
        missing = column.isna().to_numpy(dtype=bool) | texts.str.lower().isin(NO_CATEGORY).to_numpy(dtype=bool)
        return np.asarray(texts.tolist(), dtype=np.str_), missing

    def numeric(self, name: str) -> bool:
        """Whether a column has at least one number and no text."""
        values, text = self.parsed(name)
        return not text.any() and not bool(np.isnan(values).all())

    def grouped(self, name: str) -> str:
        """A value such as 1.020 whose point may group thousands or begin decimals, if no other value of the column
        decides it; else empty. Only in a CSV that is not separated by commas can decimals have a comma."""
        if self.delimiter in ("", ","):
            return ""
        cells = self.column(name).str.strip()
        points = cells[cells.str.contains(".", regex=False)]
        grouped = points.str.fullmatch(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
        return str(points.iloc[0]) if len(points) and grouped.all() else ""

    def parsed(self, name: str) -> Numbers:
        """A column as numbers, and a mask of the cells with text. It is cached.

        Raises:
            InputError: there is no such column.
        """
        column = self.column(name)
        if name not in self._known:
            self._known[name] = numbers_of(column, comma=self.delimiter not in ("", ","))
        return self._known[name]

    def words(self, name: str) -> tuple[NDArray[np.int64], list[str]] | None:
        """A column as words, see `words_of`.

        Raises:
            InputError: there is no such column.
        """
        return words_of(self.column(name))

    def days(self, name: str) -> tuple[NDArray[np.float64], str]:
        """A column as days since 1970-01-01, see `days_of`; all NaN if it has no dates.

        Raises:
            InputError: there is no such column.
        """
        import pandas as pd

        column = self.column(name)
        dates = pd.api.types.is_datetime64_any_dtype(column)
        if dates or pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime"):
            return days(column), ""
        words = self.words(name)
        if words is None:
            return np.full(len(column), np.nan), ""
        places, names = words
        texts = np.array([name.lower() not in NO_VALUE for name in names], dtype=bool)
        numbers = np.full(len(names) + 1, np.nan)
        numbers[:-1][texts], unclear = days_of(np.array(names, dtype=object)[texts])
        return numbers[places], unclear

    def check_output(self, path: str | Path, added: Sequence[str]) -> Path:
        """Check, before the computation starts, that the rows can be written with these columns added.

        Raises:
            InputError: as in `save`, or the file exists and is not this table with added columns.
        """
        path = self._check_place(Path(path), added)
        if os.path.lexists(path) and not self._is_extended_copy(path, added):
            raise InputError(
                f"output={path}: the file exists and is not this table with clusters; choose another name, or "
                "move the file"
            )
        return path

    def _is_extended_copy(self, path: Path, added: Sequence[str]) -> bool:
        """Whether a file has the columns of this table and the first of the added ones."""
        try:
            names = column_names(path, self.delimiter)
        except Exception:  # readers raise many types of errors for damaged files
            return False
        own_names = array_names(self.path) if kind_of(self.path) == "NumPy" else self.names
        return names[: len(own_names)] == own_names and added[0] in names[len(own_names) :]

    def _check_place(self, path: Path, added: Sequence[str]) -> Path:
        kind = kind_of(self.path)
        if kind_of(path) != kind:
            endings = " or ".join(ENDINGS[kind])
            raise InputError(
                f"output={path}: rows are written in the format of the input; choose a name that ends with {endings}"
            )
        if path.exists() and path.samefile(self.path):
            raise InputError(f"output={path}: is the table itself; choose another name")
        if not path.parent.is_dir():
            raise InputError(f"output={path}: there is no folder {path.parent}; create it, or choose another path")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"output={path}: no permission to write to the folder {path.parent}; choose another path")
        self.check_added(added)
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
        path = self._check_place(Path(path), list(added))
        columns = {name: self._over_all(values, rows) for name, values in added.items()}
        with replacing(path) as partial:
            if kind_of(path) == "NumPy":
                arrays = read_arrays(self.path) | {name: _array(values) for name, values in columns.items()}
                np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]
            elif kind_of(path) == "Parquet":
                self.rows.assign(**columns).to_parquet(partial)
            else:
                self._write_csv(partial, columns)
        return path

    def _over_all(self, values: NDArray[Any], rows: NDArray[np.intp] | None) -> Any:
        """(N,) values of some rows, missing for the others; integers stay integers."""
        import pandas as pd

        if rows is None or len(rows) == len(self.rows):
            return values
        series = pd.Series(values, index=rows, dtype="Int64" if values.dtype.kind in "iu" else None)
        return series.reindex(range(len(self.rows))).array

    def _write_csv(self, path: Path, added: Mapping[str, Any]) -> None:
        """Write row by row, since a frame with thousands of columns takes minutes to write."""
        columns = [self.rows.iloc[:, place].to_numpy(dtype=object, na_value="") for place in range(self.rows.shape[1])]
        columns += [_cells(values) for values in added.values()]
        with open_text(path, "wt") as file:
            lines = csv.writer(_Lines(file), delimiter=self.delimiter, lineterminator="\r\n")
            lines.writerow([*self.names, *added])
            lines.writerows(zip(*columns, strict=True))


@dataclass(frozen=True)
class _Lines:
    """File for a CSV writer that ends lines in a line feed, while the writer also quotes cells with a carriage
    return."""

    file: TextIO

    def write(self, line: str) -> int:
        return self.file.write(line.removesuffix("\r\n") + "\n")


def _cells(values: Any) -> NDArray[Any]:
    """(N,) text of the values of an added column, empty if missing.

    Numbers keep their type, since 0.9876 in single precision would become 0.9876000285148621 as a Python float.
    """
    import pandas as pd

    column = pd.Series(values)
    write = str if pd.api.types.is_numeric_dtype(column) else lambda cell: as_text(str(cell))
    cells = ["" if missing else write(cell) for cell, missing in zip(column.array, column.isna(), strict=True)]
    return np.array(cells, dtype=object)


def _array(values: Any) -> NDArray[Any]:
    """Values as a NumPy array; missing values are NaN in numbers and empty in text."""
    if isinstance(values, np.ndarray):
        return values
    present = ~np.asarray(values.isna())
    if not isinstance(values[int(present.argmax())], str):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.array([str(value) if is_present else "" for value, is_present in zip(values, present, strict=True)])
