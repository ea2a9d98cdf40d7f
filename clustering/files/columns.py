"""Columns of numbers, lists of numbers, or text as arrays: of Parquet files, Arrow tables and pandas' frames."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import ArrayKind, NamedArrays
from clustering.foundation import memory
from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def open_parquet(path: Path) -> NamedArrays:
    """The columns of a Parquet file.

    Raises:
        InputError: two columns have the same name. `read` raises it if lists of a column have unequal lengths, values
            are missing, or the arrays exceed the free memory.
        ImportError: pyarrow is not installed.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        counts = _counts(file.metadata)
    _check_names(schema.names)

    def read(names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        sizes = {name: 16.0 * sum(n for at, n in counts.items() if f"{at}.".startswith(f"{name}.")) for name in names}
        memory.require("reading it", sizes, "use a smaller file, or the .npy format")
        return of_arrow(parquet.read_table(path, columns=list(names))).read(names)

    kinds = {field.name: _kind(field.type, rows) for field in schema}
    return NamedArrays(kinds, read, True, _index_of(schema))


def of_arrow(table: Any) -> NamedArrays:
    """The columns of a table, batch or stream of Arrow, or of another library's frame that exports it; an array or
    chunked array is a column with the name "".

    Raises:
        InputError: as in `open_parquet`.
    """
    import pyarrow as pa

    table = pa.table({"": table} if isinstance(table, (pa.Array, pa.ChunkedArray)) else table)
    _check_names(table.schema.names)

    def read(names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        filled = {name: _Filled(name, table.num_rows) for name in names}
        for name in names:
            for chunk in table.column(name).chunks:
                filled[name].add(chunk)
        return {name: column.values() for name, column in filled.items()}

    kinds = {field.name: _kind(field.type, table.num_rows) for field in table.schema}
    return NamedArrays(kinds, read, True, _index_of(table.schema))


def of_frame(frame: "pd.DataFrame") -> NamedArrays:
    """The columns of a frame.

    Raises:
        InputError: as in `open_parquet`.
    """
    names = [str(name) for name in frame.columns]
    _check_names(names)
    places = {name: place for place, name in enumerate(names)}

    def read(wanted: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        return {name: _of_series(name, frame.iloc[:, places[name]]) for name in wanted}

    return NamedArrays({name: _series_kind(frame.iloc[:, place]) for name, place in places.items()}, read, True)


def stacked(name: str, lists: Iterable[Any]) -> NDArray[Any]:
    """(N, D) array of N lists or arrays of D numbers.

    Raises:
        InputError: a list is missing, the lists have unequal lengths, or contain other values than numbers.
    """
    rows: list[NDArray[Any]] = []
    for number, item in enumerate(lists):
        if item is None or isinstance(item, float):
            raise _missing(name, number)
        rows.append(np.asarray(item))
        if rows[-1].dtype.kind not in "fiu" or rows[-1].ndim != 1:
            raise InputError(f"column {name!r} has other values than a list of numbers in row {number}; remove them")
        if rows[-1].shape != rows[0].shape:
            raise _unequal(name, len(rows[0]), number, len(rows[-1]))
    return np.stack(rows)


class _Filled:
    """An array that is filled chunk by chunk."""

    def __init__(self, name: str, rows: int) -> None:
        self._name, self._rows, self._filled = name, rows, 0
        self._texts: list[NDArray[Any]] = []
        self._array: NDArray[Any] | None = None

    def add(self, chunk: Any) -> None:
        """Add the values of an Arrow array."""
        part = _values(chunk, self._name, self._filled)
        if part.dtype.kind == "U":
            self._texts.append(part)
        elif self._array is None:
            self._array = np.empty((self._rows, *part.shape[1:]), part.dtype)
        if self._array is not None:
            if part.shape[1:] != self._array.shape[1:]:
                raise _unequal(self._name, self._array.shape[1], self._filled, part.shape[1])
            self._array[self._filled : self._filled + len(part)] = part
        self._filled += len(part)

    def values(self) -> NDArray[Any]:
        """All values that were added."""
        if self._texts:
            return np.concatenate(self._texts)
        return np.empty(0, np.float32) if self._array is None else self._array[: self._filled]


def _values(array: Any, name: str, start: int) -> NDArray[Any]:
    """(N,) or (N, D) values of an Arrow array, whose first row has the number `start`."""
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise _missing(name, start + int(array.is_null().to_numpy(zero_copy_only=False).argmax()))
    if not _is_list(array.type):
        if _kind(array.type, 0).letter == "U":
            return np.array(array.to_pylist(), dtype=np.str_)
        return np.asarray(array.to_numpy(zero_copy_only=False))
    lengths = np.asarray(compute.list_value_length(array).to_numpy(zero_copy_only=False))
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        raise _unequal(name, int(lengths[0]), start + int(other[0]), int(lengths[other[0]]))
    numbers = array.flatten()
    width = int(lengths[0]) if len(lengths) else 0
    if numbers.null_count:
        place = int(numbers.is_null().to_numpy(zero_copy_only=False).argmax())
        raise _missing(name, start + place // width)
    return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(len(array), width)


def _missing(name: str, row: int) -> InputError:
    return InputError(f"{_column(name)}has a missing value in row {row}; remove the row, or fill in the value")


def _unequal(name: str, first: int, row: int, length: int) -> InputError:
    return InputError(
        f"{_column(name)}has lists of unequal length: {first} numbers in row 0, but {length} in row {row}; all rows "
        "need the features of one network"
    )


def _column(name: str) -> str:
    return f"column {name!r} " if name else ""


def _kind(of_type: Any, rows: int) -> ArrayKind:
    import pyarrow as pa

    if isinstance(of_type, pa.BaseExtensionType):
        of_type = of_type.storage_type
    if pa.types.is_dictionary(of_type):
        of_type = of_type.value_type
    if _is_list(of_type):
        inner = _kind(of_type.value_type, rows)
        size = of_type.list_size if pa.types.is_fixed_size_list(of_type) else -1
        return ArrayKind(inner.letter if inner.letter in "fi" and len(inner.shape) == 1 else "O", (rows, size))
    string = pa.types.is_string(of_type) or pa.types.is_large_string(of_type)
    letter = "f" if pa.types.is_floating(of_type) else "i" if pa.types.is_integer(of_type) else "O"
    return ArrayKind("U" if string else "b" if pa.types.is_boolean(of_type) else letter, (rows,))


def _is_list(of_type: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_list(of_type) or types.is_large_list(of_type) or types.is_fixed_size_list(of_type))


def _counts(metadata: Any) -> dict[str, int]:
    """Number of values by path of the column, according to the footer of a Parquet file."""
    counts: Counter[str] = Counter()
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        for place in range(columns.num_columns):
            counts[columns.column(place).path_in_schema] += columns.column(place).num_values
    return dict(counts)


def _index_of(schema: Any) -> tuple[str, ...]:
    """Columns that were the index of a frame of pandas."""
    try:
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):
        return ()
    return tuple(name for name in stored if isinstance(name, str))


def _check_names(names: Sequence[str]) -> None:
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"two columns are called {repeated!r}; give each column a unique name")


def _series_kind(column: "pd.Series[Any]") -> ArrayKind:
    import pandas as pd

    rows = (len(column),)
    if pd.api.types.is_bool_dtype(column):
        return ArrayKind("b", rows)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        return ArrayKind("f" if pd.api.types.is_float_dtype(column) else "i", rows)
    first = next((item for item in column if item is not None), None)
    if isinstance(first, str):
        return ArrayKind("U", rows)
    numbers = np.asarray(first) if isinstance(first, (list, tuple, np.ndarray)) else np.empty(0, dtype=object)
    return ArrayKind(numbers.dtype.kind.replace("u", "i"), (*rows, -1)) if numbers.ndim == 1 else ArrayKind("O", rows)


def _of_series(name: str, column: "pd.Series[Any]") -> NDArray[Any]:
    kind = _series_kind(column)
    if len(kind.shape) == 2:
        return stacked(name, column)
    missing = column.isna().to_numpy(dtype=bool)
    if kind.letter != "f" and missing.any():
        raise _missing(name, int(missing.argmax()))
    if kind.letter == "U":
        return np.array([str(item) for item in column], dtype=np.str_)
    dtype: Any = getattr(column.dtype, "numpy_dtype", column.dtype)
    return column.to_numpy(dtype=dtype, na_value=np.nan) if missing.any() else column.to_numpy(dtype=dtype)
