"""Features, labels and class names among the arrays of a file, or the columns of a table.

What is not obvious is asked for: features are the array `features`, or the only one of shape (N, D); in a table, the
only column of lists, or all columns if all are floats. Labels are called `labels` or `label`.
"""

import contextlib
import fnmatch
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.estimator_input import as_array, is_arrow, of_one_type
from clustering.files import words
from clustering.files.arrays import NamedArrays, native, of_arrow, of_frame, of_mapping, open_arrays
from clustering.foundation.errors import InputError, unknown

FEATURES = ("features",)
LABELS = ("labels", "label")
NAMES = ("class_names", "class_name", "name")
NOT_FEATURES = frozenset((*LABELS, *NAMES, "text", "base_mean", "logit_scale", "prompts"))
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_features(
    given: Any, column: str | None = None, *, option: str = "column", name: str = "features"
) -> NDArray[Any]:
    """(N, D) features of pictures or texts, in their stored precision.

    Args:
        given: a file (.npy, .npz, .pt, .pth, .safetensors or .parquet; its `text`, if it has no others); or an array,
            tensor, frame of pandas, or table or array of Arrow.
        column: name of the array or column; for columns of numbers a pattern, such as "emb_*". None: see the module.
        option: how a user gives `column`, for messages.
        name: what the features are, for messages, unless they are a file.

    Raises:
        InputError: the file cannot be read, see `open_arrays`; no array, or several, could be meant; or the array does
            not contain numbers of shape (N, D).
    """
    is_file = isinstance(given, (str, Path))
    with naming(given if is_file else name):
        arrays, known = (open_arrays(given), (*FEATURES, "text")) if is_file else (named_arrays(given), FEATURES)
        return pick_features(arrays, column, option, known)


def read_labels(given: Any, column: str | None = None, name: str = "labels") -> NDArray[Any]:
    """(N,) labels: integers or names.

    Args:
        given: as in `read_features`; also a file of text, .txt with one label a line, or .csv, or a list.
        column: name of the array or column. None: the only one, or `labels` or `label`.
        name: what the labels are, for messages, unless they are a file.

    Raises:
        InputError: the file cannot be read; no array, or several, could be meant; or labels are missing or of several
            types.
    """
    is_file = isinstance(given, (str, Path))
    if is_file and Path(given).suffix.lower() in words.ENDINGS:
        texts = words.read_words(Path(given), LABELS, column, "label_column")
        integers = all(_INTEGER.fullmatch(text) for text in texts)  # 007 is a name
        return np.array([int(text) for text in texts], dtype=np.int64) if integers else np.array(texts, dtype=np.str_)
    given = as_array(given)
    if isinstance(given, (list, tuple)):
        given = np.array(given, dtype=object)  # or else NaN beside names would become the name "nan"
    with naming(given if is_file else name):
        arrays = open_arrays(given) if is_file else named_arrays(given)
        label = label_name(arrays, LABELS, column, "label_column")
        if label is None:
            vectors = [key for key, kind in arrays.kinds.items() if len(kind.shape) == 1 and key not in arrays.index]
            if len(vectors) != 1 and "" not in arrays.kinds:
                raise InputError(f"contains {listed(arrays)}; which of them are labels? Choose with label_column=NAME")
            label = "" if "" in arrays.kinds else vectors[0]
        return of_one_type(arrays.read([label])[label], name)


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """The class names of a file of text, one a line in .txt, or in a column of a .csv.

    Raises:
        InputError: the file cannot be read, or has no names.
    """
    path = Path(path)
    if path.suffix.lower() not in words.ENDINGS:
        raise InputError(f"{path}: class names are read from {', '.join(words.ENDINGS)}; write them to a .txt")
    return tuple(words.read_words(path, NAMES))


def as_vector(values: Any, name: str) -> NDArray[Any]:
    """Numbers of an array, tensor, list, column of pandas or array of Arrow as an array.

    Raises:
        InputError: they are not numbers.
    """
    with naming(name):
        arrays = named_arrays(values)
        vector = next(iter(arrays.read(list(arrays.kinds)[:1]).values()))
        if vector.dtype.kind not in "fiu":
            raise InputError(f"{name} must be numbers, not {vector.dtype}")
        return vector


def as_rows(values: Any, name: str) -> Any:
    """Values as by `clustering.estimator_input.as_array`, and a frame with a column of lists as an array (N, D).

    Raises:
        InputError: as in `read_features`.
    """
    with naming(name):
        values = as_array(values)
    lists = hasattr(values, "iloc") and any(
        isinstance(item, (list, tuple, np.ndarray)) for item in np.asarray(values.iloc[:1]).ravel()
    )
    return read_features(values, name=name) if lists else values


