"""The rule for verdicts: it compares the result of runs here with the printed number.

A number is reproduced if the two 95 % intervals overlap, or if the difference is within the precision of the printed
digits or within the tolerance given with the table. Where runs have the queries of the print, only the digits and the
tolerance count. A mean over tasks that is printed without an interval gets the
interval implied by its number of tasks, with the spread between tasks of the run it is compared with.
Where the print is known to be wrong and the right number is known, the right number is the target. Where only the
scoring of the paper is known (LaplacianShot of 2020 was scored by the best permutation of labels), the printed number
is compared with the run scored in that way.
"""

import math

from runs.tables.papers.published import PublishedTable, published_table
from runs.tables.table import Cell, Column, Tolerance, Verdict, VerdictStatus

Z = 1.96  # of a 95 % interval


def judge(cell: Cell, column: Column, table: PublishedTable, tolerance: Tolerance) -> Verdict:
    """The verdict on a cell of a paper's table."""
    printed = cell.published
    if not cell.results:
        return Verdict("not run" if cell.config else "cannot run here", cell.obstacle)
    if printed is None:
        return Verdict("not printed")
    as_printed = printed.corrected is None and cell.scored != ""
    value = column.scale * (cell.as_printed if as_printed else cell.value)
    width = column.scale * _own_half_width(cell, as_printed)
    target = printed.value if printed.corrected is None else printed.corrected
    difference = value - target
    if cell.differs:
        return Verdict("other protocol", "; ".join(cell.differs), difference)
    if not printed.target:
        return Verdict("no target", printed.note, difference)
    if math.isnan(value):
        return Verdict("not run", f"the run has no {cell.scored}")
    theirs, source = _half_width(cell, column, table)
    by = (
        f"scored as printed ({cell.scored.removeprefix('audit_').replace('_', ' ')} {value:.2f}); "
        if as_printed
        else ""
    )
    reach = theirs + (0 if math.isnan(width) else width)
    if not tolerance.alone and reach > 0 and abs(difference) <= reach:
        return Verdict("reproduced", f"{by}the intervals overlap ({source})", difference)
    if printed.corrected is None and abs(difference) <= printed.resolution * (1 + 1e-9):
        return Verdict("reproduced", f"{by}the difference is below the precision of the print", difference)
    if tolerance.holds(value, target):
        return Verdict("reproduced", f"{by}within the tolerance of this table", difference)
    status: VerdictStatus = "above" if difference > 0 else "below"
    why = "beyond the tolerance of this table" if tolerance.alone else f"the intervals do not overlap ({source})"
    return Verdict(status, f"{by}{why}", difference)


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


def _half_width(cell: Cell, column: Column, table: PublishedTable) -> tuple[float, str]:
    """Half the 95 % interval of the target, in the printed unit, and its origin."""
    printed = cell.published
    assert printed is not None
    width = printed.half_width if printed.corrected is None else printed.corrected_half_width
    if width is not None and table.interval == "ci95":
        return width, "the paper prints its interval"
    if width is not None and table.interval == "std" and table.runs:
        return Z * width / math.sqrt(table.runs), f"its interval from the deviation of {table.runs} runs"
    tasks = table.tasks
    if printed.corrected is not None and printed.corrected_source:
        tasks = published_table(printed.corrected_source).tasks
    if tasks:
        spread = [r.half_width * math.sqrt(r.tasks) for r in cell.results if r.tasks > 0 and r.half_width >= 0]
        if spread:
            implied = column.scale * sum(spread) / len(spread) / math.sqrt(tasks)
            return implied, f"its interval implied by {tasks:,} tasks"
    return 0.0, "the paper prints no interval"
