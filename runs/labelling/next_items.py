"""The items of a pile to label next, from labels in a CSV file."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.evaluation.known_labels import labelled_points
from clustering.files.cells import spelling
from clustering.files.tables import as_text
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.console.output import Console
from runs.labelling.label_config import NextConfig, PileConfig
from runs.labelling.labeller import OPEN, labeller_of
from runs.labelling.pile import Pile, read_pile
from runs.own_data.own_config import name_problem

NONE = ("none", "-1")  # labels that are classes only if they are named as such


def next_rows(config: NextConfig, console: Console) -> list[dict[str, Any]]:
    """Label the pile, and return the next items with the present prediction of each."""
    store = Store(config.results)
    store.prepare()
    pile = read_pile(config, store, console)
    classes = list(config.class_names())
    labels = labels_so_far(config, pile, classes, console)
    labeller = labeller_of(config, pile, store, console)
    predicted = labeller.predict(classes, labels)
    if labeller.hint:
        console.note(labeller.hint)
    rows = []
    for row in labeller.choose(labels == OPEN, config.n, int((labels != OPEN).sum())):
        label, probability = (None, None) if predicted is None else predicted.label(row)
        rows.append({"id": pile.titles[row], "predicted": label, "probability": probability})
    return rows


def cells(row: dict[str, Any], nothing: str) -> list[str]:
    """Return the cells of an item, which spreadsheets do not evaluate."""
    predicted = row["predicted"]
    probability = nothing if row["probability"] is None else f"{row['probability']:.4f}"
    return [as_text(row["id"], "./"), nothing if predicted is None else as_text(predicted), probability]


def labels_so_far(config: PileConfig, pile: Pile, classes: list[str], console: Console) -> NDArray[np.int64]:
    """(N,) the labels of the config's file, see `read_labels`, with a warning about names that may mean one class."""
    if config.labels is None:
        return np.full(len(pile), OPEN, dtype=np.int64)
    labels, spelt = read_labels(Path(config.labels).expanduser(), pile, classes), dict[str, str]()
    for name in classes:
        if (other := spelt.setdefault(spelling(name), name)) != name:
            remedy = "if they are one class, write them alike"
            console.note(f"warning: {config.labels}: {other!r} and {name!r} differ in case or blanks; {remedy}")
    return labels


def read_labels(path: Path, pile: Pile, classes: list[str]) -> NDArray[np.int64]:
    """(N,) index of the label of each item among the classes, `OPEN` without one.

    Args:
        path: a file that names items and their labels, as those of `transduce cluster labels=FILE`.
        pile: the items.
        classes: class names; those of the file are added in their order.

    Raises:
        InputError: see `clustering.evaluation.known_labels.read_labels`.
    """
    data = Dataset(pile.features, names=pile.titles if pile.is_folder else (), class_names=tuple(classes))
    try:
        file, entries = labelled_points(path, data)
    except InputError as error:
        raise InputError(f"labels: {error}") from error
    known = {unicodedata.normalize("NFC", text): name for name in classes for text in (name, as_text(name))}
    found = np.full(len(pile), OPEN, dtype=np.int64)
    for row, (line, text) in entries.items():
        name = unicodedata.normalize("NFC", text)
        if problem := name_problem(name):
            raise InputError(f"labels: {path}: {file.place(line)}: the name of a class {problem}")
        name = known.get(name, name)
        if name not in classes and name.lower() in NONE:
            remedy = "may mean none; clear the cell, or name the class in classes="
            raise InputError(f"labels: {path}: {file.place(line)}: the label {name!r} {remedy}")
        if name not in classes:
            classes.append(name)
        found[row] = classes.index(name)
    return found
