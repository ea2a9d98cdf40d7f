"""Export of the labels and predictions of a session as a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from runs.own_data.page import csv_of
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together

if TYPE_CHECKING:
    from runs.labelling.session import Session

KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def export(session: "Session", kind: Literal["csv", "parquet"]) -> Path:
    """Write labels and predictions to the session's folder, replacing an earlier export at once.

    A row has the path of the picture or the number of the row; its state: labelled, none, skipped or open; the given
    label; the predicted class and its probability; and the probability of each class. In CSV, texts that a spreadsheet
    would read as formulas are escaped.

    Raises:
        InputError: the disk is full or not writable.
    """
    frame = table(session)
    place = session.folder / f"{Path(session.pile.name).stem}-labels.{kind}"

    def write(path: Path) -> None:
        write_text(path, csv_of(frame)) if kind == "csv" else frame.to_parquet(path, index=False)

    write_together([Output(place, "results=FOLDER", write)])
    return place


def table(session: "Session") -> pd.DataFrame:
    """The items with their state, label and prediction."""
    with session.lock:
        entries = [session.answers[item] for item in session.pile.ids]
        predicted = session.predicted
    texts = {
        "id": session.pile.titles,
        "state": [entry.state for entry in entries],
        "label": [entry.label for entry in entries],
        "predicted": [None] * len(entries),
    }
    if predicted is None:
        return pd.DataFrame(texts, dtype="string").assign(probability=pd.Series(dtype="float32"))
    texts["predicted"] = [predicted.classes[place] for place in predicted.probabilities.argmax(axis=1)]
    names = ["probability", *(f"p({name})" for name in predicted.classes)]
    numbers = [predicted.probabilities.max(axis=1), *predicted.probabilities.T]
    return pd.concat(
        [pd.DataFrame(texts, dtype="string"), pd.DataFrame(dict(zip(names, numbers, strict=True)))], axis=1
    )
