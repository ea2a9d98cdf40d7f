"""What is known of some points, drawn from the classes of a data set or read from a user's file: labels, and pairs that
share a cluster or not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.constraints import constraints
from clustering.datasets.dataset import Dataset
from clustering.files.cells import NO_CATEGORY
from clustering.files.tables import TableFile, read_table
from clustering.files.words import plain_name
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.streams import stream

_LABEL = ("label", "class", "cluster", "y", "target")
_ROW = ("row", "number", "point")
_ID = ("id", "item")
_FILE = ("file", "filename", "path", "name", "image", "picture", *_ID)
FORM = (
    "columns row,label (rows counted from 1), id,label (from 0) or file,label; or a single column with the label of "
    "each point, empty if unknown"
)


class KnownLabels(NamedTuple):
    """Known labels.

    Attributes:
        labels: (N,) int64, 0..C-1, -1 where unknown.
        class_names: C names.
    """

    labels: NDArray[np.int64]
    class_names: tuple[str, ...]

    @property
    def known(self) -> NDArray[np.bool_]:
        """(N,) mask of labelled points."""
        return self.labels >= 0

    @property
    def classes(self) -> int:
        """Number of classes with a labelled point."""
        return len(np.unique(self.labels[self.known]))

    @property
    def names_all(self) -> bool:
        """Whether every class has a labelled point; otherwise some clusters have no name."""
        return self.classes == len(self.class_names)


def labels_of_some(classes: NDArray[np.int64], count: int, seed: int, *, evenly: bool = True) -> NDArray[np.int64]:
    """(N,) the classes of `count` random points, -1 for all others; a smaller count gives a subset of a larger one.

    Args:
        classes: (N,) 0..C-1.
        count: 0..N.
        seed: seed of the draw.
        evenly: whether to draw equally many of each class, up to one and as far as available; otherwise one of each
            class and then any points.
    """
    order = stream(seed, "known labels").permutation(len(classes))
    sizes = np.bincount(classes)
    turn = np.empty(len(classes), dtype=np.int64)  # rank of each point within its class
    turn[np.argsort(classes[order], kind="stable")] = np.concatenate([np.arange(size) for size in sizes])
    chosen = order[np.argsort(turn if evenly else turn > 0, kind="stable")[:count]]
    labels = np.full(len(classes), -1, dtype=np.int64)
    labels[chosen] = classes[chosen]
    return labels


def drawn_labels(data: Dataset, count: int, seed: int, wrong: float = 0.0, *, evenly: bool = True) -> KnownLabels:
    """The classes of `count` random points of a data set, see `labels_of_some`.

    Args:
        data: the data set.
        count: number of labelled points.
        seed: seed of the draw.
        wrong: share of the labels, 0..1, that are replaced by random classes, possibly the true ones; a smaller share
            changes a subset of those of a larger one, in the same way.
        evenly: as in `labels_of_some`.

    Raises:
        InputError: the data set has no classes or too few points.
    """
    if data.labels is None:
        raise InputError(f"labels={count}: the classes of these points are unknown; set labels=FILE.csv, {FORM}")
    if count >= len(data.labels):
        raise InputError(f"labels={count}: there are {len(data.labels):,} points, and some must remain unlabelled")
    labels = labels_of_some(data.labels, count, seed, evenly=evenly)
    if wrong:
        rng = stream(seed, "wrong labels")
        chosen, others = rng.random(len(labels)) < wrong, rng.integers(0, len(data.class_names), len(labels))
        labels = np.where((labels >= 0) & chosen, others, labels)
    return KnownLabels(labels, data.class_names)


def drawn_coarse_labels(data: Dataset, names: Sequence[str], known: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """(N,) coarse labels of a random half of the points: 1 if the class is one of `names`, else 0; -1 for the other
    points.

    Points with `known` class (N,) get coarse labels as well.

    Raises:
        InputError: the data set has no classes, a name is not a class, or all classes are named.
    """
    if data.labels is None:
        raise InputError(f"coarse=[{', '.join(names)}]: the classes of these points are unknown; remove coarse")
    for name in names:
        if name not in data.class_names:
            raise InputError(f"coarse: {unknown('class', name, data.class_names)}")
    if not 0 < len(set(names)) < len(data.class_names):
        raise InputError(f"coarse=[{', '.join(names)}] must name some, but not all classes")
    points = len(data.labels)
    chosen = known.copy()
    chosen[stream(seed, "coarse labels").permutation(points)[: points // 2]] = True
    inside = np.isin(data.labels, [data.class_names.index(name) for name in names])
    return np.where(chosen, inside.astype(np.int64), -1)


class KnownLinks(NamedTuple):
    """Known links.

    Attributes:
        must_link: (p, 2) row numbers of pairs in the same class.
        cannot_link: (q, 2) row numbers of pairs in different classes.
    """

    must_link: NDArray[np.int64]
    cannot_link: NDArray[np.int64]


def drawn_links(labels: NDArray[Any], count: int, seed: int) -> KnownLinks:
    """The true relations of `count` distinct random pairs.

    Up to a quarter of all pairs, a smaller count gives a subset of a larger one.

    Args:
        labels: (N,) classes.
        count: number of pairs, at most N (N - 1) / 2.
        seed: seed of the draw.

    Raises:
        InputError: there are fewer pairs than `count`.
    """
    points = len(labels)
    available = points * (points - 1) // 2
    if count > available:
        raise InputError(f"links={count}: {points:,} points have {available:,} pairs; set links to at most {available}")
    if available <= 4 * count or available <= 100_000:
        chosen = stream(seed, "known links").permutation(available)[:count]
    else:  # draws few of many pairs without listing all
        drawn = stream(seed, "known links").integers(available, size=4 * count)
        _, first = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(first)][:count]
    # Pair number i (i - 1) / 2 + j consists of i and j < i.
    larger = ((1 + np.sqrt(1 + 8 * chosen.astype(np.float64))) / 2).astype(np.int64)
    larger -= larger * (larger - 1) // 2 > chosen  # corrects rounding up
    larger += larger * (larger + 1) // 2 <= chosen
    pairs = np.stack([chosen - larger * (larger - 1) // 2, larger], axis=1)
    alike = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return KnownLinks(pairs[alike], pairs[~alike])


def with_implied_labels(known: KnownLabels, links: KnownLinks) -> KnownLabels:
    """Known labels and links, with labels propagated to all points linked with labelled ones, directly or indirectly.

    Raises:
        InputError: links contradict labels or each other, or the labels of all points follow.
    """
    joined, separated = links
    labels = constraints(len(known.labels), labels=known.labels, must_link=joined, cannot_link=separated).labels
    if (labels >= 0).all():
        raise InputError(
            f"links={len(joined) + len(separated)}: the labels of all {len(labels):,} points follow from these and the "
            f"{int(known.known.sum()):,} known ones, so there is none to cluster; set fewer links or labels"
        )
    return known._replace(labels=labels)


def read_labels(path: str | Path, data: Dataset) -> KnownLabels:
    """Read the labels of the points of a data set from a file (CSV, Parquet).

    If the data set has classes, the labels must be names of these; otherwise the labels are the classes, in
    alphabetical order.

    Raises:
        InputError: there is no such file, or no label in it; a row or file does not exist or has two labels; or a label
            is not a class of the data set. The message names the line.
    """
    file, entries = labelled_points(path, data)
    if not entries:
        raise InputError(f"{file.path}: has no label; required are {FORM}")
    classes = data.class_names or tuple(sorted({name for _, name in entries.values()}))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = np.full(_rows(data), -1, dtype=np.int64)
    for place, (row, name) in entries.items():
        if name not in numbers:
            raise InputError(
                f"{file.path}: {file.place(row)}: {unknown('class', name, classes)}. The data set has its own "
                "classes (a table's column label=, the sub-folders of pictures): use their names as labels, or "
                "disable them"
            )
        labels[place] = numbers[name]
    if data.kept is not None:  # dropped rows need no label
        labels = labels[data.kept]
        if (labels < 0).all():
            raise InputError(f"{file.path}: has labels only for rows that lack a value; add labels of other rows")
    if (labels >= 0).all():
        raise InputError(f"{file.path}: every point has a label, so there is none to cluster")
    return KnownLabels(labels, classes)


def labelled_points(path: str | Path, data: Dataset) -> tuple[TableFile, dict[int, tuple[int, str]]]:
    """Read a file of labels (CSV, Parquet): the file, and by point the row of the file and the label.

    Raises:
        InputError: see `read_labels`.
    """
    file = read_table(path, blank_lines=True)
    places, names = _places(file, data)
    entries: dict[int, tuple[int, str]] = {}
    for row, (place, name) in enumerate(zip(places, names, strict=True)):
        if not name:
            continue
        if name.lower() in NO_CATEGORY and name not in data.class_names:
            raise InputError(f"{file.path}: {file.place(row)}: the label {name!r} may mean none; clear the cell")
        before = entries.setdefault(place, (row, name))
        if before[1] != name:
            raise InputError(
                f"{file.path}: {file.place(before[0])} and {file.place(row)} are the same point, with labels "
                f"{before[1]!r} and {name!r}; remove one"
            )
    return file, entries


def _places(file: TableFile, data: Dataset) -> tuple[list[int], list[str]]:
    """The point of each line, and its label, empty if there is none; a blank line can be any point."""
    count, columns = _rows(data), {name.strip().lower(): name for name in file.names}

    def column(names: Sequence[str]) -> list[str] | None:
        name = next((columns[name] for name in names if name in columns), None)
        return None if name is None else np.where(file.column(name).isna(), "", file.cells(name).texts).tolist()

    if len(columns) == 1:
        labels = column(list(columns)) or []
        if len(labels) < count or any(labels[count:]):  # ignores blank lines at the end of a file
            raise InputError(
                f"{file.path}: one column with {len(labels):,} lines, for {count:,} points; required are {FORM}"
            )
        return list(range(count)), labels[:count]
    given, rows, files, first = column(_LABEL), column(_ROW), column(_FILE), 1
    if rows is None and not data.names and not columns.keys().isdisjoint(_ID):
        rows, first = column(_ID), 0
    points = rows if rows is not None else files
    if given is None or points is None:
        raise InputError(f"{file.path}: has columns {', '.join(file.names)}; required are {FORM}")
    if rows is None and not data.names:
        raise InputError(f"{file.path}: names files, but these points are not files; use a column row")
    numbers = {
        name: place for place, name in enumerate(data.names if rows is None else map(str, range(first, first + count)))
    }
    plain: dict[str, int] = {}
    for name, place in numbers.items():
        plain[plain_name(name)] = place if plain_name(name) not in plain else -1
    places = []
    for line, (text, label) in enumerate(zip(points, given, strict=True)):
        place = numbers.get(text, plain.get(plain_name(text), -1))
        if place < 0 and (text or label):
            wrong = (
                unknown("file", text, data.names)
                if rows is None
                else f"row {text!r} is not one of {first}..{first + count - 1}; row counts from 1, id from 0"
            )
            raise InputError(f"{file.path}: {file.place(line)}: {wrong}")
        places.append(max(place, 0))
    return places, given


def _rows(data: Dataset) -> int:
    """Number of rows in the file of the points."""
    return int(data.values.shape[0]) if data.kept is None else len(data.kept)
