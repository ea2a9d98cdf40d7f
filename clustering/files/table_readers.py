"""Readers of tables in CSV files, Parquet files and NumPy archives, without interpretation of the values."""

import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from numpy.typing import NDArray

from clustering.files.arrays import array_names, read_arrays
from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = {
    "CSV": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    "Parquet": (".parquet", ".pq"),
    "NumPy": (".npz",),
}
MAX_COLUMNS = 10_000  # maximum number of columns; pandas takes minutes to read ten times as many
_MAX_LINE = 1 << 24  # maximum length of the header line in characters


def read_rows(path: Path, *, blank_lines: bool) -> "tuple[pd.DataFrame, str, int]":
    """The rows of a file, read according to its extension; for a CSV also its delimiter and the line number of the
    first row.

    Raises:
        InputError: column names are missing or repeated, or there are more than `MAX_COLUMNS`; errors of the reader of
            the format are raised, too.
    """
    kind = kind_of(path)
    if kind == "CSV":
        return _csv(path, blank_lines)
    return {"Parquet": _parquet, "NumPy": _npz}[kind](path), "", 0


def kind_of(path: Path) -> str:
    """The format according to the extension of a file.

    Raises:
        InputError: the extension is not supported.
    """
    kind = next((kind for kind, ends in ENDINGS.items() if path.name.lower().endswith(ends)), None)
    if kind is None:
        comma = "" if path.suffix else "; a comma separates values, so quote a name that has one: 'path=\"a, b.csv\"'"
        raise InputError(f"{path}: must be a table in {wanted()}; in Excel, save it as CSV UTF-8{comma}")
    return kind


def wanted() -> str:
    """The supported formats in words."""
    return ", ".join(f"{kind} ({', '.join(ends[:2])})" for kind, ends in ENDINGS.items())


def open_text(path: Path, mode: Literal["rt", "wt"] = "rt") -> TextIO:
    """Open a CSV as text; with the extension .gz it is compressed."""
    encoding = "utf-8-sig" if mode == "rt" else "utf-8"
    if path.name.lower().endswith(".gz"):
        return cast(TextIO, gzip.open(path, mode, encoding=encoding, newline=""))
    return cast(TextIO, path.open(mode, encoding=encoding, newline=""))


def column_names(path: Path, delimiter: str) -> list[str]:
    """Names of the columns or arrays of a file, without reading rows."""
    kind = kind_of(path)
    if kind == "NumPy":
        return array_names(path)
    if kind == "Parquet":
        from pyarrow import parquet

        return [str(name) for name in parquet.read_schema(path).names]
    with open_text(path) as file:
        return _header(file, delimiter)[1]


def delimiter_of(header: str, delimiters: str) -> str:
    """The most frequent delimiter in a header line, outside of quotes; or that of a line `sep=;`, as Excel writes."""
    if is_separator_line(header):
        return header.strip()[4:]
    outside = re.sub(r'"[^"]*"', "", header)
    return max(delimiters, key=outside.count)


def is_separator_line(line: str) -> bool:
    """Whether a line says how the values of the next ones are separated."""
    return re.fullmatch(r"sep=[,;\t|]", line.strip("\r\n \ufeff")) is not None


def _header(file: TextIO, delimiter: str) -> tuple[int, list[str]]:
    """Number of lines above the header, and the names in it."""
    lines = enumerate(csv.reader(file, delimiter=delimiter))
    headers = ((above, row) for above, row in lines if any(row) and not is_separator_line(delimiter.join(row)))
    return next(headers, (0, []))


def _csv(path: Path, blank_lines: bool) -> "tuple[pd.DataFrame, str, int]":
    """The rows, the delimiter, and the line number of the first row."""
    import pandas as pd

    with open_text(path) as file:
        text = file.read()
    if (place := text.find("\0")) >= 0:
        line = text.count("\n", 0, place) + 1
        raise InputError(f"{path}: line {line} has a NUL byte, so the file is not text; save it as CSV UTF-8")
    first = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    if len(first) >= _MAX_LINE:
        raise InputError(
            f"{path}: its first line exceeds {_MAX_LINE:,} characters; check that it is a table with one line per row"
        )
    delimiter = delimiter_of(first, ",;\t|")
    above, names = _header(io.StringIO(text, newline=""), delimiter)
    _check_names(path, names)
    if not names:
        raise InputError(f"{path}: has no rows")
    if all(_is_number(name) for name in names):
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
    rows.columns = pd.Index(names)
    _check_quotes(path, rows, delimiter, above + 2)
    return rows, delimiter, above + 2


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


def _parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd
    from pyarrow import parquet

    _check_names(path, parquet.read_schema(path).names)  # before possibly large data is read
    rows = pd.read_parquet(path)
    _check_names(path, [str(name) for name in rows.columns])
    return rows


def _npz(path: Path) -> "pd.DataFrame":
    import pandas as pd

    columns: list[tuple[str, NDArray[Any]]] = []
    for name, array in read_arrays(path).items():
        if array.ndim == 2:
            _check_width(path, array.shape[1])
            columns += [(f"{name}{i}", array[:, i]) for i in range(array.shape[1])]
        elif array.ndim == 1:
            columns.append((name, array))
    lengths = {len(column) for _, column in columns}
    if len(lengths) != 1:
        raise InputError(
            f"{path}: all arrays must be (N,) or (N, D) with the same N, but N = {sorted(lengths) or 'none'}"
        )
    _check_names(path, [name for name, _ in columns])
    return pd.DataFrame(dict(columns))


def _check_names(path: Path, names: Sequence[str]) -> None:
    _check_width(path, len(names))
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        problem = f"are called {duplicate!r}" if duplicate else "have no name"
        raise InputError(f"{path}: two columns {problem}; give each column a unique name")


def _check_width(path: Path, columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise InputError(
            f"{path}: has {columns:,} columns, but at most {MAX_COLUMNS:,} can be read; select the columns "
            "that matter. Features of a network are read by `transduce cluster dataset=features`"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
