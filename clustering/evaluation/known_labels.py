"""Labels that are known of some points: drawn from a data set's own classes, or a person's, in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.files.tables import RowFile
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.streams import stream

if TYPE_CHECKING:
    import pandas as pd

_LABEL = ("label", "class", "cluster", "y", "target")
_ROW = ("row", "number", "point")
_FILE = ("file", "filename", "path", "name", "image", "picture")
FORM = (
    "lines of a row (from 1) or a file, and its label, under names as row,label or file,label; or one column of "
    "labels, a line for each point, empty where it is unknown"
)


class KnownLabels(NamedTuple):
    """What is known.

    Attributes:
        labels: (N,) int64, 0..C-1, -1 where unknown.
        class_names: C names.
    """

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]

    @property
    def known(self) -> NDArray[np.bool_]:
        """(N,) of which points."""
        return self.labels >= 0

    @property
    def classes(self) -> int:
        """Of how many classes a point is known."""
        return len(np.unique(self.labels[self.known]))

    @property
    def names_all(self) -> bool:
        """Whether every class has a known point: else some clusters have no name."""
        return self.classes == len(self.class_names)


def labels_of_some(classes: NDArray[np.int64], count: int, seed: int, *, evenly: bool = True) -> NDArray[np.int64]:
    """(N,) the classes of `count` random points, -1 of all others; those of fewer are among those of more.

    Args:
        classes: (N,) 0..C-1.
        count: 0..N.
        seed: of the draw.
        evenly: as many of each class, or one more, as far as it has them; else, after one of each, any points.
    """
    order = stream(seed, "known labels").permutation(len(classes))
    sizes = np.bincount(classes)
    turn = np.empty(len(classes), dtype=np.int64)  # how many of its class come before a point
    turn[np.argsort(classes[order], kind="stable")] = np.concatenate([np.arange(size) for size in sizes])
    chosen = order[np.argsort(turn if evenly else turn > 0, kind="stable")[:count]]
    labels = np.full(len(classes), -1, dtype=np.int64)
    labels[chosen] = classes[chosen]
    return labels


def drawn_labels(data: Dataset, count: int, seed: int, wrong: float = 0.0, *, evenly: bool = True) -> KnownLabels:
    """The classes of so many random points of a data set, see `labels_of_some`.

    Args:
        wrong: share of them, 0..1, that get a random class in the place of their own, which may come out again; those
            of a smaller share are among those of a larger, and get the same.

    Raises:
        InputError: data without classes, or with fewer points.
    """
    if data.labels is None:
        raise InputError(f"labels={count}: of these points no class is known; give labels=FILE.csv, {FORM}")
    if count >= len(data.labels):
        raise InputError(
            f"labels={count}: there are {len(data.labels):,} points, and some must be left to be clustered"
        )
    labels = labels_of_some(data.labels, count, seed, evenly=evenly)
    if wrong:
        rng = stream(seed, "wrong labels")
        chosen, others = rng.random(len(labels)) < wrong, rng.integers(0, len(data.class_names), len(labels))
        labels = np.where((labels >= 0) & chosen, others, labels)
    return KnownLabels(labels, data.class_names)


def drawn_coarse_labels(data: Dataset, names: Sequence[str], known: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """(N,) of a random half of the points whether their class is one of these, 0 or 1; -1 of the others.

    Points whose class is `known` (N,) are told besides.

    Raises:
        InputError: data without classes, names that are no classes, or all of them.
    """
    if data.labels is None:
        raise InputError(f"coarse=[{', '.join(names)}]: of these points no class is known; leave coarse out")
    for name in names:
        if name not in data.class_names:
            raise InputError(f"coarse: {unknown('class', name, data.class_names)}")
    if not 0 < len(set(names)) < len(data.class_names):
        raise InputError(f"coarse=[{', '.join(names)}] must name some classes, and leave some out")
    points = len(data.labels)
    told = known.copy()
    told[stream(seed, "coarse labels").permutation(points)[: points // 2]] = True
    inside = np.isin(data.labels, [data.class_names.index(name) for name in names])
    return np.where(told, inside.astype(np.int64), -1)


def read_labels(path: str | Path, data: Dataset) -> KnownLabels:
    """The labels of a file (CSV, Parquet, NumPy), for the points of a data set.

    Where the data set has classes the labels are names of these; else they are the classes, in alphabetical order.

    Raises:
        InputError: no such file, no label in it, a row or file that is not there or that has two labels, a class that
            the data set does not have; names the line.
    """
    file = RowFile.read(path, blank_lines=True)
    places, names = _places(file, data)
    if not any(names):
        raise InputError(f"{file.path}: has no label; it needs {FORM}")
    given: dict[int, tuple[int, str]] = {}
    for row, (place, name) in enumerate(zip(places, names, strict=True)):
        if not name:
            continue
        before = given.setdefault(place, (row, name))
        if before[1] != name:
            raise InputError(
                f"{file.path}: {file.place(before[0])} and {file.place(row)} are of the same point, with labels "
                f"{before[1]!r} and {name!r}; take one out"
            )
    classes = data.class_names or tuple(sorted({name for _, name in given.values()}))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = np.full(_rows(data), -1, dtype=np.int64)
    for place, (row, name) in given.items():
        if name not in numbers:
            raise InputError(
                f"{file.path}: {file.place(row)}: {unknown('class', name, classes)}. The data set has classes of its "
                "own (a table's column label=, the sub-folders of pictures): give labels by these names, or leave its "
                "classes out"
            )
        labels[place] = numbers[name]
    if data.kept is not None:  # a row that is no point needs no label
        labels = labels[data.kept]
        if (labels < 0).all():
            raise InputError(f"{file.path}: has labels only of rows that lack a value; give some of other rows")
    if (labels >= 0).all():
        raise InputError(f"{file.path}: every point has a label, so that none is left to be clustered")
    return KnownLabels(labels, classes)


def _places(file: RowFile, data: Dataset) -> tuple[list[int], list[str]]:
    """Which point each line is of, and its label, empty where there is none; a blank line is of any."""
    count, columns = _rows(data), {name.strip().lower(): name for name in file.names}
    label = next((columns[name] for name in _LABEL if name in columns), None)
    if len(columns) == 1:
        labels = _texts(file.column(file.names[0]))
        if len(labels) < count or any(labels[count:]):  # blank lines at the end of a file are nothing
            raise InputError(
                f"{file.path}: one column, of {len(labels):,} lines, for {count:,} points; it needs {FORM}"
            )
        return list(range(count)), labels[:count]
    if label is None:
        raise InputError(f"{file.path}: has columns {', '.join(file.names)}, and none is called label; it needs {FORM}")
    labels = _texts(file.column(label))
    rows = next((columns[name] for name in _ROW if name in columns), None)
    if rows is not None:
        texts = _texts(file.column(rows))
        return [
            _place(file, row, text, count) if text or label else 0
            for row, (text, label) in enumerate(zip(texts, labels, strict=True))
        ], labels
    name = next((columns[name] for name in _FILE if name in columns), None)
    if name is None:
        raise InputError(
            f"{file.path}: has columns {', '.join(file.names)}, and none is called row or file; it needs {FORM}"
        )
    if not data.names:
        raise InputError(f"{file.path}: column {name!r} names files, and these points are none; it needs a column row")
    numbers = {found: number for number, found in enumerate(data.names)}
    places = []
    for number, (text, label) in enumerate(zip(_texts(file.column(name)), labels, strict=True)):
        text = text.removeprefix("./")  # before a name that a spreadsheet would calculate
        if text not in numbers and (text or label):
            raise InputError(f"{file.path}: {file.place(number)}: {unknown('file', text, data.names)}")
        places.append(numbers.get(text, 0))
    return places, labels


def _rows(data: Dataset) -> int:
    """Of the file that the points come from."""
    return int(data.values.shape[0]) if data.kept is None else len(data.kept)


def _place(file: RowFile, row: int, text: str, count: int) -> int:
    """The point that a row of the file says, counted there from 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (number.is_integer() and 1 <= number <= count):
        raise InputError(f"{file.path}: {file.place(row)}: row {text!r} is none of 1..{count}")
    return int(number) - 1


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Its cells as text; 3.0 is 3, as it is where gaps made numbers of a column."""
    found = []
    for value, present in zip(column.tolist(), column.notna().tolist(), strict=True):
        whole = isinstance(value, float) and present and value.is_integer()
        found.append((str(int(value)) if whole else str(value)).strip() if present else "")
    return found
