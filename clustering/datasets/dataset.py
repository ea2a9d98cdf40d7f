"""Points as rows, and their classes if these are known: what `read` of a data set returns.

A data set is a frozen dataclass whose fields are its config, with a class variable `name`. `source()` is a fast
fingerprint of the source of the points (16 hexadecimal digits), which does not depend on where files are. Both raise
InputError if files are missing; the message says which file belongs where.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError


class Dataset(NamedTuple):
    """Points, with whatever else is known about them.

    Attributes:
        values: (N, D) float32, finite; float64 where float32 would lose digits.
        labels: (N,) int64 classes 0..C-1, none empty; None if no class is known.
        class_names: C names.
        columns: D names of the columns, or none.
        picture: (height, width) if a row is an image, channel by channel.
        channels: number of image channels: 1 grey, 3 RGB.
        names: names of the points, such as N file names, or none.
        told: (N,) bool, whether the values of a point depend on its class, in which case it is not used for scores;
            None if no values do.
        kept: (M,) bool, which rows of the file are points, in order; None if all are.
    """

    values: Any
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    picture: tuple[int, int] | None = None
    channels: int = 1
    names: tuple[str, ...] = ()
    told: NDArray[np.bool_] | None = None
    kept: NDArray[np.bool_] | None = None


def check(name: str, dataset: Dataset) -> Dataset:
    """Return the data set if it is valid.

    Raises:
        InputError: the data set is invalid; the message names it and the reason.
    """
    shape = dataset.values.shape
    if len(shape) != 2 or min(shape) < 1:
        raise InputError(
            f"dataset {name}: read returned values of shape {tuple(shape)}, but (N, D) numbers are required"
        )
    sums = np.asarray(dataset.values.sum(axis=1, dtype=np.float64)).ravel()
    if not np.isfinite(sums).all():
        row = int(np.flatnonzero(~np.isfinite(sums))[0])
        raise InputError(f"dataset {name}: row {row + 1} has a value that is NaN or infinite; remove such rows")
    if dataset.labels is None:
        return dataset
    labels = dataset.labels
    if labels.shape != shape[:1] or labels.dtype != np.int64:
        raise InputError(
            f"dataset {name}: read returned {labels.dtype} labels of shape {labels.shape}, but int64 of shape "
            f"({shape[0]},) is required"
        )
    counts = np.bincount(labels, minlength=len(dataset.class_names)) if labels.min() >= 0 else np.zeros(1)
    if len(counts) != len(dataset.class_names) or not counts.all():
        raise InputError(
            f"dataset {name}: labels must be 0..{len(dataset.class_names) - 1}, each with at least one point"
        )
    return dataset


def numbered(classes: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..C-1 of class names or numbers in sorted order, and the names."""
    names, labels = np.unique(classes, return_inverse=True)
    return labels.astype(np.int64), tuple(str(name) for name in names)
