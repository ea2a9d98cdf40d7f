"""Queries for many runs of the record, with small result rows.

A database is read with SQL, because the import of MLflow takes longer than reading a thousand runs. A server, with any
database behind it, is queried page by page through MLflow's API. Both return the same rows in the same order.
"""

import functools
import itertools
import json
import math
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.record.tracking import Tracker

FINISHED = ("FINISHED",)
NOTE = "mlflow.note.content"
"""The tag that MLflow's interface shows as a run's description."""
PAGE = 1000  # number of runs in one answer of a server
SOURCES = "source_runs"
SOURCES_A_TAG = 150  # ids of 32 characters that fit into a tag

Tags = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the record at the time of the query.

    Attributes:
        run_id: MLflow's id.
        name: name of the run in messages.
        experiment: the name of its experiment.
        start: start time in milliseconds since 1970.
        end: end time in milliseconds since 1970; None for an active run.
        status: "FINISHED", "FAILED", "KILLED", "RUNNING" or "SCHEDULED".
        params: the resolved config as a flat mapping of text.
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


def source_tags(run_ids: Sequence[str]) -> dict[str, str]:
    """Return tags with the ids of the runs that a figure was drawn from: `source_runs`, and `source_runs_2` and so on
    if one tag is too short for all."""
    parts = [run_ids[i : i + SOURCES_A_TAG] for i in range(0, len(run_ids), SOURCES_A_TAG)]
    return {_source_tag(i): " ".join(part) for i, part in enumerate(parts or [[]], 1)}


def source_runs(tags: Mapping[str, str]) -> list[str]:
    """Return the run ids in the tags of `source_tags`, in their order."""
    names = itertools.takewhile(tags.__contains__, map(_source_tag, itertools.count(1)))
    return " ".join(tags[name] for name in names).split()


def _source_tag(part: int) -> str:
    return SOURCES if part == 1 else f"{SOURCES}_{part}"


def read_runs(
    tracker: Tracker, prefix: str, *, tags: Tags | None = None, statuses: Collection[str] = FINISHED
) -> list[RunRow]:
    """Return the runs of the experiments whose name starts with `prefix`, newest first.

    Runs of equal time are ordered by id. Deleted runs and runs of deleted experiments are excluded. The time is
    proportional to the number of matching runs. For other runs of these experiments, a database looks up the requested
    tags only. A server receives a query for each combination of values.

    Args:
        tags: allowed values of each tag; a run must have one of them.
        statuses: the statuses to include.

    Raises:
        InputError: the record cannot be read.
    """
    return _read(tracker, lambda name: name.startswith(prefix), tags or {}, statuses)


def finished(tracker: Tracker, experiments: Collection[str], identities: Collection[str]) -> dict[str, RunRow]:
    """Return the newest finished run of each identity in the experiments of these names, if there is one.

    Raises:
        InputError: the record cannot be read.
    """
    rows: dict[str, RunRow] = {}
    for row in _read(tracker, lambda name: name in experiments, {"identity": identities}, FINISHED):
        rows.setdefault(row.tags["identity"], row)
    return rows


def _read(tracker: Tracker, named: Callable[[str], bool], tags: Tags, statuses: Collection[str]) -> list[RunRow]:
    if not tracker.exists():
        return []
    if tracker.database is None:
        return _ask(tracker.client, named, tags, statuses)
    with tracker.opened() as database:
        return _select(database, named, tags, statuses)


# Queries with SQL.


# One row per run; SQLite aggregates its params and tags, a third faster than one row for each of them. Every lookup
# uses an index of MLflow's (run_uuid, or key and run_uuid).
_RUNS = """
select run_uuid, name, experiment_id, start_time, end_time, status, artifact_uri,
    (select json_group_object(key, value) from params where params.run_uuid = runs.run_uuid),
    (select json_group_object(key, value) from tags where tags.run_uuid = runs.run_uuid)
from runs
where lifecycle_stage = 'active'
    and experiment_id in (select value from json_each(?)) and status in (select value from json_each(?))"""
_TAG = """
    and (select value from tags where key = ? and tags.run_uuid = runs.run_uuid) in (select value from json_each(?))"""
# Metrics are not aggregated, because JSON would round them.
_METRICS = """
select run_uuid, key, value, is_nan from latest_metrics where run_uuid in (select value from json_each(?))"""


def _select(
    database: sqlite3.Connection, named: Callable[[str], bool], tags: Tags, statuses: Collection[str]
) -> list[RunRow]:
    """Return the runs of a database, all read in one transaction."""
    database.execute("begin")
    active = database.execute("select experiment_id, name from experiments where lifecycle_stage = 'active'")
    experiments = {number: name for number, name in active if named(name)}
    query, values = _RUNS, [json.dumps(list(experiments)), json.dumps(list(statuses))]
    for key, allowed in tags.items():
        query += _TAG
        values += [key, json.dumps(list(allowed))]
    runs = database.execute(query, values).fetchall()
    metrics: dict[str, dict[str, float]] = {run[0]: {} for run in runs}
    for run_id, key, value, is_nan in database.execute(_METRICS, [json.dumps(list(metrics))]):
        metrics[run_id][key] = math.nan if is_nan else value
    database.execute("commit")
    # All runs are parsed as one text, because the parser then shares equal keys.
    params = json.loads(f"[{','.join(run[7] for run in runs)}]")
    labels = json.loads(f"[{','.join(run[8] for run in runs)}]")
    rows = [
        RunRow(
            run_id,
            name or tag.get("mlflow.runName", ""),
            experiments[number],
            start or 0,
            end,
            status,
            param,
            metrics[run_id],
            tag,
            place,
        )
        for (run_id, name, number, start, end, status, place, *_), param, tag in zip(runs, params, labels, strict=True)
    ]
    return sorted(rows, key=_newest_first)


def _newest_first(row: RunRow) -> tuple[int, str]:
    return -row.start, row.run_id


# Queries with MLflow's API.


def _ask(client: Any, named: Callable[[str], bool], tags: Tags, statuses: Collection[str]) -> list[RunRow]:
    """Return the runs of a server. The filters of its API have no OR."""
    pages = _pages(lambda token: client.search_experiments(page_token=token))
    experiments = {experiment.experiment_id: experiment.name for experiment in pages if named(experiment.name)}
    rows = {}  # by id: a run that starts in the meantime shifts the last run of a page to the next page
    keys = ["attributes.status", *(f"tags.`{key}`" for key in tags)]
    for values in itertools.product(statuses, *tags.values()) if experiments else ():
        # A value that cannot be quoted is not part of the filter; the answer is checked for it.
        conditions = [f"{key} = '{value}'" for key, value in zip(keys, values, strict=True) if "'" not in value]
        for run in _pages(functools.partial(_search, client, list(experiments), " and ".join(conditions))):
            if run.info.status in statuses and all(run.data.tags.get(key) in allowed for key, allowed in tags.items()):
                rows[run.info.run_id] = _row(run, experiments[run.info.experiment_id])
    return sorted(rows.values(), key=_newest_first)


def _search(client: Any, experiments: list[str], conditions: str, token: str | None) -> Any:
    order = ["attributes.start_time DESC"]
    return client.search_runs(experiments, conditions, max_results=PAGE, order_by=order, page_token=token)


def _row(run: Any, experiment: str) -> RunRow:
    info, data = run.info, run.data
    return RunRow(
        info.run_id,
        info.run_name or "",
        experiment,
        info.start_time or 0,
        info.end_time,
        info.status,
        data.params,
        data.metrics,
        data.tags,
        info.artifact_uri,
    )


def _pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all entries of a list that MLflow returns in pages."""
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return
