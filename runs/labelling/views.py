"""What the page shows of a session, as values for JSON, and the export of labels and predictions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from fsl.labelling.audit import EstimatedAccuracy, estimated_accuracy
from runs.labelling.journal import STATES, Shown
from runs.labelling.labeller import NONE, OPEN
from runs.labelling.session import Session
from runs.own_data.page import csv_of
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together

KEYS = "123456789qwertyiopadfghjklxcvbm"
"""Keys of the classes; 0 is "none of these", and n, s, u and z are left for other actions."""
DIGITS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """The key of each class, as far as there are keys.

    A digit never means a class of another number: "zero" and "class 0" have the key 0, and "class 10" a letter. Other
    classes have the next free key of `KEYS`.
    """
    numbers = {name: _number(name) for name in classes}
    keys: dict[str, str] = {}
    for name, number in numbers.items():
        if len(number) == 1 and number not in keys.values():
            keys[name] = number
    free = [key for key in KEYS if key not in keys.values()]
    for name in classes:
        key = next((key for key in free if not (numbers[name] and key.isdigit())), "")
        if name not in keys and key:
            keys[name] = key
            free.remove(key)
    return keys


def _number(name: str) -> str:
    """The last number in the name of a class, or the word of a digit that it is; empty without."""
    found = re.findall(r"\d+", name)
    return found[-1] if found else str(DIGITS.get(name.lower(), ""))


def state(session: Session) -> dict[str, Any]:
    """The state as the page shows it, with the labelled and the predicted items of each class."""
    with session.lock:
        snapshot, predicted, curve = session.snapshot(), session.predicted, session.curve
        states = [entry.state for item, entry in session.answers.entries().items() if item in session.rows]
        labelled = np.bincount(snapshot.given[snapshot.given >= 0], minlength=len(session.classes))
        expected = np.zeros(len(session.classes), dtype=np.int64)
        if predicted is not None:
            best = predicted.probabilities[~snapshot.answered].argmax(axis=1)
            expected = np.bincount(best, minlength=len(session.classes))
        counts = zip(session.classes, labelled.tolist(), expected.tolist(), strict=True)
        found = estimate(curve[-1]) if curve else None
        return {
            "name": session.pile.name,
            "classes": list(session.classes),
            "keys": keys_of(session.classes),
            "total": len(session.pile),
            **{name: states.count(name) for name in STATES.values() if name != "open"},
            "version": session.answers.number,
            "stale": session.stale,
            "problem": session.problem,
            "hint": session.labeller.hint,
            "by_class": [{"name": name, "labelled": one, "predicted": other} for name, one, other in counts],
            "batch": [view(session, item) for item in session.batch],
            "accuracy": found
            and {"estimate": found.accuracy, "low": found.low, "high": found.high, "audited": curve[-1].audited},
        }


def estimate(point: Shown) -> EstimatedAccuracy:
    """The accuracy of the predictions of the items that were not used to fit, at one time."""
    right, by_hand = np.arange(point.audited) < point.right, np.arange(point.by_hand) < point.by_hand_right
    return estimated_accuracy(right, point.population, by_hand=by_hand)


def view(session: Session, item: str) -> dict[str, Any]:
    """An item as the page shows it."""
    with session.lock:
        row, entry = session.rows[item], session.answers[item]
        return {
            "id": item,
            "version": session.answers.versions[item],
            "title": session.pile.titles[row],
            "picture": None if session.pile.pictures[row] is None else f"/api/picture/{item}",
            "columns": {name: texts[row] for name, texts in session.pile.columns.items()},
            "label": entry.label,
            "state": entry.state,
        }


def members(session: Session, name: str, order: str, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """Items of a class, and their number.

    Args:
        session: the session.
        name: the class; empty for the items that were answered as none of the classes.
        order: "likeliest": items without a label that are predicted as the class, the most probable first; "doubtful":
            those and the items with this label, the least probable first, of a label as the other labels predict it.
        limit: how many of them to return. Items of the present batch that wait for their answer are left out, and the
            probabilities, which order the items but are not calibrated.

    Raises:
        InputError: there is no such class.
    """
    with session.lock:
        if name and name not in session.classes:
            raise InputError(f"there is no class {name!r:.60}; load the page again")
        snapshot, predicted = session.snapshot(), session.predicted
        place = session.classes.index(name) if name else NONE
        labelled = snapshot.given == place
        sure, expected = np.ones(len(labelled)), np.zeros(len(labelled), dtype=bool)
        if predicted is not None and 0 <= place < len(predicted.classes):
            asked = np.zeros(len(labelled), dtype=bool)
            asked[[session.rows[item] for item in session.batch]] = True
            unlabelled = ~snapshot.answered & ~(asked & (snapshot.given == OPEN))
            expected = (predicted.probabilities.argmax(axis=1) == place) & unlabelled
            # The audit is not used to fit. Labels that are newer than the predictions have no distribution yet.
            chances = np.where(snapshot.audit[:, None], predicted.probabilities, predicted.left_out)
            known = chances.any(axis=1) & labelled
            sure[known] = chances[known, place]
            sure[expected] = predicted.probabilities[expected, place]
        rows = np.flatnonzero(expected if name and order == "likeliest" else expected | labelled)
        rows = rows[np.argsort(-sure[rows] if order == "likeliest" else sure[rows], kind="stable")]
        return len(rows), [view(session, session.pile.ids[row]) for row in rows[:limit].tolist()]


def export(session: Session, kind: Literal["csv", "parquet"]) -> Path:
    """Write labels and predictions to the session's folder, replacing an earlier export at once.

    A row has the path of the picture or the number of the row; its state: labelled, none, skipped or open; the given
    label; the predicted class and its probability; and the probability of each class. In CSV, texts that a spreadsheet
    would read as formulas are escaped.

    Raises:
        InputError: the disk is full or not writable.
    """
    with session.lock:
        entries, predicted = [session.answers[item] for item in session.pile.ids], session.predicted
    texts = {
        "id": session.pile.titles,
        "state": [entry.state for entry in entries],
        "label": [entry.label for entry in entries],
        "predicted": [predicted and predicted.label(row)[0] for row in range(len(entries))],
    }
    frame = pd.DataFrame(texts, dtype="string")
    frame["probability"] = pd.Series(dtype="float32") if predicted is None else predicted.probabilities.max(axis=1)
    if predicted is not None:
        names = [f"p({name})" for name in predicted.classes]
        frame = pd.concat([frame, pd.DataFrame(predicted.probabilities, columns=names)], axis=1)
    place = session.folder / f"{Path(session.pile.name).stem}-labels.{kind}"

    def write(path: Path) -> None:
        write_text(path, csv_of(frame)) if kind == "csv" else frame.to_parquet(path, index=False)

    write_together([Output(place, "results=FOLDER", write)])
    return place
