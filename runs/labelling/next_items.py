"""The items of a pile to label next, from labels in a CSV file."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.cells import NO_VALUE, spelling
from clustering.files.tables import as_text
from clustering.files.words import csv_lines, plain_name
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.console.output import Console
from runs.labelling.label_config import NextConfig, PileConfig
from runs.labelling.labeller import OPEN, labeller_of
from runs.labelling.pile import Pile, read_pile
from runs.own_data.own_config import name_problem

ITEMS = ("id", "picture", "file", "filename", "path", "row", "item")
LABELS = ("label", "class")


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

    An item is named by its path in the folder, or by its row number: from 0, as the page writes it, or from 1 in a
    column `row`, as in `transduce cluster labels=FILE`. Lines without a label are ignored.

    Args:
        path: a CSV file in UTF-8, with a column of items (`ITEMS`) and one of labels (`LABELS`).
        pile: the items.
        classes: class names; those of the file are added in their order.

    Raises:
        InputError: the file cannot be read, has no such columns, or names an unknown item, or one item twice with
            different labels; the message names the line.
    """
    try:
        lines = csv_lines(path)
    except InputError as error:
        raise InputError(f"labels: {error}") from error
    header = [name.strip().lower() for name in (lines[0][1] if lines else [])]
    item, label = (next((header.index(name) for name in names if name in header), -1) for names in (ITEMS, LABELS))
    if -1 in (item, label):
        raise InputError(
            f"labels: {path}: its first line names {', '.join(header) or 'nothing'}; it needs a column {ITEMS[0]} (or "
            f"{', '.join(ITEMS[1:])}), and a column {LABELS[0]}"
        )
    counted = header[item] == "row" and not pile.is_folder
    titles = [str(1 + row) for row in range(len(pile))] if counted else pile.titles
    rows = {title: row for row, title in enumerate(titles)}
    rows |= {as_text(title, "./"): row for title, row in rows.items()}
    plain: dict[str, int] = {}
    for title, row in rows.items():
        other = plain.setdefault(plain_name(title), row)
        plain[plain_name(title)] = row if other == row else OPEN  # two files whose names differ in accents or case only
    known = {unicodedata.normalize("NFC", text): name for name in classes for text in (name, as_text(name))}
    found = np.full(len(pile), OPEN, dtype=np.int64)
    for number, cells in lines[1:]:
        line = f"labels: {path}: line {number}"
        name = unicodedata.normalize("NFC", cells[label].strip()) if len(cells) > label else ""
        if cell := next((cell for cell in cells if "\n" in cell and cell not in rows), ""):
            raise InputError(f"{line}: the cell {cell[:40]!r} has a line break; close its quote, or remove it")
        if not name:
            continue
        if problem := name_problem(name):
            raise InputError(f"{line}: the name of a class {problem}")
        title = cells[item] if len(cells) > item else ""
        row = rows.get(title, plain.get(plain_name(title), OPEN))
        if row == OPEN:
            numbers = " (row counts from 1, id from 0)" if counted else ""
            like = f"as {titles[0]!r} is{numbers}"
            raise InputError(f"{line}: {title!r} is not in the pile, {like}; mend or remove it")
        name = known.get(name, name)
        if name not in classes and name.lower() in {*NO_VALUE, "-1"}:
            raise InputError(f"{line}: the label {name!r} may mean none; clear the cell, or name the class in classes=")
        if name not in classes:
            classes.append(name)
        place = classes.index(name)
        if found[row] not in (OPEN, place):
            raise InputError(f"{line}: {title!r} has another label above; keep one")
        found[row] = place
    return found
