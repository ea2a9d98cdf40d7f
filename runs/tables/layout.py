"""What every format of a table shows: its lines, with numbers as text, the columns that fit side by side, and the lists
below it.

A row of a paper's table has a line for the printed numbers and, below it, lines for the corrected target, the result
here and the verdict, as far as there are any. A row of an experiment is one line. Numbers are in the unit of their
column, with as many digits as the print has.
"""

import dataclasses
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from runs.tables.papers.published import Value, published_table
from runs.tables.table import STATUSES, Cell, Column, Finding, Row, SeedResult, Table, VerdictStatus

HEADING = 12  # characters that a line of a heading may always have
LETTERS = "abcdefghijklmnoprstuvwxyz"  # marks of footnotes; Unicode has no raised q
PERCENT = "0.00"  # digits where nothing is printed
LONG = 6  # decimals of a print beyond which intervals and differences have two
METRICS = {"acc_hungarian": "ACC", "nmi": "NMI", "ari": "ARI"}
KINDS = {
    "rerun": "a rival run by the authors of the paper",
    "quoted": "copied by the paper from elsewhere; cannot be run here unless it has a verdict",
    "unclear": "the paper does not say whose number it is",
}
INTERVALS = {"ci95": "± of the paper: 95 % intervals", "std": "in brackets: standard deviations"}
LEGEND = {
    "shipped": "the result of the runs that the project ships, scored as in the paper",
    "here": "the result of the runs in this record; difference: here minus the target",
    "bold": "significantly better, task by task, than every other cell of its column",
}
JUDGED: tuple[VerdictStatus, ...] = ("reproduced", "above", "below")


@dataclass(frozen=True)
class Piece:
    """A line in one column: its text, marks of footnotes, whether it is emphasised, its verdict, its runs, and what it
    labels: a group of rows, the first line of a row, or one of its other lines."""

    text: str = ""
    marks: str = ""
    best: bool = False
    status: VerdictStatus | None = None
    why: str = ""
    runs: tuple[SeedResult, ...] = ()
    labels: Literal["", "group", "first", "more"] = ""


@dataclass(frozen=True)
class Line:
    """One line of a row. Its label is the name of the row in the first line, then what the line shows."""

    row: Row
    label: str
    pieces: Mapping[Column, Piece] = field(default_factory=dict)
    marks: str = ""
    first: bool = False


def measured(table: Table, cell: Cell, column: Column) -> str:
    """Mean and interval of the runs in the unit of the column, and the number of seeds, unless all cells have the same,
    which the title says; without runs, the verdict."""
    if not cell.results:
        return cell.verdict.status if cell.verdict else "not run"
    in_title = len({len(other.results) for other in table.cells.values() if other.results}) == 1
    seeds = f" (n={len(cell.results)})" if len(cell.results) > 1 and not in_title else ""
    of_column = (other.published.printed for (_, c), other in table.cells.items() if c == column and other.published)
    like = _like(cell, column) or next(of_column, "")
    return _spell(column.scale * cell.value, column.scale * cell.half_width, like) + seeds


def corrected(value: Value | None) -> str:
    """The number to compare with instead of the printed one; empty without one."""
    if value is None or value.corrected is None:
        return ""
    return _spell(value.corrected, value.corrected_half_width, value.printed)


def scored(cell: Cell, column: Column) -> str:
    """The result scored as in the paper; empty where that is the metric of the column, or where there is a corrected
    target."""
    if not cell.scored or math.isnan(cell.as_printed) or (cell.published and cell.published.corrected is not None):
        return ""
    return _number(column.scale * cell.as_printed, _like(cell, column))


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
    return cell.published.printed if cell.published else PERCENT if column.unit == "%" else ""


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


def lines(table: Table) -> list[Line]:
    """The lines from top to bottom, rows of a group together."""
    marks = {key: mark for mark, key, _ in footnotes(table)}
    return [line for row in _by_group(table.rows) for line in _of_row(table, row, marks)]


def _of_row(table: Table, row: Row, marks: Mapping[str, str]) -> Iterator[Line]:
    cells = {column: table.cells[row, column] for column in table.columns if (row, column) in table.cells}
    here = {c: Piece(measured(table, cell, c), best=cell.best, runs=cell.results) for c, cell in cells.items()}
    if not table.compares:
        yield Line(row, row.name, here, first=True)
        return
    printed = {
        column: Piece(
            cell.published.printed if cell.published else "-",
            "".join(sorted((marks[key] for key in _cited(cell) if key in marks), key=lambda mark: (len(mark), mark))),
        )
        for column, cell in cells.items()
    }
    yield Line(row, row.name, printed, marks.get(row.note, ""), first=True)
    below: dict[str, dict[Column, Piece]] = {}
    shared = _shared_verdict(table, row)
    for column, cell in cells.items():
        shipped = dataclasses.replace(cell, results=cell.shipped)
        texts = {
            "corrected target": corrected(cell.published),
            "shipped": cell.shipped and (scored(shipped, column) or measured(table, shipped, column)),
            "scored as printed": scored(cell, column),
        }
        for label, text in texts.items():
            below.setdefault(label, {})[column] = Piece(text or "")
        if cell.results:
            below.setdefault("here", {})[column] = here[column]
        if cell.verdict and shared is None:
            verdict = f"{difference(cell, column)} {cell.verdict.status}".strip()
            below.setdefault("verdict", {})[column] = Piece(verdict, status=cell.verdict.status, why=cell.verdict.why)
    for label in ("corrected target", "shipped", "here", "scored as printed", "verdict"):
        if kept := {column: piece for column, piece in below.get(label, {}).items() if piece.text}:
            yield Line(row, label, kept)
    if shared:
        yield Line(row, shared)


