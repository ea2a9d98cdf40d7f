"""A table with its evidence: runs and shipped results, verdicts, the best cell of each column, and claims."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from runs.config.groups import names
from runs.tables.claims import clustering, fair, few_shot
from runs.tables.claims.few_shot import BySeed, gain
from runs.tables.filling import Record
from runs.tables.keys import settings_of
from runs.tables.papers.paper import judged
from runs.tables.shipped import beside, shipped_results
from runs.tables.table import Cell, Column, Row, Table

if TYPE_CHECKING:
    from runs.track import Tracker

METHOD = ("strategy", "tuning", "backbone", "training", "checkpoint")
"""Groups of settings in which cells that are compared task by task may differ."""


def look_up(table: Table, tracker: "Tracker", record: Record | None = None) -> Table:
    """The table with its runs in the record, their verdicts, and the claims checked on them.

    A paper's table also has the shipped results. The claims are about papers' tables and the project's experiments, not
    about an experiment of the user.

    Args:
        record: the runs, if they were read before.
    """
    record = record or Record.of(table, tracker)
    own = record.filled(table)
    own = with_best(judged(own) if own.is_paper else own, record.scores)
    if own.is_paper or own.name.partition("@")[0] in names("experiment"):
        findings = [
            *few_shot.check(own, record.scores),
            *clustering.check(own, record.trials),
            *fair.check(own, lambda result: record.trade_off(result.run_id, result.artifacts)),
        ]
        own = dataclasses.replace(own, findings=tuple(findings))
    ours = shipped_results() if table.compares and not table.seeds else None
    return beside(own, judged(ours.fill(table))) if ours else own


def with_best(table: Table, read: Callable[[Cell], BySeed]) -> Table:
    """The table with `best` set for the cell of each column that is significantly better, task by task, than every
    other cell, if there is one.

    Args:
        read: reads the tasks of a filled cell.
    """
    cells = dict(table.cells)
    for column in table.columns:
        winner = _winner(table, column, read)
        if winner is not None:
            cells[winner, column] = dataclasses.replace(cells[winner, column], best=True)
    return dataclasses.replace(table, cells=cells)


def _winner(table: Table, column: Column, read: Callable[[Cell], BySeed]) -> Row | None:
    if column.metric != "accuracy":
        return None  # other metrics have no value for each task
    filled = {row: cell for (row, c), cell in table.cells.items() if c == column and cell.results and cell.few_shot}
    settings = [settings_of(cell.few_shot) for cell in filled.values() if cell.few_shot]
    tasks = [{name: text for name, text in one.items() if name.partition(".")[0] not in METHOD} for one in settings]
    if len(filled) < 2 or any(other != tasks[0] for other in tasks):
        return None
    first = max(filled, key=lambda row: filled[row].value)
    mine = read(filled[first])
    gains = (gain(mine, read(cell)) for row, cell in filled.items() if row != first)
    return first if all(difference is not None and difference.above() == "holds" for difference in gains) else None
