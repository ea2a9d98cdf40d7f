"""Fill a table from the record: the runs of its cells, verdicts, the best cell of each column, and claims."""

from typing import TYPE_CHECKING

from runs.tables.best import with_best
from runs.tables.claims import clustering as clustering_claims
from runs.tables.claims import fair as fair_claims
from runs.tables.claims.claim import Finding
from runs.tables.claims.few_shot import PerTask, check
from runs.tables.filling import Record
from runs.tables.papers.paper import is_paper, judged
from runs.tables.table import Table

if TYPE_CHECKING:
    from runs.record.tracking import Tracker


def look_up(
    table: Table, tracker: "Tracker", record: Record | None = None, read: PerTask | None = None
) -> tuple[Table, list[Finding]]:
    """The table with its runs in the record, and the claims checked on them.

    Args:
        record: the runs, if they were read before.
        read: reads runs task by task; give one to share what it has read between tables.
    """
    record = record or Record.of(table, tracker)
    table = record.filled(table)
    if is_paper(table.name):
        table = judged(table)
    read = read or PerTask(tracker)
    findings = [*check(table, read), *clustering_claims.check(table, tracker)]
    findings += fair_claims.check(table, record.paths.of_result)
    return with_best(table, read), findings
