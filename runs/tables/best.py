"""Which cell of a column is the best one: better, task by task, than every other, and not only by chance."""

import dataclasses
from collections.abc import Callable

from runs.tables.claims.gains import BySeed, gain
from runs.tables.filling import result_keys
from runs.tables.table import Cell, Column, Row, Table

METHOD = (
    "strategy",
    "tuning",
    "backbone",
    "training",
    "checkpoint",
    "pretrained",
    "audit",
)  # what may differ between rivals


def with_best(table: Table, read: Callable[[Cell], BySeed]) -> Table:
    """The table with `best` set in the columns where one cell is.

    Args:
        read: the tasks of a filled cell.
    """
    cells = dict(table.cells)
    for column in table.columns:
        winner = _winner(table, column, read)
        if winner is not None:
            cells[winner, column] = dataclasses.replace(cells[winner, column], best=True)
    return dataclasses.replace(table, cells=cells)


def _winner(table: Table, column: Column, read: Callable[[Cell], BySeed]) -> Row | None:
    if column.metric != "accuracy":
        return None  # of nothing else is there a value for each task
    filled = {row: cell for (row, c), cell in table.cells.items() if c == column and cell.results and cell.few_shot}
    if len(filled) < 2 or len({_tasks(cell) for cell in filled.values()}) > 1:
        return None
    first = max(filled, key=lambda row: filled[row].value)
    mine = read(filled[first])
    gains = (gain(mine, read(cell)) for row, cell in filled.items() if row != first)
    return first if all(found is not None and found.above() == "holds" for found in gains) else None


def _tasks(cell: Cell) -> tuple[tuple[str, str], ...]:
    """What says which tasks a cell is of."""
    assert cell.few_shot is not None
    keys = result_keys(cell.few_shot)
    return tuple(sorted((key, text) for key, text in keys.items() if key.partition(".")[0] not in METHOD))
