"""The shipped record: the project's own runs, which tables show beside those of the user.

A checkout has them in `reproduction/record.jsonl.gz`. A shipped run fills a cell if the keys of its config, its data
and the revisions of its classes agree. Where the user has no run, the shipped ones are compared with the paper.
"""

import dataclasses
import functools
import os
from collections.abc import Collection
from pathlib import Path

from runs.record.exported import ExportedRuns
from runs.record.machine import machine_of
from runs.tables.table import Cell, Table

PLACE = Path(__file__).resolve().parents[2] / "reproduction" / "record.jsonl.gz"
COMMIT = 10  # digits of a commit that are shown


def shipped_runs() -> ExportedRuns | None:
    """Return the shipped record; None if there is none, as in an installed package.

    It has no large artefacts, so claims that need them are not checked, without a message.

    Raises:
        InputError: the file is damaged.
    """
    if not os.path.lexists(PLACE):
        return None
    return _read(PLACE, PLACE.stat().st_mtime_ns if PLACE.is_file() else 0)


@functools.cache
def _read(path: Path, changed: int) -> ExportedRuns:
    """Read a file once, and again when it has changed."""
    return ExportedRuns(path, remedy="restore this file of the checkout, as with `git restore`, or remove it")


def beside(own: Table, shipped: Table, runs: ExportedRuns) -> Table:
    """The user's table with the shipped results beside its own.

    A cell without runs of the user gets the verdict of the shipped ones, and a claim that they do not decide gets the
    finding of the shipped ones.
    """
    cells = {}
    for place, cell in own.cells.items():
        other = shipped.cells[place]
        verdict = cell.verdict if cell.results or not other.results else other.verdict
        cells[place] = dataclasses.replace(cell, shipped=other.results, verdict=verdict)
    if not any(cell.shipped for cell in cells.values()):
        return own
    decided = {(one.claim, one.setting) for one in own.findings if one.status != "not run"}
    settled = [one for one in shipped.findings if one.status != "not run" and (one.claim, one.setting) not in decided]
    claims = {one.claim for one in settled}
    kept = [one for one in own.findings if one.status != "not run" or one.claim not in claims]
    return with_origin(dataclasses.replace(own, cells=cells, findings=(*kept, *settled)), runs)


def with_origin(table: Table, runs: ExportedRuns) -> Table:
    """The table with remarks on the commits and machines of its shipped runs."""
    cells = table.cells.values()
    return dataclasses.replace(table, notes=(*table.notes, _origin(cells, runs)))


def _origin(cells: Collection[Cell], runs: ExportedRuns) -> str:
    """The commits and machines of the shipped runs that are shown."""
    shown = {result.run_id for cell in cells for result in (*cell.results, *cell.shipped)}
    tags = [run.tags for run in runs.runs if run.run_id in shown]
    commits = sorted({tag.get("code", "unknown")[:COMMIT] for tag in tags})
    machines = sorted({machine_of(tag) or "unknown" for tag in tags})
    return f"shipped: runs of commit {', '.join(commits)} on {'; '.join(machines)}"
