"""Output for a clustered folder of a user's own pictures: a table of pictures and clusters."""

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clustering.files.regular import head_of
from clustering.files.spreadsheets import as_text
from clustering.foundation.errors import InputError
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.results import named_clusters
from runs.stages.clustering.stage import points_of
from runs.stages.clustering.trials import known_labels
from runs.stages.lineage import short
from runs.storage.store import write_text

if TYPE_CHECKING:
    from runs.stages.clustering.results import Clustered
    from runs.storage.store import Store

FOLDER = "folder"  # the data set
COLUMNS = ("file", "cluster", "confidence")


def is_folder(config: ClusterConfig) -> bool:
    """Return whether the config clusters a folder of a user's own pictures."""
    return config.dataset.plugin == FOLDER


def check_pictures(config: ClusterConfig) -> None:
    """Check before clustering that the table can be written.

    Raises:
        InputError: the output is not a CSV file, its folder does not exist, or it would overwrite another file.
    """
    if config.output is None:
        return
    path = Path(config.output)
    if path.suffix != ".csv":
        raise InputError(f"output={config.output}: the output is a CSV file; use the ending .csv")
    if not path.parent.is_dir():
        raise InputError(f"output={config.output}: there is no folder {path.parent}; create it, or give another path")
    if os.path.lexists(path) and not head_of(path).startswith(",".join(COLUMNS).encode()):
        raise InputError(f"output={config.output}: exists, and is not such a table; give another name, or move it")


def write_pictures(result: "Clustered", store: "Store") -> Path:
    """Write file, cluster and confidence of each picture. With given labels, clusters have the names of their classes,
    otherwise numbers.

    Args:
        result: the clustering.
        store: the store, for the default folder.
    """
    data, trials = points_of(result.config), result.trials
    labels = named_clusters(trials.labels[trials.chosen].astype(np.int64), known_labels(result.config, data)).tolist()
    confidence = trials.confidence if trials.confidence is not None else np.full(len(labels), np.nan)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for file, label, sure in zip(data.names, labels, confidence.tolist(), strict=True):
        table.writerow([as_text(file, "./"), as_text(str(label)), "" if np.isnan(sure) else f"{sure:.4f}"])
    stem = f"{FOLDER}-{short(result.config.method)}-{result.n_clusters}-{result.identity[:6]}.csv"
    path = Path(result.config.output) if result.config.output else store.root / "clusters" / stem
    with store.watched():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text.getvalue())
    return path
