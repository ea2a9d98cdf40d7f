"""Texts that all formats share: headings, the reasons for verdicts, and the legend."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from runs.tables.formats import numbers
from runs.tables.papers.published import published_table
from runs.tables.table import STATUSES, Column, Finding, Row, Table, VerdictStatus, is_paper

ABBREVIATIONS = {
    "NMI": "normalised mutual information",
    "ACC": "accuracy under the best matching of clusters to classes",
    "ARI": "adjusted Rand index",
}
METRICS = {"acc_hungarian": "ACC", "nmi": "NMI", "ari": "ARI"}
KINDS = {
    "rerun": "a rival run by the authors of the paper",
    "quoted": "copied by the paper from elsewhere; cannot be run here unless it has a verdict",
    "unclear": "the paper does not say whose number it is",
}
INTERVALS = {"ci95": "± of the paper: 95 % intervals", "std": "in brackets: standard deviations"}
JUDGED: tuple[VerdictStatus, ...] = ("reproduced", "above", "below")


def compares(table: Table) -> bool:
    """Whether a table is compared with printed numbers: a paper's table, but not on another benchmark."""
    return is_paper(table.name) and "@" not in table.name


def kinds(table: Table) -> bool:
    """Whether there is a column of kinds. There is none where all rows are the paper's own, or where the table is not
    compared with the print."""
    return (compares(table) or not is_paper(table.name)) and bool({row.kind for row in table.rows} - {"", "own"})


def corner(table: Table) -> str:
    """The heading of the names of rows; empty in a paper's table, whose rows have several kinds of names."""
    clusterings = any(cell.clustering for cell in table.cells.values())
    return "" if is_paper(table.name) else "method" if clusterings else "strategy"


def heading(table: Table, column: Column) -> str:
    """The name of a column, with its metric and unit where the table has several."""
    name = _name(table, column)
    if column.unit and len({c.unit for c in table.columns}) > 1:
        name += f" ({column.unit})"
    kind = "" if any(row.kind for row in table.rows) else _kind(table, column)
    return f"{name}, {kind}" if kind else name


def _name(table: Table, column: Column) -> str:
    name = column.name
    if [(c.group, c.name) for c in table.columns].count((column.group, column.name)) > 1:
        name += f" {METRICS.get(column.metric, column.metric.replace('_', ' '))}"
    return name


def _kind(table: Table, column: Column) -> str:
    """The kind of the numbers of a column, where the columns are methods."""
    kinds = {cell.published.kind for (_, c), cell in table.cells.items() if c == column and cell.published}
    return kinds.pop() if len(kinds) == 1 else ""


def tally(table: Table) -> str:
    """Number of cells with each verdict: "3 reproduced, 1 below, 12 not run"."""
    return ", ".join(f"{count} {status}" for status, count in table.statuses.items())


def shared_verdict(table: Table, row: Row) -> str | None:
    """The verdict that all cells of a row without runs share; None where each cell shows its own.

    Empty where the verdicts below the table, or the kind of the row, already say it.
    """
    cells = [cell for (r, _), cell in table.cells.items() if r == row]
    statuses = {cell.verdict.status for cell in cells if cell.verdict}
    if len(statuses) != 1 or any(cell.results or cell.shipped for cell in cells):
        return None
    everywhere = {cell.verdict.status for cell in table.cells.values() if cell.verdict}
    quoted = row.kind == "quoted" and statuses == {"cannot run here"}
    return "" if len(everywhere) == 1 or quoted else statuses.pop()


def reasons(table: Table) -> list[str]:
    """Reasons for verdicts that do not follow from comparing numbers, each with its cells."""
    places: dict[tuple[VerdictStatus, str], list[tuple[Row, Column]]] = {}
    for place, cell in table.cells.items():
        if cell.verdict and cell.verdict.why and cell.verdict.status not in JUDGED:
            places.setdefault((cell.verdict.status, cell.verdict.why), []).append(place)
    ordered = sorted(places, key=lambda reason: STATUSES.index(reason[0]))
    return [f"{status}, {why}: {_where(table, places[status, why])}" for status, why in ordered]


