"""`transduce next`: list the items of a pile to label next, from the labels so far, without a page."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.cli.label import DEFAULTS, with_pile
from runs.config.classify import without_shift
from runs.config.configs import parse
from runs.config.label import NextConfig
from runs.console.output import Console

FLAGS = ("json", "csv")
KEYS = (
    *("pile", "labels", "n", "features", "pictures", "classes", "backbone", "pretrained", "strategy", "selection"),
    "text_features",
)
ABOUT = """\
List the items of a pile to label next, the most important first, with the present prediction of each. The labels so far
are a CSV file with a column id (the path of a picture in the folder, or the number of a row, from 0) and a column
label, such as the export of `transduce label`; without it, the first items to label are listed. -n is their number.
--csv writes them as CSV, --json as JSON."""
EXAMPLES = (
    "pictures labels.csv -n 20 --backbone timm:vit_small_patch14_dinov2",
    "table.parquet labels.csv --features emb --csv > next.csv",
    "features.npy --selection typicality",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    settings = with_pile(settings, "next", ("labels",))
    configs = [without_shift(config, settings) for config in parse(NextConfig, settings, DEFAULTS)]
    return write_usage("next", ABOUT, NextConfig, FLAGS, EXAMPLES, settings, configs=configs, defaults=DEFAULTS)


def run(flags: Flags, console: Console) -> int:
    """Label the pile, choose the next items, and list them."""
    settings = with_pile(flags.settings, "next", ("labels",))
    configs = [without_shift(config, settings) for config in parse(NextConfig, settings, DEFAULTS)]
    if len(configs) > 1:
        raise InputError("next accepts one value of every key")
    if flags.json and flags.csv:
        raise InputError("--json and --csv are both given; omit one of them")
    config = configs[0]
    config.check_places()
    rows = _chosen(config, console)
    if flags.json:
        console.json(rows)
    elif flags.csv:
        table = csv.writer(sys.stdout, lineterminator="\n")
        table.writerow(("id", "predicted", "probability"))
        table.writerows(_cells(row, "") for row in rows)
    else:
        names = ("id", "predicted", "probability")
        console.table([dict(zip(names, _cells(row, "-"), strict=True)) for row in rows], right=("probability",))
    return 0


def _chosen(config: NextConfig, console: Console) -> list[dict[str, Any]]:
    import numpy as np

    from runs.cache import Store
    from runs.labelling.given_labels import read_labels
    from runs.labelling.opening import labeller_of
    from runs.labelling.pile import read_pile
    from runs.labelling.predictions import UNKNOWN

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


def _cells(row: dict[str, Any], nothing: str) -> list[str]:
    """The cells of an item, which spreadsheets do not evaluate."""
    from clustering.files.spreadsheets import as_text

    predicted = row["predicted"]
    probability = nothing if row["probability"] is None else f"{row['probability']:.4f}"
    return [as_text(row["id"], "./"), nothing if predicted is None else as_text(predicted), probability]
