"""Export of the labels and predictions of a session as a table."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clustering.files.spreadsheets import as_text
from clustering.foundation.errors import InputError
from runs.storage.together import Output, write_together

if TYPE_CHECKING:
    from runs.labelling.session import Session

KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
COLUMNS = ("id", "state", "label", "predicted", "probability")


def export(session: "Session", kind: Literal["csv", "parquet"]) -> Path:
    """Write labels and predictions to the session's folder, replacing an earlier export at once.

    A row has the path of the picture or the number of the row; its state: labelled, none, skipped or open; the given
    label; the predicted class and its probability; and the probability of each class. In CSV, texts that a spreadsheet
    would read as formulas are escaped.

    Raises:
        InputError: the disk is full or not writable.
    """
    names, columns = table(session)
    place = session.folder / f"{Path(session.pile.name).stem}-labels.{kind}"
    write = _csv if kind == "csv" else _parquet
    write_together([Output(place, "results=FOLDER", lambda path: write(path, names, columns))])
    return place


def table(session: "Session") -> tuple[list[str], list[Sequence[Any]]]:
    """Names and values of the columns."""
    with session.lock:
        entries = [session.answers[item] for item in session.pile.ids]
        predicted = session.predicted
    names = list(COLUMNS)
    columns: list[Sequence[Any]] = [
        session.pile.titles,
        [entry.state for entry in entries],
        [entry.label for entry in entries],
    ]
    if predicted is None:
        return names, [*columns, [None] * len(entries), [None] * len(entries)]
    best = predicted.probabilities.argmax(axis=1)
    columns += [[predicted.classes[place] for place in best], predicted.probabilities.max(axis=1)]
    return [*names, *(f"p({name})" for name in predicted.classes)], [*columns, *predicted.probabilities.T]


def _csv(path: Path, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(as_text(name) for name in names)
        for item, state, label, predicted, *numbers in zip(*columns, strict=True):
            chances = ("" if number is None else f"{number:.6f}" for number in numbers)
            table.writerow([as_text(item, "./"), state, as_text(label or ""), as_text(predicted or ""), *chances])


def _parquet(path: Path, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = [pa.string()] * 4 + [pa.float32()] * (len(names) - 4)
    arrays = [
        pa.array(np.asarray(values) if kind == pa.float32() and values[0] is not None else list(values), kind)
        for values, kind in zip(columns, kinds, strict=True)
    ]
    unique = [name if names.index(name) == place else f"{name} ({place})" for place, name in enumerate(names)]
    try:
        parquet.write_table(pa.table(arrays, names=unique), path)
    except pa.ArrowException as error:
        raise InputError(f"{path}: cannot be written ({error})") from error
