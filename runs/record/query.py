"""Queries for many runs of the record, by MLflow's API, with small result rows."""

import itertools
import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol


class Record(Protocol):
    """What queries need of `runs.track.Tracker`."""

    @property
    def client(self) -> Any: ...

    def exists(self) -> bool: ...

    def experiment_page(self, token: str | None) -> Any: ...


FINISHED = ("FINISHED",)
PARENT = "mlflow.parentRunId"  # the tag by which MLflow nests a run below another
NOTE = "mlflow.note.content"  # the tag that MLflow's interface shows as a run's description
KEY, STAGE, FOLDER, EXPERIMENT = "key", "stage", "results", "experiment"  # tags of `Tracker.start`
COMMAND = "command"  # the stage of parent runs of commands
NEWEST = "attributes.start_time DESC"
PAGE = 1000  # runs in one answer
FEW = 20  # queries that are faster than reading all runs
SOURCES = "source_runs"
SOURCES_A_TAG = 150  # ids of 32 characters that fit into a tag
CONFIG_A_TAG = 5000  # characters

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
        params: the whole config as a flat mapping of text.
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
    tracker: Record, prefix: str, *, tags: Tags | None = None, statuses: Collection[str] = FINISHED
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
    if not tracker.exists():
        return []
    named, tags = os.environ.get("MLFLOW_EXPERIMENT_NAME", ""), tags or {}
    experiments = {
        entry.experiment_id: entry.name
        for entry in pages(tracker.experiment_page)
        if entry.name.startswith(prefix) or entry.name == named
    }
    rows = {}  # by id: a run that starts in the meantime shifts the last run of a page to the next page
    for conditions in _conditions({"attributes.status": statuses, **{f"tags.`{name}`": tags[name] for name in tags}}):
        if not experiments:
            break

        def page(token: str | None, conditions: str = conditions) -> Any:
            return tracker.client.search_runs(
                list(experiments), conditions, max_results=PAGE, order_by=[NEWEST], page_token=token
            )

        for run in pages(page):
            row = _row(run, experiments[run.info.experiment_id])
            fits = row.status in statuses and all(row.tags.get(name) in tags[name] for name in tags)
            if fits and row.experiment.startswith(prefix) and row.tags.get(STAGE) != COMMAND:
                rows[row.run_id] = row
    return sorted(rows.values(), key=lambda row: (-row.start, row.run_id))


def _conditions(allowed: Tags) -> Iterator[str]:
    """Yield filters that together find all runs with allowed values. Callers check again: filters have no OR."""
    asked: dict[str, Collection[str]] = {}
    for name, values in sorted(allowed.items(), key=lambda item: len(item[1])):
        if math.prod(map(len, asked.values())) * len(values) <= FEW:
            asked[name] = values
    for values in itertools.product(*asked.values()):
        yield " and ".join(f"{name} = '{value}'" for name, value in zip(asked, values, strict=True) if "'" not in value)


def _row(run: Any, experiment: str) -> RunRow:
    info, data = run.info, run.data
    return RunRow(
        info.run_id,
        info.run_name or "",
        data.tags.get(EXPERIMENT, experiment),
        info.start_time or 0,
        info.end_time,
        info.status,
        _flat(data.tags) or data.params,
        data.metrics,
        data.tags,
        info.artifact_uri or "",
    )


def pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all entries of a list that MLflow returns in pages."""
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return


def config_tags(flat: Mapping[str, Any]) -> dict[str, str]:
    """Return the whole config as JSON, in as many tags as its length needs."""
    text = json.dumps({name: str(value) for name, value in flat.items()}, separators=(",", ":"))
    parts = [text[i : i + CONFIG_A_TAG] for i in range(0, len(text), CONFIG_A_TAG)]
    return {"config" if i == 0 else f"config_{i + 1}": part for i, part in enumerate(parts)}


def _flat(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the config in the tags of `config_tags`; empty if there is none."""
    names = itertools.chain(["config"], (f"config_{i}" for i in itertools.count(2)))
    text = "".join(tags[name] for name in itertools.takewhile(tags.__contains__, names))
    with suppress(ValueError, AttributeError, RecursionError):
        return {str(name): str(value) for name, value in json.loads(text).items()}
    return {}
