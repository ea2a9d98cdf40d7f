"""Queries for many runs of the record, by MLflow's API, with small result rows."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runs.record.address import Address

FINISHED = ("FINISHED",)
PARENT = "mlflow.parentRunId"  # the tag by which MLflow nests a run below another
NOTE = "mlflow.note.content"  # the tag that MLflow's interface shows as a run's description
KEY, STAGE, FOLDER, EXPERIMENT = "key", "stage", "results", "experiment"  # tags of `Tracker.start`
COMMAND = "command"  # the stage of parent runs of commands
NEWEST = "attributes.start_time DESC"
PAGE = 1000  # runs in one answer

Tags = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the record at the time of the query.

    Attributes:
        run_id: MLflow's id.
        name: name of the run in messages.
        experiment: the name of its experiment, also if MLFLOW_EXPERIMENT_NAME named another one.
        start, end: milliseconds since 1970; `end` is None for an active run.
        status: "FINISHED", "FAILED", "KILLED", "RUNNING" or "SCHEDULED".
        params: the option of each group, and the settings that differ from their defaults.
        metrics: the last value of each metric; NaN if NaN was logged.
        tags: all tags, including MLflow's own.
        artifact_uri: address of its files.
    """

    run_id: str
    name: str
    experiment: str
    start: int
    end: int | None
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    artifact_uri: str


def read_runs(
    record: Address, prefix: str, *, tags: Tags | None = None, statuses: Collection[str] = FINISHED
) -> list[RunRow]:
    """Return the runs of the experiments whose name starts with `prefix`, newest first.

    Runs of equal time are ordered by id. Deleted runs, runs of deleted experiments, and parent runs of commands are
    left out.

    Args:
        tags: allowed values of each tag; a run must have one of them.
        statuses: the statuses to include.

    Raises:
        InputError: the record cannot be read.
    """
    if not record.exists():
        return []
    own, tags = os.environ.get("MLFLOW_EXPERIMENT_NAME", ""), tags or {}
    names = {entry: name for entry, name in experiments(record).items() if name.startswith(prefix) or name == own}
    allowed = {"attributes.status": statuses, **{f"tags.`{name}`": values for name, values in tags.items()}}
    # MLflow's filters have no OR, so that conditions with several values are only checked below.
    single = {name: next(iter(values)) for name, values in allowed.items() if len(values) == 1}
    condition = " and ".join(f"{name} = '{value}'" for name, value in single.items() if "'" not in value)
    rows = {}  # by id: a run that starts in the meantime shifts the last run of a page to the next page
    for run in search(record, names, condition):
        row = _row(run, names[run.info.experiment_id])
        fits = row.status in statuses and all(row.tags.get(name) in tags[name] for name in tags)
        if fits and row.experiment.startswith(prefix) and row.tags.get(STAGE) != COMMAND:
            rows[row.run_id] = row
    return sorted(rows.values(), key=lambda row: (-row.start, row.run_id))


def experiments(record: Address) -> dict[str, str]:
    """Return the names of all experiments by id, without deleted ones."""
    client = record.client
    return {one.experiment_id: one.name for one in _pages(lambda token: client.search_experiments(page_token=token))}


def search(record: Address, experiments: Iterable[str], condition: str) -> Iterator[Any]:
    """Yield MLflow's runs in experiments with some ids, newest first."""
    ids, ask = list(experiments), record.client.search_runs
    if ids:
        yield from _pages(lambda token: ask(ids, condition, max_results=PAGE, order_by=[NEWEST], page_token=token))


def _pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all entries of a list that MLflow returns in pages."""
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return


def _row(run: Any, experiment: str) -> RunRow:
    info, data = run.info, run.data
    return RunRow(
        info.run_id,
        info.run_name or "",
        data.tags.get(EXPERIMENT, experiment),
        info.start_time or 0,
        info.end_time,
        info.status,
        data.params,
        data.metrics,
        data.tags,
        info.artifact_uri or "",
    )