def named_arrays(values: Any) -> NamedArrays:
    """The columns of a frame or table by name; other values are one array with the name "".

    Raises:
        InputError: two columns have the same name, or the rows of a list have unequal lengths.
    """
    if hasattr(values, "iloc"):
        return of_frame(values if values.ndim == 2 else values.to_frame(""))
    if is_arrow(values):
        return of_arrow(values)
    try:
        return of_mapping({"": np.asarray(as_array(values))})
    except InputError:
        raise
    except ValueError as error:
        raise InputError("the rows have unequal lengths; give an array with one row per picture or name") from error


def pick_features(
    arrays: NamedArrays,
    column: str | None = None,
    option: str = "column",
    known: Sequence[str] = FEATURES,
    label: str | None = None,
) -> NDArray[Any]:
    """(N, D) features among arrays.

    Args:
        arrays: the arrays.
        column: name or pattern; None: see the module.
        option: how a user gives `column`, for messages.
        known: names of features; the first that exists is used.
        label: column of labels, which are no features; None: those of the known names.

    Raises:
        InputError: no array, or several, could be meant, or it does not contain numbers of shape (N, D).
    """
    kinds = arrays.kinds
    if column is not None:
        names = [column] if column in kinds else fnmatch.filter(kinds, column)
        if not names:
            raise _unknown(arrays, column, option)
    else:
        label = label or label_name(arrays, LABELS, None, option)
        others = {label, *arrays.index, *(() if arrays.table else NOT_FEATURES)}
        numbers = [name for name, kind in kinds.items() if kind.letter in "fiu" and name not in others]
        matrices = [name for name in numbers if len(kinds[name].shape) == 2]
        floats = numbers if arrays.table and all(kinds[name].letter == "f" for name in numbers) else []
        named = [name for name in ("", *known) if name in (matrices if arrays.table and name else kinds)]
        names = named[:1] or matrices or floats
        if not names or (len(names) > 1 and names == matrices):
            raise InputError(
                f"contains {listed(arrays)}; which are the features? Choose an array or column of lists with "
                f"{option}=NAME, or columns of numbers with {option}=PATTERN, such as emb_*"
            )
    values = list(arrays.read(names).values())
    if arrays.table and all(array.ndim == 1 for array in values):
        other = [name for name, array in zip(names, values, strict=True) if array.dtype.kind not in "fiu"]
        if other:
            raise InputError(f"{_some(other)} cannot be features, because they are not numbers; choose other columns")
        values = [np.column_stack(values)]
    if len(values) > 1:
        raise InputError(f"{option}={column} stands for several arrays, {_some(names)}; give the name of one")
    features = values[0]
    if features.ndim != 2 or features.dtype.kind not in "fiu" or not features.size:
        raise InputError(f"features must be numbers of shape (N, D), not {features.dtype} {features.shape}")
    # the order of a sum of squares must not depend on the file, and torch warns of read-only arrays
    return np.require(native(features), requirements=["C", "W"])


def label_name(arrays: NamedArrays, known: Sequence[str], column: str | None, option: str) -> str | None:
    """Name of the labels among arrays: `column`, or the first known one; None if there are none.

    Raises:
        InputError: the column does not exist, or several columns could be meant; the message names `option`.
    """
    if column is not None and column not in arrays.kinds:
        raise _unknown(arrays, column, option)
    names = [name for name in known if name in arrays.kinds]
    if column is None and arrays.table and len(names) > 1:
        raise InputError(f"{_some(names)} could be the labels; choose with {option}=NAME")
    return column if column is not None else next(iter(names), None)


def decoded(names: NDArray[Any]) -> NDArray[Any]:
    """Decode byte strings, as written by Python 2; other arrays are returned unchanged."""
    if names.dtype.kind != "S":
        return names
    try:
        return np.char.decode(names, "utf-8")
    except UnicodeDecodeError:  # replacing letters could make two names equal
        return np.char.decode(names, "latin1")


def listed(arrays: NamedArrays) -> str:
    """The names of arrays in words."""
    return "a single array" if "" in arrays.kinds else _some(list(arrays.kinds)) or "nothing"


@contextlib.contextmanager
def naming(place: str | Path) -> Iterator[None]:
    """Name the file or argument in errors that do not."""
    try:
        yield
    except InputError as error:
        raise error if str(error).startswith(str(place)) else InputError(f"{place}: {error}") from error


def _unknown(arrays: NamedArrays, column: str, option: str) -> InputError:
    if "" in arrays.kinds:
        return InputError(f"contains a single array, so {option}={column} has no effect; omit it")
    return unknown("column", column, arrays.kinds)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:4])}, ... {names[-1]} ({len(names)})"
