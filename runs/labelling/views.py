"""What the page shows of a session, as values for JSON."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fsl.labelling.audit import estimated_accuracy, labels_to_reach
from runs.labelling.answers import STATES
from runs.labelling.session import Session
from runs.labelling.steps import NONE, Snapshot

TARGET = 0.95
LEAST = 10  # answers of the audit until the page says how many labels are missing
KEYS = "123456789qwertyiopadfghjklxcvbm"
"""Keys of the classes, in their order; 0 is "none of these", and n, s, u and z are left for other actions."""


def state(session: Session) -> dict[str, Any]:
    """The state as the page shows it."""
    with session.lock:
        counts = dict.fromkeys(STATES.values(), 0)
        for item, entry in session.answers.entries().items():
            counts[entry.state] += item in session.rows
        return {
            "name": session.pile.name,
            "classes": list(session.classes),
            "keys": dict(zip(session.classes, KEYS, strict=False)),
            "total": len(session.pile),
            "labelled": counts["labelled"],
            "skipped": counts["skipped"],
            "none": counts["none"],
            "version": session.answers.number,
            "predicted_version": 0 if session.predicted is None else session.predicted.number,
            "working": session.working,
            "problem": session.problem,
            "hint": session.labeller.hint,
            "by_class": by_class(session),
            "batch": [view(session, item) for item in session.batch],
            "accuracy": accuracy(session),
            "to_target": to_target(session),
        }


def by_class(session: Session) -> list[dict[str, Any]]:
    """Number of items with a label, and of items without one that are predicted, by class."""
    with session.lock:
        snapshot, predicted = session.snapshot(), session.predicted
        number = len(snapshot.classes)
        labelled = np.bincount(snapshot.given[snapshot.given >= 0], minlength=number)
        expected = np.zeros(number, dtype=np.int64)
        if predicted is not None:
            best = predicted.probabilities[~snapshot.answered].argmax(axis=1)
            expected = np.bincount(best, minlength=number)
        return [
            {"name": name, "labelled": int(one), "predicted": int(other)}
            for name, one, other in zip(snapshot.classes, labelled, expected, strict=True)
        ]


def accuracy(session: Session) -> dict[str, Any] | None:
    """Estimated accuracy of the predictions for the items that are not used to fit; None before the first audit."""
    with session.lock:
        if not session.curve:
            return None
        curve = []
        for point in session.curve:
            right = np.arange(point.audited) < point.right
            by_hand = np.arange(point.by_hand) < point.by_hand_right
            found = estimated_accuracy(right, point.population, by_hand=by_hand)
            curve.append({"labels": point.labels, "estimate": found.accuracy, "low": found.low, "high": found.high})
        last = {name: curve[-1][name] for name in ("estimate", "low", "high")}
        return {**last, "audited": session.curve[-1].audited, "curve": curve}


def to_target(session: Session) -> dict[str, Any] | None:
    """About how many more labels the predictions need; None if it cannot be said yet."""
    with session.lock:
        points = [point for point in session.curve if point.labels]
        if not points or points[-1].audited < LEAST:
            return None
        more = labels_to_reach(
            [point.labels for point in points],
            [point.right for point in points],
            [point.audited for point in points],
            TARGET,
        )
        return None if more is None else {"target": TARGET, "more": more}


def view(session: Session, item: str) -> dict[str, Any]:
    """An item as the page shows it."""
    with session.lock:
        row, entry = session.rows[item], session.answers[item]
        predicted, probability = (None, None) if session.predicted is None else session.predicted.label(row)
        return {
            "id": item,
            "version": entry.version,
            "title": session.pile.titles[row],
            "picture": None if session.pile.pictures[row] is None else f"/api/picture/{item}",
            "columns": {name: texts[row] for name, texts in session.pile.columns.items()},
            "label": entry.label,
            "state": entry.state,
            "predicted": predicted,
            "probability": probability,
        }


def members(session: Session, name: str, order: str, offset: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """Items of a class, and their number.

    Args:
        session: the session.
        name: the class; empty for the items that were answered as none of the classes.
        order: "likeliest": items without a label that are predicted as the class, the most probable first; "doubtful":
            those and the items with this label, the least probable first, of a label as the other labels predict it.
        offset, limit: which of them to return. Items of the present batch that wait for their answer are left out.

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
            expected = (predicted.probabilities.argmax(axis=1) == place) & _without_label(session, snapshot)
            # The audit is not used to fit. Labels that are newer than the predictions have no distribution yet.
            chances = np.where(snapshot.audit[:, None], predicted.probabilities, predicted.left_out)
            known = chances.any(axis=1) & labelled
            sure[known] = chances[known, place]
            sure[expected] = predicted.probabilities[expected, place]
        rows = np.flatnonzero(expected if name and order == "likeliest" else expected | labelled)
        rows = rows[np.argsort(-sure[rows] if order == "likeliest" else sure[rows], kind="stable")]
        return len(rows), [
            {**view(session, session.pile.ids[row]), "sure": float(sure[row])} for row in rows[offset : offset + limit]
        ]


def _without_label(session: Session, snapshot: Snapshot) -> NDArray[np.bool_]:
    """(N,) whether an item has no label, without the items of the batch that wait for their answer."""
    unlabelled: NDArray[np.bool_] = ~snapshot.answered
    asked = [session.rows[item] for item in session.batch]
    unlabelled[asked] &= ~snapshot.open[asked]
    return unlabelled
