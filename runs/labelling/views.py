"""What the page shows of a session, as values for JSON, and the export of labels and predictions."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.labelling.labeller import NONE, OPEN, SKIPPED
from runs.labelling.session import Session
from runs.own_data.page import csv_of
from runs.storage.disk import write_text
from runs.storage.together import Output, write_together

STATES = {"label": "labelled", "none": "none", "skip": "skipped", "clear": "open"}
"""The state of an item after each action."""
KEYS = "123456789qwertyiopadfghjklxcvbm"
"""Keys of the classes; 0 is "none of these", and n, s, u and z are left for other actions."""
DIGITS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """The key of each class, as far as there are keys.

    A digit never means a class of another number below 100: "zero" and "class 0" have the key 0, and "class 10" a
    letter. Other classes, such as n02099601, have the next free key of `KEYS`.
    """
    found = {name: re.findall(r"(?<!\d)\d{1,2}(?!\d)", name) for name in classes}
    numbers = {name: (found[name] or [str(DIGITS.get(name.lower(), ""))])[-1] for name in classes}
    keys: dict[str, str] = {}
    for name, number in numbers.items():
        if len(number) == 1 and number not in keys.values():
            keys[name] = number
    for name in classes:
        free = (key for key in KEYS if key not in keys.values() and not (numbers[name] and key.isdigit()))
        if name not in keys and (key := next(free, "")):
            keys[name] = key
    return keys


def state(session: Session) -> dict[str, Any]:
    """The state as the page shows it, with the labelled and the predicted items of each class."""
    with session.lock:
        now, predicted = session.snapshot(), session.predicted
        labelled = np.bincount(now.given[now.given >= 0], minlength=len(session.classes))
        expected = np.zeros_like(labelled)
        if predicted is not None:
            best = predicted.probabilities[~now.answered].argmax(axis=1)
            expected = np.bincount(best, minlength=len(session.classes))
        counts = zip(session.classes, labelled.tolist(), expected.tolist(), strict=True)
        return {
            "name": session.pile.name,
            "keys": keys_of(session.classes),
            "total": len(session.pile),
            "labelled": int(labelled.sum()),
            "none": int((now.given == NONE).sum()),
            "skipped": int((now.given == SKIPPED).sum()),
            "version": session.number,
            "stale": session.stale,
            "problem": session.problem,
            "hint": session.labeller.hint,
            "classes": [{"name": name, "labelled": one, "predicted": other} for name, one, other in counts],
            "batch": [view(session, item) for item in session.batch],
            "accuracy": session.accuracy,
        }


def view(session: Session, item: str) -> dict[str, Any]:
    """An item as the page shows it."""
    with session.lock:
        row, given = session.rows[item], session.answer_to(item)
        return {
            "id": item,
            "version": session.versions[item],
            "title": session.pile.titles[row],
            "picture": None if session.pile.pictures[row] is None else f"/api/picture/{item}",
            "columns": {name: texts[row] for name, texts in session.pile.columns.items()},
            "label": given.label,
            "state": STATES[given.action],
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
        now, predicted = session.snapshot(), session.predicted
        place = session.classes.index(name) if name else NONE
        labelled = now.given == place
        sure, expected = np.ones(len(labelled)), np.zeros(len(labelled), dtype=bool)
        if predicted is not None and 0 <= place < len(predicted.classes):
            asked = np.isin(np.arange(len(labelled)), [session.rows[item] for item in session.batch])
            expected = (
                (predicted.probabilities.argmax(axis=1) == place) & ~now.answered & ~(asked & (now.given == OPEN))
            )
            # The audit is not used to fit. Labels that are newer than the predictions have no distribution yet.
            chances = np.where(now.audit[:, None], predicted.probabilities, predicted.left_out)
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
        given, predicted = [session.answer_to(item) for item in session.pile.ids], session.predicted
    texts = {
        "id": session.pile.titles,
        "state": [STATES[one.action] for one in given],
        "label": [one.label for one in given],
        "predicted": [predicted and predicted.label(row)[0] for row in range(len(given))],
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
