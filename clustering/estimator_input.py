"""Validation of the data of an estimator: rows on a device, and known clusters of some of them."""

import datetime
import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor

from clustering.files.arrays import array_of_tensor, stacked
from clustering.files.tables import check_unique
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from clustering.lengths import ABOVE_TINY, unit_rows
from clustering.optimiser.alternation import Clamp

Device = Literal["cpu", "cuda", "auto"]
"""Where to compute; "auto" uses CUDA if it is available."""

_WHOLE = 1 << 24
"""Largest integer up to which float32 represents all of them."""
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def checked_rows(
    estimator: Any,
    X: ArrayLike,
    *,
    reset: bool,
    normalize: Literal["l2"] | None = None,
    device: Device = "cpu",
) -> Tensor:
    """(N, D) rows of X on the device, float32 or float64, normalised to unit norm with `normalize="l2"`.

    Args:
        estimator: estimator that sets the number and names of columns with `reset`, as in a fit, or is checked against
            them.
        X: (N, D) array, tensor, frame of pandas or table of Arrow. float32 and float64 are kept; objects, text, lists
            of floats, and integers that float32 cannot represent become float64, other numbers float32.
        reset: whether this is a fit.
        normalize: "l2" or None.
        device: where to put the rows.

    Raises:
        InputError: a fit has fewer rows than clusters; X is sparse, or contains dates or times; values are not finite,
            or their squares overflow or underflow; or the device is not available.
    """
    values = valid_rows(estimator, X, reset=reset)
    if reset and values.shape[0] < estimator.n_clusters:
        raise InputError(f"n_samples={values.shape[0]} should be >= n_clusters={estimator.n_clusters}")
    rows = torch.from_numpy(values).to(resolve_device(device))
    return unit_rows(rows) if normalize == "l2" else rows


def valid_rows(estimator: Any, X: ArrayLike, *, reset: bool, dtype: Any = None) -> NDArray[np.floating]:
    """(N, D) rows of X as a writable array, see `checked_rows`; of this dtype unless it is None."""
    X = as_array(X)
    if sparse.issparse(X) or (isinstance(X, pd.DataFrame) and hasattr(X, "sparse")):
        raise InputError(
            f"{type(estimator).__name__}: X is sparse, but dense rows are required; reduce it, as by TruncatedSVD"
        )
    check_no_dates(X)
    if isinstance(X, pd.DataFrame):
        check_unique([str(name) for name in X.columns], "Input X: ")
    from sklearn.utils.validation import validate_data  # slow to import

    kinds = float_kinds(X) if dtype is None else dtype
    values = validate_data(estimator, X, reset=reset, dtype=kinds, ensure_all_finite=False, order="C")
    bad = ~np.isfinite(values.sum(axis=1, dtype=np.float64))
    if bad.any():
        raise InputError(
            f"Input X contains NaN or infinity in row {int(bad.argmax())}; remove such rows or fill in the values"
        )
    check_squares(values)
    return values if values.flags.writeable else np.array(values)  # torch warns of read-only arrays


def as_array(values: Any) -> Any:
    """Tensors, lists of tensors, columns of lists and masked arrays (None where masked) as arrays; structured arrays,
    and tables of Arrow, or of a library that exports them, as frames of pandas.

    Other values are unchanged, among them frames, so that scikit-learn can check the names of their columns.

    Raises:
        InputError: a tensor is sparse or has no values, or rows have unequal lengths.
    """
    if isinstance(values, torch.Tensor):
        return array_of_tensor(values)
    if isinstance(values, np.ndarray) and values.dtype.names:
        values = pd.DataFrame({name: as_array(values[name]) for name in values.dtype.names})
    if isinstance(values, np.ma.MaskedArray):
        gaps = np.ma.getmaskarray(values)
        values = np.where(gaps, np.array(None), values.data) if gaps.any() else values.data
    if isinstance(values, np.ndarray) and values.dtype.kind == "T":
        values = values.astype(object)
    if is_arrow(values):
        import pyarrow as pa

        is_array = isinstance(values, (pa.Array, pa.ChunkedArray))
        values = (values if is_array else pa.table(values)).to_pandas(integer_object_nulls=True)
        values = values.to_numpy() if is_array else values
    column = values.iloc[:, 0] if isinstance(values, pd.DataFrame) and values.shape[1] == 1 else values
    if getattr(column, "ndim", 0) == 1 and len(column) and getattr(column.dtype, "kind", "") == "O":
        first = column.iloc[0] if hasattr(column, "iloc") else column[0]
        if isinstance(first, (list, np.ndarray)) and np.ndim(first) == 1:
            return stacked("", column)
        values = list(column) if isinstance(first, torch.Tensor) else values
    if isinstance(values, (list, tuple)) and any(isinstance(value, torch.Tensor) for value in values):
        if not all(getattr(value, "ndim", 0) == 1 for value in values):
            return [value.item() if isinstance(value, torch.Tensor) and not value.ndim else value for value in values]
        try:
            return array_of_tensor(torch.stack([torch.as_tensor(value) for value in values]))
        except RuntimeError as error:
            raise InputError("a list of tensors has rows of unequal lengths; give one tensor") from error
    return values


def check_no_gap(labels: NDArray[Any], name: str) -> None:
    """Raise InputError if labels (N,) have NaN, NaT or NA, or the text "nan", which numpy makes of NaN beside text."""
    gaps = labels == "nan" if labels.dtype.kind == "U" else np.asarray(pd.isna(labels))
    if gaps.any():
        raise InputError(f"{name}: {labels[gaps][0]!s} in row {int(gaps.argmax())} is no label; remove such rows")


