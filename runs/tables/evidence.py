"""Fill a table from the record: the runs of its cells, verdicts, the best cell of each column, and claims."""

import dataclasses
from typing import TYPE_CHECKING

from runs.tables.best import with_best
from runs.tables.claims import clustering, fair, few_shot
from runs.tables.filling import Record
from runs.tables.formats import wording
from runs.tables.papers.paper import is_paper, judged
from runs.tables.shipped import beside, shipped_results
from runs.tables.table import Table

if TYPE_CHECKING:
    from runs.track import Tracker


def look_up(table: Table, tracker: "Tracker", record: Record | None = None) -> Table:
    """The table with its runs in the record, their verdicts, and the claims checked on them.

    A paper's table also has the shipped results.

    Args:
        record: the runs, if they were read before.
    """
    own = _looked_up(table, record or Record.of(table, tracker))
    ours = shipped_results() if wording.compares(table) and not table.seeds else None
    return beside(own, judged(ours.fill(table))) if ours else own


def _looked_up(table: Table, record: Record) -> Table:
    files = record.files
    table = record.filled(table)
    if is_paper(table.name):
        table = judged(table)
    findings = [
        *few_shot.check(table, files.scores),
        *clustering.check(table, files.trials),
        *fair.check(table, lambda result: files.trade_off(result.run_id, result.artifacts)),
    ]
    return dataclasses.replace(with_best(table, files.scores), findings=tuple(findings))
