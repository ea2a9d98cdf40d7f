"""Arrays by name: of .npy, .npz, .pt, .safetensors and .parquet files, of pandas' frames and of Arrow tables.

No code in a file is executed.
"""

import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import open_regular
from clustering.files.tables import check_unique
from clustering.foundation.errors import InputError, reason

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

ENDINGS = (".npy", ".npz", ".pt", ".pth", ".safetensors", ".parquet", ".pq")
UNREADABLE = (
    *(OSError, ValueError, EOFError, LookupError, NotImplementedError, RuntimeError, SyntaxError, TypeError),
    *(OverflowError, MemoryError, AttributeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)
"""Errors of damaged array files and archives; an encrypted one raises RuntimeError."""


class ArrayKind(NamedTuple):
    """What is known of an array before its values are converted.

    Attributes:
        letter: kind of its values, as in `numpy.dtype.kind`: f, i, u, b, U, S; O for objects and unreadable ones.
        shape: its shape; -1 for the length of lists in a column, which is known only after reading.
    """

    letter: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class NamedArrays:
    """Named arrays, whose values are converted when they are needed.

    Attributes:
        kinds: type and shape of each array by name; the name is empty if there is a single array without a name.
        read: gives the arrays of these names.
        table: whether the arrays are columns of a table: (N,), or (N, D) for a column of lists.
        index: names of columns that number or name the rows.
    """

    kinds: Mapping[str, ArrayKind]
    read: Callable[[Sequence[str]], Mapping[str, NDArray[Any]]]
    table: bool = False
    index: tuple[str, ...] = ()


def open_arrays(path: str | Path) -> NamedArrays:
    """The arrays of a file, in the format of its extension.

    Arrays have the stored precision and native byte order; bfloat16, which NumPy does not have, becomes float32. Lists
    of numbers or text in a dict of torch.save are arrays, too.

    Raises:
        InputError: the file is missing, damaged, or of another format, or it contains objects that require executing
            code. `read` raises it, too, for an array of objects. Not every message names the file.
        ImportError: pyarrow is not installed, which .parquet requires.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}; give a file of arrays")
    if suffix not in ENDINGS:
        raise InputError(f"{path}: arrays are read from {', '.join(ENDINGS)}; convert it")
    try:
        return _opened(path, suffix)
    except (ImportError, InputError):
        raise
    except Exception as error:  # what the libraries raise for a damaged file cannot be listed
        raise InputError(
            f"{path}: damaged, or not a {suffix} file ({_why(error)}); write or download it again"
        ) from error


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; object arrays, which can run code, are rejected.

    Raises:
        OSError: the file does not exist, or cannot be opened.
        ValueError: the file is damaged, or is not an archive of arrays.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            return {name: _member(archive, name) for name in archive.files}
    except OSError:
        raise
    except UNREADABLE as error:
        raise ValueError(_why(error)) from error


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The array in native byte order, and with at most 64 bits per number."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def array_of_tensor(tensor: "Tensor") -> NDArray[Any]:
    """The values of a tensor on the CPU, without gradient; bfloat16 and 8-bit floats become float32.

    Raises:
        InputError: the tensor is sparse, quantized or without values.
    """
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        raise InputError("a tensor is sparse, quantized or without values; save tensor.to_dense() or its dequantize()")
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    array: NDArray[Any] = tensor.cpu().resolve_conj().resolve_neg().contiguous().numpy()
    return array


def of_arrow(table: Any) -> NamedArrays:
    """The columns of a table, batch or stream of Arrow, or of another library's frame that exports it; an array or
    chunked array is a column with the name "".

    Raises:
        InputError: two columns have the same name. `read` raises it if lists of a column have unequal lengths, or
            values are missing.
    """
    import pandas as pd
    import pyarrow as pa

    table = pa.table({"": table} if isinstance(table, (pa.Array, pa.ChunkedArray)) else table)
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
        InputError: as in `of_arrow`.
    """
    columns = {str(name): _plain(frame.iloc[:, place]) for place, name in enumerate(frame.columns)}
    check_unique([str(name) for name in frame.columns])
    kinds = {name: _kind(column) for name, column in columns.items()}
    return NamedArrays(kinds, lambda names: {name: _of_column(name, columns[name]) for name in names}, True, index)


def _opened(path: Path, suffix: str) -> NamedArrays:
    if suffix in (".parquet", ".pq"):
        from pyarrow import parquet

        return of_arrow(parquet.ParquetFile(path).read())
    if suffix == ".safetensors":
        from clustering.files.tensors import read_any_tensors

        return of_mapping(read_any_tensors(path, "write or download it again"), array_of_tensor)
    if suffix in (".pt", ".pth"):
        return _of_torch(path)
    with open_regular(path) as file:
        if suffix == ".npy":
            array = _checked(np.lib.format.read_array(file, allow_pickle=False))
            return of_mapping({"": array})
        with np.load(file, allow_pickle=False) as archive:
            return of_mapping(dict.fromkeys(archive.files), lambda name: _member(archive, name), by_name=True)


def _of_torch(path: Path) -> NamedArrays:
    from torch import Tensor

    from clustering.files.torch_files import read_torch

    remedy = "save tensors (of arrays: torch.from_numpy) and lists of str, with torch.save({'features': ...}, FILE)"
    content = read_torch(path, "a file of tensors", remedy)
    if isinstance(content, Tensor):
        content = {"": content}
    elif isinstance(content, (list, tuple)):
        if len(content) > 2 and all(isinstance(row, Tensor) and row.ndim == 1 for row in content):
            raise InputError(f"contains a list of {len(content)} tensors; save one, torch.stack(rows)")
        content = dict(enumerate(content))
    if not isinstance(content, Mapping):
        raise InputError(f"contains a {type(content).__name__}, not tensors; {remedy}")

    def convert(value: Any) -> NDArray[Any]:
        if isinstance(value, Tensor):
            return array_of_tensor(value)
        flat = value if isinstance(value, (list, tuple)) else [value]
        if flat and any(all(isinstance(item, kind) for item in flat) for kind in ((int, float), str)):
            return np.array(value)
        raise InputError("is neither a tensor nor a list of numbers or text")

    return of_mapping({str(name): value for name, value in content.items()}, convert)


def of_mapping(
    values: Mapping[str, Any], convert: Callable[[Any], NDArray[Any]] = np.asarray, *, by_name: bool = False
) -> NamedArrays:
    """Arrays in memory by name. One that cannot be converted is of kind O, and an error only if it is used.

    Args:
        values: what `convert` makes arrays of.
        convert: gives the array of a value.
        by_name: whether `convert` takes the name instead of the value.
    """
    arrays: dict[str, NDArray[Any]] = {}
    refused: dict[str, Exception] = {}
    for name, value in values.items():
        try:
            arrays[name] = native(convert(name if by_name else value))
        except UNREADABLE as error:
            refused[name] = error

    def read(names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        for name in refused.keys() & set(names):
            raise InputError(
                f"{name!r} cannot be read ({_why(refused[name])}); save numbers with a float dtype, names with "
                "dtype=str"
            )
        return {name: arrays[name] for name in names}

    kinds = {name: ArrayKind(arrays[name].dtype.kind, arrays[name].shape) for name in arrays}
    return NamedArrays({name: kinds.get(name, ArrayKind("O", ())) for name in values}, read)


def _why(error: Exception) -> str:
    if "allow_pickle" in str(error):  # numpy recommends an option that runs the code in a file
        return "it contains pickled objects, which are not loaded"
    return reason(error)


def _member(archive: Any, name: str) -> NDArray[Any]:
    """An array of an archive, its checksum verified."""
    array = archive[name]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is not an array")
    return _checked(array)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    if not array.dtype.itemsize and array.size:
        raise ValueError("it has items of zero bytes, whose number is unlimited")
    return array


def _plain(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column without categories: their values."""
    return column.astype(object).infer_objects() if column.dtype == "category" else column


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


def _of_column(name: str, column: "pd.Series[Any]") -> NDArray[Any]:
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


def stacked(name: str, lists: Iterable[Any]) -> NDArray[Any]:
    """(N, D) array of N lists or arrays of D numbers."""
    rows: list[NDArray[Any]] = []
    for number, item in enumerate(lists):
        if item is None or isinstance(item, float):
            raise _missing(name, number)
        rows.append(np.asarray(item))
        if rows[-1].dtype.kind not in "fiu" or rows[-1].ndim != 1:
            raise InputError(f"column {name!r} has other values than a list of numbers in row {number}; remove them")
        if rows[-1].shape != rows[0].shape:
            raise InputError(
                f"{_called(name)}has lists of unequal length: {len(rows[0])} numbers in row 0, but {len(rows[-1])} in "
                f"row {number}; all rows need the features of one network"
            )
    return np.stack(rows)


def _missing(name: str, row: int) -> InputError:
    return InputError(f"{_called(name)}has a missing value in row {row}; remove the row, or fill in the value")


def _called(name: str) -> str:
    return f"column {name!r} " if name else ""
