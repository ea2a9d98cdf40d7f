"""What a data set is: points as rows, and where they are known, their classes."""

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError


class Dataset(NamedTuple):
    """Points, with what is known of them.

    Attributes:
        values: (N, D) float32, or a scipy CSR matrix of them; finite.
        labels: (N,) int64 classes 0..C-1, each with a point at least; None where no class is known.
        class_names: C names.
        columns: D names of what is measured, or none.
        picture: (height, width) where a row is a picture, channel by channel.
        channels: of such a picture: 1 grey, 3 RGB.
        names: of the points, where they have some: N files, say.
        told: (N,) bool, whether a point's class had a part in its values: nothing is judged by it; None where it is so
            of none.
        kept: (M,) bool, which rows of the file are points, in their order; None: all.
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


class Source(Protocol):
    """A frozen dataclass whose fields are its config; one small file each.

    Attributes:
        name: as in the table of data sets.
    """

    name: ClassVar[str]

    def source(self) -> str:
        """Identity of what the points are made from (16 hexadecimal digits), quick; where files lie does not enter.

        Raises:
            InputError: where files are missing; says what to put where.
        """
        ...

    def read(self) -> Dataset:
        """All points.

        Raises:
            InputError: for files that are missing or are not what they should be.
        """
        ...


def check(name: str, found: Dataset) -> Dataset:
    """The data set, once it is seen to be one.

    Raises:
        InputError: names the data set and what is wrong with it.
    """
    shape = found.values.shape
    if len(shape) != 2 or min(shape) < 1:
        raise InputError(
            f"dataset {name}: read gives values of shape {tuple(shape)}; rows of numbers (N, D) are needed"
        )
    sums = np.asarray(found.values.sum(axis=1, dtype=np.float64)).ravel()
    if not np.isfinite(sums).all():
        row = int(np.flatnonzero(~np.isfinite(sums))[0])
        raise InputError(f"dataset {name}: row {row} has a value that is NaN or infinite; leave such rows out")
    if found.labels is None:
        return found
    labels = found.labels
    if labels.shape != shape[:1] or labels.dtype != np.int64:
        raise InputError(
            f"dataset {name}: read gives {labels.dtype} labels {labels.shape}; int64 ({shape[0]},) are needed"
        )
    counts = np.bincount(labels, minlength=len(found.class_names)) if labels.min() >= 0 else np.zeros(1)
    if len(counts) != len(found.class_names) or not counts.all():
        raise InputError(
            f"dataset {name}: labels must be 0..{len(found.class_names) - 1}, each class with a point at least"
        )
    return found


def numbered(classes: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels 0..C-1 of class names or numbers as data have them, in their order, and the names."""
    names, labels = np.unique(classes, return_inverse=True)
    return labels.astype(np.int64), tuple(str(name) for name in names)