def _shared_verdict(table: Table, row: Row) -> str | None:
    """The verdict that all cells of a row without runs share; None where each cell shows its own.

    Empty where the verdicts below the table, or the kind of the row, already say it.
    """
    cells = [cell for (r, _), cell in table.cells.items() if r == row]
    statuses = {cell.verdict.status for cell in cells if cell.verdict}
    if len(statuses) != 1 or any(cell.results or cell.shipped for cell in cells):
        return None
    quoted = row.kind == "quoted" and statuses == {"cannot run here"}
    return "" if len(table.statuses) == 1 or quoted else statuses.pop()


def kinds(table: Table) -> bool:
    """Whether there is a column of kinds. There is none where all rows are the paper's own, or where the table is not
    compared with the print."""
    return (table.compares or not table.is_paper) and bool({row.kind for row in table.rows} - {"", "own"})


def heading(table: Table, column: Column) -> str:
    """The name of a column, with its metric, unit and kind where the table has several."""
    name = column.name
    if [(c.group, c.name) for c in table.columns].count((column.group, column.name)) > 1:
        name += f" {METRICS.get(column.metric, column.metric.replace('_', ' '))}"
    if column.unit and len({c.unit for c in table.columns}) > 1:
        name += f" ({column.unit})"
    kinds = {cell.published.kind for (_, c), cell in table.cells.items() if c == column and cell.published}
    return f"{name}, {kinds.pop()}" if len(kinds) == 1 and not any(row.kind for row in table.rows) else name


def wrapped(*headings: str) -> str:
    """The headings of a column in short lines."""
    return "\n".join(line for text in headings for line in textwrap.wrap(text, HEADING))


def parts(table: Table, shown: Sequence[Line], width: float = math.inf, gap: int = 3) -> list[list[Column]]:
    """The columns in parts that fit a width in characters. A group of columns is split only if it is too wide by
    itself, and columns without a row in common with those before begin a new part."""
    labels = [*heads(table)[:1], *(line.label + line.marks for line in shown), *(row.group for row in table.rows)]
    free = width - max(map(len, labels)) - 4 - gap
    free -= max(map(len, ("kind", *(row.kind for row in table.rows)))) + gap if kinds(table) else 0
    found: list[list[Column]] = []
    left, known = 0.0, set[Row]()
    for _, group in groupby(table.columns, lambda column: column.group):
        widths = {}
        for column in group:
            pieces = [line.pieces[column] for line in shown if column in line.pieces]
            names = wrapped(column.group, heading(table, column)).splitlines()
            widths[column] = max(map(len, (*names, *(piece.text + piece.marks for piece in pieces)))) + gap
        rows = {row for row, column in table.cells if column in widths}
        if sum(widths.values()) > left or not known & rows:
            left = 0
        for column, wide in widths.items():
            if wide > left:
                found.append([])
                left, known = free, set()
            found[-1].append(column)
            left -= wide
            known |= rows
    return found


def grid(table: Table, shown: Sequence[Line], columns: Sequence[Column]) -> Iterator[list[Piece]]:
    """The lines that have something in these columns: label, kind if the table has kinds, and a piece a column."""
    rows = {line.row for line in shown if any(column in line.pieces for column in columns)}
    kept = [line for line in shown if line.row in rows and (not line.pieces or line.pieces.keys() & {*columns})]
    for group, some in groupby(kept, lambda line: line.row.group):
        if group:
            yield [Piece(group, labels="group"), *[Piece()] * (kinds(table) + len(columns))]
        for line in some:
            status = next((one for one in STATUSES if not line.first and one == line.label), None)
            label = Piece(line.label, line.marks, status=status, labels="first" if line.first else "more")
            kind = [Piece(line.row.kind if line.first else "")] * kinds(table)
            yield [label, *kind, *(line.pieces.get(column, Piece()) for column in columns)]


def heads(table: Table) -> list[str]:
    """The headings of the columns of labels and kinds. The first is empty in a paper's table, whose rows have several
    kinds of names."""
    clusterings = any(cell.clustering for cell in table.cells.values())
    return ["" if table.is_paper else "method" if clusterings else "strategy", *["kind"] * kinds(table)]


