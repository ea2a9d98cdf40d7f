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

from runs.tables.cell import Cell, Status
from runs.tables.papers.published import PublishedTable, published_table
from runs.tables.table import Table

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

    def said(status: Status, why: str = "") -> dict[str, Any]:
        return {"verdict": status, "why": why, "difference": math.nan if target is None else value - target}

    if not cell.results:
        return said("not run" if cell.config else "cannot run here", cell.obstacle)
    if target is None:
        return said("not printed")
    if cell.differs:
        return said("other protocol", "; ".join(cell.differs))
    if not cell.target:
        return said("no target", cell.remark)
    if math.isnan(value):
        return said("not run", f"the run has no {cell.scored}")
    width = cell.scale * _own_half_width(cell, as_printed)
    theirs, source = _half_width(cell, table)
    way = cell.scored.removeprefix("audit_").replace("_", " ")
    by = f"scored as printed ({way} {value:.2f}); " if as_printed else ""
    reach, difference = theirs + (0 if math.isnan(width) else width), value - target
    if not cell.tolerance.alone and reach > 0 and abs(difference) <= reach:
        return said("reproduced", f"{by}the intervals overlap ({source})")
    if cell.corrected is None and abs(difference) <= cell.resolution * (1 + 1e-9):
        return said("reproduced", f"{by}the difference is below the precision of the print")
    if cell.tolerance.holds(value, target):
        return said("reproduced", f"{by}within the tolerance of this table")
    why = "beyond the tolerance of this table" if cell.tolerance.alone else f"the intervals do not overlap ({source})"
    return said("above" if difference > 0 else "below", f"{by}{why}")


def _own_half_width(cell: Cell, as_printed: bool) -> float:
    """Half the 95 % interval of the result, in the unit of the runs: over tasks or, if wider, over seeds.

    The interval over seeds is the normal one. Student's, which the cell shows, is so wide for two seeds that every
    number would be reproduced.
    """
    widths = [result.half_width for result in cell.results]
    count = len(widths)
    over_tasks = math.hypot(*widths) / count  # a power of a huge number, as of a diverged run, would raise
    if count == 1:
        return over_tasks
    values = [result.as_printed if as_printed else result.value for result in cell.results]
    mean = sum(values) / count
    spread = math.hypot(*(value - mean for value in values)) / math.sqrt(count - 1)
    over_seeds = Z * spread / math.sqrt(count)
    return over_seeds if math.isnan(over_tasks) else max(over_seeds, over_tasks)


def _half_width(cell: Cell, table: PublishedTable) -> tuple[float, str]:
    """Half the 95 % interval of the target, in the printed unit, and its origin."""
    width = cell.published_half_width if cell.corrected is None else cell.corrected_half_width
    if width is not None and table.interval == "ci95":
        return width, "the paper prints its interval"
    if width is not None and table.interval == "std" and table.runs:
        return Z * width / math.sqrt(table.runs), f"its interval from the deviation of {table.runs} runs"
    tasks = table.tasks
    if cell.corrected is not None and cell.corrected_source:
        tasks = published_table(cell.corrected_source).tasks
    if tasks:
        spread = [r.half_width * math.sqrt(r.tasks) for r in cell.results if r.tasks > 0 and r.half_width >= 0]
        if spread:
            implied = cell.scale * sum(spread) / len(spread) / math.sqrt(tasks)
            return implied, f"its interval implied by {tasks:,} tasks"
    return 0.0, "the paper prints no interval"
