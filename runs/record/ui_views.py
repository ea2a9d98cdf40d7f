"""The MLflow UI's view of each experiment: columns and their order, stored in the experiment in the same way as
views that users share."""

import json
from typing import TYPE_CHECKING

from runs.record.query import read_runs

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

VIEW = "transduce"
SHARED, KIND = "mlflow.sharedViewState.", "mlflow.experimentKind"  # tags of MLflow
RESULTS = ("evaluate", "cluster", "fair", "classify")  # the experiments that users look at first

# By prefix of the experiment's name: the sort column (descending), then the other columns.
COLUMNS = {
    "evaluate": ("metrics.`accuracy`", ("metrics.`accuracy_ci95`", "tags.`strategy`", "tags.`shot`", "tags.`seed`")),
    "tune": ("metrics.`accuracy`", ("metrics.`accuracy_ci95`", "tags.`strategy`", "tags.`chosen_values`")),
    "train": ("metrics.`best_validation_accuracy`", ("metrics.`best_epoch`", "metrics.`seconds`", "tags.`backbone`")),
    "cluster": (
        "metrics.`acc_hungarian`",
        ("metrics.`nmi`", "metrics.`objective`", "metrics.`seconds`", "tags.`method`", "tags.`clusters`"),
    ),
    "fair": (
        "metrics.`best_balance`",
        ("metrics.`objective`", "metrics.`fairness_error`", "metrics.`seconds`", "tags.`method`"),
    ),
    "classify": ("metrics.`accuracy`", ("metrics.`confidence`", "tags.`strategy`", "tags.`pictures`")),
}


def set_views(tracker: "Tracker") -> None:
    """Set each experiment's columns, their order, and the UI's mode for models; users' own views are kept."""
    for experiment in tracker.client.search_experiments():
        kind = experiment.name.partition("/")[0]
        if kind not in COLUMNS:
            continue
        by, others = COLUMNS[kind]
        view = json.dumps({"orderByKey": by, "orderByAsc": False, "selectedColumns": [by, *others]})
        tags = {SHARED + VIEW: view, KIND: "custom_model_development"}
        for key, value in tags.items():
            if experiment.tags.get(key) != value:
                tracker.client.set_experiment_tag(experiment.experiment_id, key, value)


def first_page(tracker: "Tracker", address: str) -> str:
    """Return the address of the experiment with the newest result, with its columns; the start page without results."""
    rows = read_runs(tracker, "")
    results = [row for row in rows if row.experiment.partition("/")[0] in RESULTS] or rows
    experiment = tracker.client.get_experiment_by_name(results[0].experiment) if results else None
    if experiment is None:
        return address
    view = f"?viewStateShareKey={VIEW}" if SHARED + VIEW in experiment.tags else ""
    return f"{address}/#/experiments/{experiment.experiment_id}/runs{view}"