def footnotes(table: Table) -> list[tuple[str, str, str]]:
    """(mark, key, text) of errata, causes of differences and remarks of rows, in the order of the table; the last ones,
    without a mark, are about the whole table. Empty without a print to compare with."""
    if not table.compares:
        return []
    texts = {erratum.id: f"{erratum.id}: {erratum.text}" for erratum in table.errata}
    causes = [cell.verdict.cause for cell in table.cells.values() if cell.verdict]
    texts |= {cause.id: f"{cause.id}: {cause}" for cause in causes if cause}
    texts |= {row.note: row.note for row in table.rows}
    places = {
        row: [table.cells[row, column] for column in table.columns if (row, column) in table.cells]
        for row in table.rows
    }
    cited = [
        key for row, cells in places.items() for key in (row.note, *(key for cell in cells for key in _cited(cell)))
    ]
    order = [key for key in dict.fromkeys(cited) if key and key in texts]
    marked = [(_letters(i), key, texts[key]) for i, key in enumerate(order)]
    return marked + [("", key, text) for key, text in texts.items() if key and key not in order]


def _cited(cell: Cell) -> tuple[str, ...]:
    """The ids of the errata of a cell, and of the cause of its difference."""
    errata = cell.published.errata if cell.published else ()
    cause = cell.verdict.cause if cell.verdict else None
    return (*errata, cause.id) if cause else errata


def _letters(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(i, len(LETTERS))
    return (_letters(before - 1) if before else "") + LETTERS[last]


def below(table: Table) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The lists below a table that are not empty: heading, and texts with their marks (or "")."""
    verdicts = ", ".join(f"{count} {status}" for status, count in table.statuses.items())
    lists = {
        "Legend": [("", text) for text in _legend(table)],
        "Notes": [(mark, text) for mark, _, text in footnotes(table)],
        f"Verdicts: {verdicts}": [("", text) for text in _reasons(table)],
        "Remarks": [("", text) for text in table.notes],
    }
    yield from ((name, texts) for name, texts in lists.items() if texts)


def _legend(table: Table) -> list[str]:
    """Meaning of the words and signs that occur in a paper's table."""
    if not table.compares:
        return []
    paper, cells = published_table(table.name), table.cells.values()
    printed = [cell.published for cell in cells if cell.published]
    count = paper.tasks if paper.over == "tasks" else paper.runs
    over = f" over {f'{count:,} ' if count else ''}{paper.over}" if paper.over else ""
    found = [f"{INTERVALS[paper.interval]}{over}"] if paper.interval in INTERVALS and printed else []
    found += [f"{kind}: {text}" for kind, text in KINDS.items() if kind in {value.kind for value in printed}]
    sources = {value.corrected_source for value in printed if value.corrected is not None}
    labels = {line.label for line in lines(table)} | ({"bold"} if any(cell.best for cell in cells) else set())
    target = f"replaces the printed number; from {' and '.join(sorted(sources))}"
    found += [f"{label}: {text}" for label, text in {"corrected target": target, **LEGEND}.items() if label in labels]
    scorings: dict[str, list[Row]] = {}
    for (row, column), cell in table.cells.items():
        if scored(cell, column):
            name = cell.scored.removeprefix("audit_").replace("_", " ")
            scorings.setdefault(name, []).extend([row] if cell.on_path else [])
    ways = (f"{name} ({_names(rows)})" if rows else name for name, rows in sorted(scorings.items()))
    return found + [f"scored as printed: what is compared, by {'; '.join(ways)}"] * bool(scorings)


def _reasons(table: Table) -> list[str]:
    """Reasons for verdicts that do not follow from comparing numbers, each with its rows."""
    rows: dict[tuple[VerdictStatus, str], list[Row]] = {}
    for (row, _), cell in table.cells.items():
        if cell.verdict and cell.verdict.why and cell.verdict.status not in JUDGED:
            rows.setdefault((cell.verdict.status, cell.verdict.why), []).append(row)
    ordered = sorted(rows.items(), key=lambda item: STATUSES.index(item[0][0]))
    whole = len(table.cells)
    return [f"{status}, {why}: {'all' if len(of) == whole else _names(of)}" for (status, why), of in ordered]


def _names(rows: Iterable[Row]) -> str:
    """Names of rows, with the name of each group once."""
    named = groupby(_by_group(dict.fromkeys(rows)), lambda row: row.group)
    return "; ".join(f"{group} {', '.join(row.name for row in some)}".strip() for group, some in named)


def _by_group(rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by group, in the order in which groups first appear."""
    rows = list(rows)
    groups = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: groups.index(row.group))


def claim(finding: Finding) -> dict[str, str]:
    """A finding, by the headings of the table of claims."""
    return {
        "claim": finding.claim,
        "source": finding.source,
        "in": finding.setting,
        "verdict": finding.status,
        "evidence": finding.evidence,
    }
