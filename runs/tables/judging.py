"""The rule for verdicts: it compares the result of runs here with the printed number.

A number is reproduced if the two 95 % intervals overlap, or if the difference is within the precision of the printed
digits or within the tolerance given with the table. Where runs have the queries of the print, only the digits and the
tolerance count. A mean over tasks that is printed without an interval gets the interval implied by its number of
tasks, with the spread between tasks of the run it is compared with.
Where the print is known to be wrong and the right number is known, the right number is the target. Where only the
scoring of the paper is known (LaplacianShot of 2020 was scored by the best permutation of labels), the printed number
is compared with the run scored in that way.
"""

import math
from typing import Any

from runs.tables.published import PublishedTable, published_table
from runs.tables.table import Cell, Status, Table

Z = 1.96  # of a 95 % interval


def judged(table: Table) -> Table:
    """A paper's table with the verdict on each cell: on the runs of the user, else on the shipped results."""
    published = published_table(table.name.partition("@")[0])
    return table.mapped(lambda cell: judge(cell if cell.results else cell.as_shipped, published))


def judge(cell: Cell, table: PublishedTable) -> dict[str, Any]:
    """The verdict on the results of a cell of a paper's table: the fields `verdict`, `why` and `difference`."""
    as_printed = cell.corrected is None and cell.scored != ""
    value = cell.scale * (cell.as_printed if as_printed else cell.value)
    target = cell.published if cell.corrected is None else cell.corrected
    difference = math.nan if target is None else value - target
    status: Status
    if not cell.results:
        status, why = ("not run" if cell.config else "cannot run here"), cell.obstacle
    elif target is None:
        status, why = "not printed", ""
    elif cell.differs:
        status, why = "other protocol", "; ".join(cell.differs)
    elif not cell.target:
        status, why = "no target", cell.remark
    elif math.isnan(value):
        status, why = "not run", f"the run has no {cell.scored}"
    else:
        status, why = _compared(cell, table, value, target, as_printed)
    return {"verdict": status, "why": why, "difference": difference}


def _compared(cell: Cell, table: PublishedTable, value: float, target: float, as_printed: bool) -> tuple[Status, str]:
    """The verdict on a value and its target, both in the printed unit."""
    width, (theirs, source) = cell.scale * _own_half_width(cell, as_printed), _half_width(cell, table)
    way = cell.scored.removeprefix("audit_").replace("_", " ")
    by = f"scored as printed ({way} {value:.2f}); " if as_printed else ""
    reach, difference = theirs + (0 if math.isnan(width) else width), value - target
    if not cell.tolerance.alone and reach > 0 and abs(difference) <= reach:
        return "reproduced", f"{by}the intervals overlap ({source})"
    if cell.corrected is None and abs(difference) <= cell.resolution * (1 + 1e-9):
        return "reproduced", f"{by}the difference is below the precision of the print"
    if cell.tolerance.holds(value, target):
        return "reproduced", f"{by}within the tolerance of this table"
    why = "beyond the tolerance of this table" if cell.tolerance.alone else f"the intervals do not overlap ({source})"
    return "above" if difference > 0 else "below", f"{by}{why}"


def _own_half_width(cell: Cell, as_printed: bool) -> float:
    """Half the 95 % interval of the result, in the unit of the runs: over tasks or, if wider, over seeds.

    The interval over seeds is the normal one. Student's, which the cell shows, is so wide for two seeds that every
    number would be reproduced.
    """
    count = len(cell.results)
    # A power of a huge number, as of a diverged run, would raise.
    over_tasks = math.hypot(*(result.half_width for result in cell.results)) / count
    if count == 1:
        return over_tasks
    values = [result.as_printed if as_printed else result.value for result in cell.results]
    spread = math.hypot(*(value - sum(values) / count for value in values)) / math.sqrt(count - 1)
    over_seeds = Z * spread / math.sqrt(count)
    return over_seeds if math.isnan(over_tasks) else max(over_seeds, over_tasks)


def _half_width(cell: Cell, table: PublishedTable) -> tuple[float, str]:
    """Half the 95 % interval of the target, in the printed unit, and its origin."""
    width, tasks = cell.published_half_width, table.tasks
    if cell.corrected is not None:
        width = cell.corrected_half_width
        tasks = published_table(cell.corrected_source).tasks if cell.corrected_source else tasks
    if width is not None and table.interval == "ci95":
        return width, "the paper prints its interval"
    if width is not None and table.interval == "std" and table.runs:
        return Z * width / math.sqrt(table.runs), f"its interval from the deviation of {table.runs} runs"
    spread = [r.half_width * math.sqrt(r.tasks) for r in cell.results if r.tasks > 0 and r.half_width >= 0]
    if tasks and spread:
        implied = cell.scale * sum(spread) / len(spread) / math.sqrt(tasks)
        return implied, f"its interval implied by {tasks:,} tasks"
    return 0.0, "the paper prints no interval"