def of_one_type(labels: Any, name: str) -> NDArray[Any]:
    """Labels that may be Python objects as an array of one type; text beside NaN would become the text "nan".

    Raises:
        InputError: they have several types.
    """
    if not of_objects(labels):
        return np.asarray(labels)
    items = [label.item() if isinstance(label, np.generic) else label for label in labels]
    kinds = {type(item) for item in items}
    if len(kinds) > 1 and not kinds <= {bool, int, float}:
        types = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{name} has labels of several types, {types}; give labels of one type")
    return np.array(items)


def of_objects(values: Any) -> bool:
    """Whether values are a list, or an array or column of Python objects, which may be of several types."""
    return isinstance(values, (list, tuple)) or getattr(getattr(values, "dtype", None), "kind", "") == "O"


def is_arrow(values: Any) -> bool:
    """Whether values are of pyarrow, or of a library of frames that exports them, such as polars."""
    if hasattr(values, "iloc"):
        return False
    return type(values).__module__.partition(".")[0] == "pyarrow" or hasattr(values, "__arrow_c_stream__")


def float_kinds(X: Any) -> list[type]:
    """The types to convert X to, as in `sklearn.utils.check_array`: the first one, unless X has another of them."""
    columns = [X.iloc[:, i] for i in range(X.shape[1])] if getattr(X, "ndim", 0) == 2 and hasattr(X, "iloc") else [X]
    for values in columns:
        listed = isinstance(values, (list, tuple))
        numbers = np.asarray(values) if listed else values
        dtype = getattr(numbers, "dtype", None)
        kind, size = getattr(dtype, "kind", ""), getattr(dtype, "itemsize", 0)
        if kind in ("O", "U", "T", "S") or (kind == "f" and (size > 8 or (listed and size == 8))):
            return [np.float64]  # scikit-learn would make float32 of them
        if kind in ("i", "u") and 0 not in numbers.shape and max(-int(numbers.min()), int(numbers.max())) > _WHOLE:
            return [np.float64]
    return [np.float32, np.float64]


def check_squares(values: NDArray[np.floating]) -> None:
    """Raise InputError if squares of finite values overflow, or if values are not all 0 but all squares underflow."""
    largest = float(max(-values.min(initial=0), values.max(initial=0)))
    if largest > np.sqrt(np.finfo(values.dtype).max) / 4e4:
        raise InputError(f"Input X has values whose squares exceed {values.dtype}; rescale its columns")
    check_not_vanishing(largest, values.dtype)


def check_not_vanishing(largest: float, dtype: Any) -> None:
    """Raise InputError if values are not all 0 but all of their squares underflow; `largest` is over all rows."""
    if 0 < largest < float(np.sqrt(np.finfo(dtype).tiny) * ABOVE_TINY):
        raise InputError(f"Input X has only values whose squares underflow in {np.dtype(dtype)}; rescale its columns")


def check_no_dates(X: Any, name: str = "Input X") -> None:
    """Raise InputError if an array, a list or a column of a frame contains dates or times.

    Converted to numbers, these would count days or nanoseconds, depending on how they are stored.
    """
    if getattr(X, "ndim", 0) == 2 and hasattr(X, "iloc"):  # a frame
        columns = [(f"{name}, column {column!r},", X.iloc[:, i]) for i, column in enumerate(X.columns)]
    else:
        columns = [(name, X)]
    for place, values in columns:
        kind = getattr(values, "dtype", None)
        if getattr(kind, "kind", "") in ("m", "M"):
            content = f"dates or times ({kind})"
        elif any(isinstance(value, _DATES) for value in _objects(values)):
            content = "dates or times"
        else:
            continue
        raise InputError(
            f"{place} contains {content}, which cannot be used as features; convert them to numbers, or remove them"
        )


def _objects(values: Any) -> Any:
    """The elements of an array of objects, or of the first row of a list."""
    if hasattr(values, "dtype"):
        return np.asarray(values).flat if getattr(values.dtype, "kind", "") == "O" else ()
    if not isinstance(values, (list, tuple)) or not len(values):
        return ()
    return values[0] if isinstance(values[0], (list, tuple, np.ndarray)) else values[:1]


def known_clusters(labels: ArrayLike | None, rows: Tensor, clusters: int) -> Clamp | None:
    """(mask (N,), labels (N,)) of the rows with known cluster.

    Args:
        labels: (N,) int, known clusters 0..K-1, and -1 for unlabelled points.
        rows: (N, D).
        clusters: K.

    Raises:
        InputError: the labels are invalid.
    """
    if labels is None:
        return None
    known = np.asarray(as_array(labels))
    if known.shape != (len(rows),) or not np.issubdtype(known.dtype, np.integer):
        description = f"an array of {known.dtype} of shape {known.shape}"
        raise InputError(f"partial_labels must be {len(rows)} integers, -1 where unknown, not {description}")
    if known.size and not -1 <= known.min() <= known.max() < clusters:
        raise InputError(f"partial_labels must be -1 or 0..{clusters - 1}, not {known.min()}..{known.max()}")
    tensor = torch.from_numpy(known.astype(np.int64)).to(rows.device)
    return tensor >= 0, tensor.clamp_min(0)


def warn_of_y(y: Any, known: Any, instead: str) -> None:
    """Warn if `y`, which clustering ignores, may have been meant as another argument.

    Args:
        y: `y` of a fit.
        known: the argument that may have been meant, None if it was not passed.
        instead: what y may have been meant as, and how to pass it.
    """
    if y is not None and known is None:
        warnings.warn(f"y is ignored; {instead}", stacklevel=5)


def warn_if_labels_are_y(y: Any, partial_labels: Any) -> None:
    """Warn if a fit receives y but no known labels."""
    warn_of_y(
        y, partial_labels, "if these are known labels, use fit(X, partial_labels=...) with -1 for unlabelled points"
    )
