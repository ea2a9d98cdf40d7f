"""The items of a pile to label next."""

from pathlib import Path
from typing import Any

import numpy as np

from clustering.files.spreadsheets import as_text
from runs.cache import Store
from runs.console.output import Console
from runs.labelling.given_labels import read_labels
from runs.labelling.label_config import NextConfig
from runs.labelling.opening import labeller_of
from runs.labelling.pile import read_pile
from runs.labelling.predictions import UNKNOWN


def next_rows(config: NextConfig, console: Console) -> list[dict[str, Any]]:
    """Label the pile, and return the next items with the present prediction of each."""
    store = Store(config.results)
    store.prepare()
    pile = read_pile(config, store, console)
    classes = list(config.class_names())
    labels = np.full(len(pile), UNKNOWN, dtype=np.int64)
    if config.labels is not None:
        labels = read_labels(Path(config.labels).expanduser(), pile, classes)
    labeller = labeller_of(config, pile, store, console)
    number = int((labels != UNKNOWN).sum())
    predicted = labeller.predict(classes, labels, number)
    rows = []
    for row in labeller.choose(labels == UNKNOWN, config.n, number):
        label, probability = (None, None) if predicted is None else predicted.label(row)
        rows.append({"id": pile.titles[row], "predicted": label, "probability": probability})
    return rows


def cells(row: dict[str, Any], nothing: str) -> list[str]:
    """Return the cells of an item, which spreadsheets do not evaluate."""
    predicted = row["predicted"]
    probability = nothing if row["probability"] is None else f"{row['probability']:.4f}"
    return [as_text(row["id"], "./"), nothing if predicted is None else as_text(predicted), probability]
