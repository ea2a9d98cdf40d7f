"""Mark the best cell of each column: significantly better, task by task, than every other cell."""

import dataclasses
from collections.abc import Callable

from runs.tables.claims.gains import BySeed, gain
from runs.tables.keys import result_keys
from runs.tables.table import Cell, Column, Row, Table

METHOD = (
    "strategy",
    "tuning",
    "backbone",
    "training",
    "checkpoint",
    "pretrained",
    "audit",
)  # keys that may differ between cells that are compared


def with_best(table: Table, read: Callable[[Cell], BySeed]) -> Table:
    """The table with `best` set for the best cell of each column that has one.

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
    if len(filled) < 2 or len({_tasks(cell) for cell in filled.values()}) > 1:
        return None
    first = max(filled, key=lambda row: filled[row].value)
    mine = read(filled[first])
    gains = (gain(mine, read(cell)) for row, cell in filled.items() if row != first)
    return first if all(difference is not None and difference.above() == "holds" for difference in gains) else None


def _tasks(cell: Cell) -> tuple[tuple[str, str], ...]:
    """Keys that decide which tasks a cell has."""
    assert cell.few_shot is not None
    keys = result_keys(cell.few_shot)
    return tuple(sorted((key, text) for key, text in keys.items() if key.partition(".")[0] not in METHOD))
