"""Columns of numbers, lists of numbers, or text as arrays: of pandas' frames, Arrow tables and Parquet files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.arrays import ArrayKind, NamedArrays
from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def open_parquet(path: Path) -> NamedArrays:
    """The columns of a Parquet file, which are read at once.

    Raises:
        InputError: two columns have the same name. `read` raises it if lists of a
            column have unequal lengths, or values are missing.
        ImportError: pyarrow is not installed.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return of_arrow(file.read())


def of_arrow(table: Any) -> NamedArrays:
    """The columns of a table, batch or stream of Arrow, or of another library's frame that exports it; an array or
    chunked array is a column with the name "".

    Raises:
        InputError: as in `open_parquet`.
    """
    import pandas as pd
    import pyarrow as pa

    table = pa.table({"": table} if isinstance(table, (pa.Array, pa.ChunkedArray)) else table)
    _check_names(table.schema.names)
    try:
        stored = (table.schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):
        stored = []
    nullable = {pa.bool_(): pd.BooleanDtype(), pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
    frame = table.replace_schema_metadata(None).to_pandas(types_mapper=nullable.get)
    return of_frame(frame, tuple(name for name in stored if isinstance(name, str)))


def of_frame(frame: "pd.DataFrame", index: tuple[str, ...] = ()) -> NamedArrays:
    """The columns of a frame.

    Args:
        frame: the frame.
        index: names of columns that number or name the rows.

    Raises:
        InputError: as in `open_parquet`.
    """
    names = [str(name) for name in frame.columns]
    _check_names(names)
    places = {name: place for place, name in enumerate(names)}

    def read(wanted: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        return {name: _of_series(name, frame.iloc[:, places[name]]) for name in wanted}

    return NamedArrays({name: _kind(frame.iloc[:, place]) for name, place in places.items()}, read, True, index)


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
            raise InputError(
                f"{_column(name)}has lists of unequal length: {len(rows[0])} numbers in row 0, but {len(rows[-1])} in "
                f"row {number}; all rows need the features of one network"
            )
    return np.stack(rows)


def _missing(name: str, row: int) -> InputError:
    return InputError(f"{_column(name)}has a missing value in row {row}; remove the row, or fill in the value")


def _column(name: str) -> str:
    return f"column {name!r} " if name else ""


def _check_names(names: Sequence[str]) -> None:
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"two columns are called {repeated!r}; give each column a unique name")


def _kind(column: "pd.Series[Any]") -> ArrayKind:
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
    kind = _kind(column)
    if len(kind.shape) == 2:
        return stacked(name, column)
    missing = column.isna().to_numpy(dtype=bool)
    if kind.letter != "f" and missing.any():
        raise _missing(name, int(missing.argmax()))
    if kind.letter == "U":
        return np.array([str(item) for item in column], dtype=np.str_)
    dtype: Any = getattr(column.dtype, "numpy_dtype", column.dtype)
    return column.to_numpy(dtype=dtype, na_value=np.nan) if missing.any() else column.to_numpy(dtype=dtype)
