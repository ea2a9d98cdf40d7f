"""A person's own table in a file: CSV, Parquet or NumPy archive, read, and written again with columns added."""

import csv
import gzip
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from clustering.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = {
    "CSV": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    "Parquet": (".parquet", ".pq"),
    "NumPy": (".npz",),
}
_HEAD = 1_000  # rows of a column that are looked at first
_DELIMITERS = ",;\t|"
_NO_VALUE = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"))
_NO_CATEGORY = _NO_VALUE - {"none"}  # which says something where others say red or blue


_Numbers = tuple[NDArray[np.float64], NDArray[np.bool_]]  # NaN where there is none, and where there is text instead


@dataclass(frozen=True, eq=False)
class RowFile:
    """The rows of a file. Of a CSV every cell is text as it stands there, so that it is written again unchanged.

    Attributes:
        path: of the file.
        rows: one column for each of the file's, by the file's names; of an array (N, D) called a, a0 to a(D-1).
        delimiter: of a CSV, else empty.
        first_line: of a CSV the number of the line that has the first row, else 0.
    """

    path: Path
    rows: "pd.DataFrame"
    delimiter: str = ""
    first_line: int = 0
    _known: dict[str, _Numbers] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str | Path, *, blank_lines: bool = False) -> "RowFile":
        """Read a file, by its ending.

        Args:
            path: of the file.
            blank_lines: whether a line with nothing in it is a row without values; else it is left out.

        Raises:
            InputError: no such file, an ending that says nothing, a file that cannot be read as it says, or one
                without rows or with two columns of one name.
        """
        path = Path(path)
        _kind(path)
        if not path.is_file():
            raise InputError(f"no file {path}; give path=FILE, a table in {_wanted()}")
        state = path.stat()
        return cls._read(path, blank_lines, state.st_mtime_ns, state.st_size)

    @classmethod
    @lru_cache(maxsize=1)
    def _read(cls, path: Path, blank_lines: bool, changed: int, size: int) -> "RowFile":
        """Of a file that has not changed the rows are known: a table is looked at several times."""
        kind = _kind(path)
        try:
            if kind == "CSV":
                delimiter = _delimiter(path)
                rows, first_line = _csv(path, delimiter, blank_lines)
            else:
                delimiter, first_line = "", 0
                rows = {"Parquet": _parquet, "NumPy": _npz}[kind](path)
        except InputError:
            raise
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not in UTF-8; save it as such (in Excel: CSV UTF-8)") from error
        except Exception as error:  # a damaged file raises whatever its reader thinks of
            raise InputError(f"{path}: cannot be read as {kind}: {str(error).strip() or error!r}") from error
        if not len(rows):
            raise InputError(f"{path}: has no rows")
        return cls(path, rows, delimiter, first_line)

    def place(self, row: int) -> str:
        """Where a row (from 0) is, in words. Of a CSV it is the line, where `read` kept blank lines and no cell goes
        over several."""
        return f"line {self.first_line + row}" if self.first_line else f"row {row + 1}"

    @cached_property
    def names(self) -> list[str]:
        """Of the columns."""
        return [str(name) for name in self.rows.columns]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> "pd.Series[Any]":
        """One column as it stands in the file.

        Raises:
            InputError: no such column, with the nearest name.
        """
        if name not in self._places:
            said = str(unknown("column", name, self.names))
            others = "" if "known: " in said or len(self.names) > 20 else f" The columns are {', '.join(self.names)}"
            raise InputError(f"{self.path}: {said}{others}")
        return self.rows.iloc[:, self._places[name]]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where it has no value; true and false are 1 and 0.

        Raises:
            InputError: no such column, or text in it, with the row.
        """
        column = self.column(name)
        found, text = self._numbers(name)
        if text.any():
            row = int(text.argmax())
            raise InputError(
                f"{self.path}: column {name!r} has text in row {row + 1} ({str(column.iloc[row])[:40]!r}), and only "
                "numbers can be clustered; leave it out, or put numbers in its place"
            )
        return found

    def categories(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        """A column as text without blanks around it, and where it has no value.

        Raises:
            InputError: no such column.
        """
        import pandas as pd

        column = self.column(name)
        if pd.api.types.is_float_dtype(column):  # which whole numbers become beside those that are missing
            texts = pd.Series([f"{value:.15g}" for value in column.to_numpy(dtype=np.float64, na_value=np.nan)])
        else:
            texts = column.astype("str").str.strip()
        missing = column.isna().to_numpy(dtype=bool) | texts.str.lower().isin(_NO_CATEGORY).to_numpy(dtype=bool)
        return np.asarray(texts.tolist(), dtype=np.str_), missing

    def numeric(self, name: str) -> bool:
        """Whether a column has numbers, and no text."""
        found, text = self._numbers(name)
        return not text.any() and not bool(np.isnan(found).all())

    def _numbers(self, name: str) -> _Numbers:
        """Of a column, read once."""
        if name not in self._known:
            self._known[name] = _parsed(self.column(name), comma=self.delimiter not in ("", ","))
        return self._known[name]

    def check_output(self, path: str | Path, added: Sequence[str]) -> Path:
        """Where `save` may write: to be asked before the work is done.

        Raises:
            InputError: another ending than the file's, a column that is there already, the file itself, a folder that
                is not there or cannot be written to.
        """
        path = Path(path)
        kind = _kind(self.path)
        if _kind(path) != kind:
            endings = " or ".join(ENDINGS[kind])
            raise InputError(f"output={path}: the rows come out as they came in; give a name that ends with {endings}")
        if path.exists() and path.samefile(self.path):
            raise InputError(f"output={path}: is the table itself; give another name")
        if not path.parent.is_dir():
            raise InputError(f"output={path}: there is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"output={path}: the folder {path.parent} cannot be written to")
        self.check_added(added)
        return path

    def check_added(self, added: Sequence[str]) -> None:
        """That columns can be added.

        Raises:
            InputError: one is there already.
        """
        taken = [name for name in added if name in self.names]
        if taken:
            raise InputError(
                f"{self.path}: has a column {taken[0]!r} already, which would be added; give the table "
                "that it was made from, or call the column otherwise"
            )

    def save(self, path: str | Path, added: Mapping[str, NDArray[Any]]) -> Path:
        """Write the rows in the same order and format, with columns added on the right; in one step.

        Args:
            path: the file; see `check_output`.
            added: N values by name; NaN is written as no value.
        """
        path = self.check_output(path, list(added))
        partial = path.with_name(f".{os.getpid()}.partial.{path.name}")  # ends as the file does: writers look at that
        try:
            if _kind(path) == "NumPy":
                with np.load(self.path, allow_pickle=False) as arrays:
                    np.savez_compressed(partial, **dict(arrays), **added)  # type: ignore[arg-type]
            elif _kind(path) == "Parquet":
                self.rows.assign(**added).to_parquet(partial)
            else:
                self.rows.assign(**added).to_csv(partial, sep=self.delimiter, index=False, lineterminator="\n")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return path


def _kind(path: Path) -> str:
    kind = next((kind for kind, ends in ENDINGS.items() if path.name.lower().endswith(ends)), None)
    if kind is None:
        raise InputError(f"{path}: must be a table in {_wanted()}; from Excel, save it as CSV UTF-8")
    return kind


def _wanted() -> str:
    return ", ".join(f"{kind} ({', '.join(ends[:2])})" for kind, ends in ENDINGS.items())


def _open(path: Path) -> TextIO:
    if path.name.lower().endswith(".gz"):
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")


def _delimiter(path: Path) -> str:
    """The one that is most frequent in the line of names."""
    with _open(path) as file:
        first = next((line for line in file if line.strip()), "")
    return max(_DELIMITERS, key=first.count)


def _csv(path: Path, delimiter: str, blank_lines: bool) -> "tuple[pd.DataFrame, int]":
    """The rows, and the number of the line that has the first of them."""
    import pandas as pd

    with _open(path) as file:
        lines = enumerate(csv.reader(file, delimiter=delimiter))
        above, names = next(((above, row) for above, row in lines if any(row)), (0, []))
    _check_names(path, names)
    if not names:
        raise InputError(f"{path}: has no rows")
    if all(_is_number(name) for name in names):
        raise InputError(f"{path}: the first line has numbers, not names; put a line with the columns' names above it")
    with _open(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # what it warns of is that values are cut off
        try:
            rows = pd.read_csv(
                file,
                sep=delimiter,
                dtype=str,
                keep_default_na=False,
                index_col=False,
                skip_blank_lines=not blank_lines,
                header=above if blank_lines else 0,
            )
        except pd.errors.ParserWarning as error:
            raise InputError(
                f"{path}: has more values in a row than names in its first line, which are {len(names)}; "
                "give every column a name, and put nothing above the names"
            ) from error
    rows.columns = pd.Index(names)
    return rows, above + 2


def _parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    rows = pd.read_parquet(path)
    _check_names(path, [str(name) for name in rows.columns])
    return rows


def _npz(path: Path) -> "pd.DataFrame":
    import pandas as pd

    columns: list[tuple[str, NDArray[Any]]] = []
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays:
            array = arrays[name]
            if array.ndim == 2:
                columns += [(f"{name}{i}", array[:, i]) for i in range(array.shape[1])]
            elif array.ndim == 1:
                columns.append((name, array))
    lengths = {len(column) for _, column in columns}
    if len(lengths) != 1:
        raise InputError(f"{path}: must have arrays (N,) or (N, D) of one N, and has N = {sorted(lengths) or 'none'}")
    _check_names(path, [name for name, _ in columns])
    return pd.DataFrame(dict(columns))


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{path}: two columns are called {twice!r}; give each a name of its own")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(column: "pd.Series[Any]", *, comma: bool) -> _Numbers:
    """Numbers of a column, and where it has text. `comma`: 1,5 is a number too."""
    import pandas as pd

    if pd.api.types.infer_dtype(column, skipna=True) == "decimal":  # of databases
        column = pd.to_numeric(column)
    if pd.api.types.is_complex_dtype(column):
        return np.full(len(column), np.nan), np.ones(len(column), dtype=bool)
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        found = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return found, np.zeros(len(found), dtype=bool)
    if not pd.api.types.is_string_dtype(column):
        return np.full(len(column), np.nan), column.notna().to_numpy(dtype=bool)
    if len(column) > _HEAD and (text := _parsed(column.iloc[:_HEAD], comma=comma)[1]).any():
        return np.full(len(column), np.nan), np.pad(text, (0, len(column) - _HEAD))  # the first text is all it takes
    stripped = column.astype("str").str.strip()
    missing = (column.isna() | stripped.str.lower().isin(_NO_VALUE)).to_numpy(dtype=bool)
    found = pd.to_numeric(stripped, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    text = np.isnan(found) & ~missing
    if comma and text.any():
        point = pd.to_numeric(stripped[text].str.replace(",", "."), errors="coerce")
        found[text] = point.to_numpy(dtype=np.float64, na_value=np.nan)
        text = np.isnan(found) & ~missing
    return found, text
