"""The numbers of a cell as text: in the unit of its column, with as many digits as the print has."""

import dataclasses
import math
import re

from runs.tables.papers.published import Value
from runs.tables.table import Cell, Column, Table

NOT_RUN = "not run"
NOT_PRINTED = "-"
PERCENT = "0.00"  # digits where nothing is printed
LONG = 6  # decimals of a print beyond which intervals and differences have two


def as_printed(value: Value | None) -> str:
    """The number of the paper, digit by digit, with its interval."""
    return value.printed if value else NOT_PRINTED


def corrected(value: Value | None) -> str:
    """The number to compare with instead of the printed one; empty without one."""
    if value is None or value.corrected is None:
        return ""
    return _spell(value.corrected, value.corrected_half_width, value.printed)


def measured(table: Table, cell: Cell, column: Column) -> str:
    """Mean and interval of the runs in the unit of the column, and the number of seeds; without runs, the verdict.

    Digits are those of the print, or of the first printed number of the column. The number of seeds is left out where
    all cells have the same, since the title says it.
    """
    if not cell.results:
        return cell.verdict.status if cell.verdict else NOT_RUN
    in_title = len({len(other.results) for other in table.cells.values() if other.results}) == 1
    seeds = f" (n={len(cell.results)})" if len(cell.results) > 1 and not in_title else ""
    like = _like(cell, column) or _of_column(table, column)
    return _spell(column.scale * cell.value, column.scale * cell.half_width, like) + seeds


def shipped(table: Table, cell: Cell, column: Column) -> str:
    """Mean and interval of the shipped runs, by the paper's scoring where that is another one; empty without any."""
    if not cell.shipped:
        return ""
    filled = dataclasses.replace(cell, results=cell.shipped)
    return scored(filled, column) or measured(table, filled, column)


def scored(cell: Cell, column: Column) -> str:
    """The result scored as in the paper; empty where that is the metric of the column, or where there is a corrected
    target."""
    if not cell.scored or math.isnan(cell.as_printed) or (cell.published and cell.published.corrected is not None):
        return ""
    return _number(column.scale * cell.as_printed, _like(cell, column))


def scoring(cell: Cell) -> str:
    """Name of the metric of `scored`, in words."""
    return cell.scored.removeprefix("audit_").replace("_", " ")


def difference(cell: Cell, column: Column) -> str:
    """Result minus target, in the unit of the column; empty without one. It has two significant digits where the digits
    of the print would round it to 0."""
    if cell.verdict is None or math.isnan(cell.verdict.difference):
        return ""
    text = _number(cell.verdict.difference, _shortened(_like(cell, column)), "+")
    hidden = cell.verdict.status in ("above", "below") and float(text) == 0
    return f"{cell.verdict.difference:+.2g}" if hidden else text


def _like(cell: Cell, column: Column) -> str:
    """A number with as many digits as the numbers of the cell get."""
    if cell.published:
        return cell.published.printed
    return PERCENT if column.unit == "%" else ""


def _of_column(table: Table, column: Column) -> str:
    """The first printed number of the column; empty without any."""
    cells = (table.cells.get((row, column)) for row in table.rows)
    return next((cell.published.printed for cell in cells if cell and cell.published), "")


def _spell(value: float, half_width: float | None, like: str) -> str:
    width = "" if half_width is None or math.isnan(half_width) else f" ± {_number(half_width, _shortened(like))}"
    return _number(value, like) + width


def _shortened(like: str) -> str:
    """The digits of an interval or a difference of numbers like this one, which may be printed unrounded."""
    return PERCENT if len(like.partition(".")[2].partition(" ")[0]) > LONG else like


def _number(value: float, like: str, sign: str = "-") -> str:
    digits = re.search(r"\d+(?:\.(\d+))?(e)?", like)
    if digits is None:
        return f"{value:{sign}.4g}"
    decimals = len(digits[1] or "")
    if digits[2]:  # a power of ten, written as in print: -1.80777e3
        mantissa, _, exponent = f"{value:{sign}.{decimals}e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:{sign}z.{decimals}f}"