def _where(table: Table, places: Sequence[tuple[Row, Column]]) -> str:
    """Cells by group and row, with their columns unless all columns of the row are meant."""
    if len(places) == len(table.cells):
        return "all"
    rows_of: dict[tuple[Column, ...], list[Row]] = {}
    for row in dict.fromkeys(row for row, _ in places):
        meant = tuple(column for r, column in places if r == row)
        whole = len(meant) == sum(r == row for r, _ in table.cells)
        rows_of.setdefault(() if whole else meant, []).append(row)
    return "; ".join(
        _rows(rows) + (f" in {_columns(table, columns)}" if columns else "") for columns, rows in rows_of.items()
    )


def _rows(rows: Iterable[Row]) -> str:
    """Names of rows, with the name of each group once."""
    named = groupby(by_group(rows), lambda row: row.group)
    return "; ".join(f"{group} {', '.join(row.name for row in some)}".strip() for group, some in named)


def _columns(table: Table, columns: Iterable[Column]) -> str:
    """Names of columns, with the name of each group once."""
    named = groupby(columns, lambda column: column.group)
    return "; ".join(f"{group} {', '.join(_name(table, c) for c in some)}".strip() for group, some in named)


def by_group(rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by group, in the order in which groups first appear."""
    rows = list(rows)
    groups = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: groups.index(row.group))


def blocks(table: Table) -> list[tuple[Column, ...]]:
    """Columns to be set side by side. A group of columns without a row in common with those before it starts a new
    block."""
    side_by_side: list[tuple[Column, ...]] = []
    known: set[Row] = set()
    for _, group in groupby(table.columns, lambda column: column.group):
        columns = tuple(group)
        rows = {row for row, column in table.cells if column in columns}
        if side_by_side and known & rows:
            side_by_side[-1] += columns
            known |= rows
        else:
            side_by_side.append(columns)
            known = rows
    return side_by_side


def claim(finding: Finding) -> dict[str, str]:
    """A finding, by the headings of the table of claims."""
    return {
        "claim": finding.claim,
        "source": finding.source,
        "in": finding.setting,
        "verdict": finding.status,
        "evidence": finding.evidence,
    }


def sentence(finding: Finding) -> str:
    """A claim with its source, its setting and the evidence, without its status."""
    where = ", ".join(filter(None, (finding.source, finding.setting)))
    return f"{finding.claim} ({where}){': ' if finding.evidence else ''}{finding.evidence}"


def legend(table: Table) -> list[str]:
    """Meaning of the words and signs that occur in a paper's table."""
    if not compares(table):
        return []
    cells = table.cells.values()
    printed = [cell.published for cell in cells if cell.published]
    has_runs = any(cell.results for cell in cells)
    lines = []
    of_paper = published_table(table.name.partition("@")[0])
    if of_paper.interval in INTERVALS and printed:
        count = of_paper.tasks if of_paper.over == "tasks" else of_paper.runs
        over = f" over {f'{count:,} ' if count else ''}{of_paper.over}" if of_paper.over else ""
        lines.append(f"{INTERVALS[of_paper.interval]}{over}")
    elif printed and has_runs:
        tasks = f"; its numbers are means over {of_paper.tasks:,} tasks" if of_paper.tasks else ""
        lines.append(f"the paper prints no intervals{tasks}")
    kinds = {value.kind for value in printed}
    lines += [f"{kind}: {text}" for kind, text in KINDS.items() if kind in kinds]
    sources = {value.corrected_source for value in printed if value.corrected is not None}
    if sources:
        lines.append(f"corrected target: replaces the printed number; from {' and '.join(sorted(sources))}")
    if any(cell.shipped for cell in cells):
        lines.append("shipped: the result of the runs that the project ships, scored as in the paper")
    if has_runs:
        lines.append("here: the result of the runs in this record; difference: here minus the target")
    other = {place: cell for place, cell in table.cells.items() if numbers.scored(cell, place[1])}
    scorings = {numbers.scoring(cell) for cell in other.values() if cell.on_path is None}
    if scorings:
        lines.append(f"scored as printed: as in the paper, by {' and '.join(sorted(scorings))}; this is compared")
    on_paths: dict[str, list[Row]] = {}
    for (row, _), cell in other.items():
        if cell.on_path is not None:
            on_paths.setdefault(numbers.scoring(cell), []).append(row)
    if on_paths:
        places = "; ".join(f"{scoring} ({_rows(dict.fromkeys(rows))})" for scoring, rows in on_paths.items())
        lines.append(f"scored as printed: the point of a path that is compared, for the paper names none: {places}")
    if any(cell.best for cell in cells):
        lines.append("bold: significantly better, task by task, than every other cell of its column")
    return lines
