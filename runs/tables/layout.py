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
from runs.tables.table import STATUSES, Cell, Column, Row, SeedResult, Table, VerdictStatus

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
    "scored as printed": "what is compared, by",
    "bold": "significantly better, task by task, than every other cell of its column",
}
JUDGED: tuple[VerdictStatus, ...] = ("reproduced", "above", "below")


@dataclass(frozen=True)
class Piece:
    """A line in one column: its text, marks of footnotes, how it is emphasised, its verdict, and its runs."""

    text: str = ""
    marks: str = ""
    style: Literal["", "bold", "italic"] = ""
    status: VerdictStatus | None = None
    why: str = ""
    runs: tuple[SeedResult, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line of a row: its label, which is the name of the row in the first line, then what the line shows; and a
    piece for each column that it has."""

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
    has_kind = row.kind not in ("", "own") and (table.compares or not table.is_paper)  # on other data nothing is quoted
    label = f"{row.name} ({row.kind})" if has_kind else row.name
    here = {
        column: Piece(measured(table, cell, column), style="bold" if cell.best else "", runs=cell.results)
        for column, cell in cells.items()
    }
    if not table.compares:
        yield Line(row, label, here, first=True)
        return
    printed = {
        column: Piece(
            cell.published.printed if cell.published else "-",
            "".join(sorted((marks[key] for key in _cited(cell) if key in marks), key=lambda mark: (len(mark), mark))),
        )
        for column, cell in cells.items()
    }
    yield Line(row, label, printed, marks.get(row.note, ""), first=True)
    below: dict[str, dict[Column, Piece]] = {}
    for column, cell in cells.items():
        shipped, verdict = dataclasses.replace(cell, results=cell.shipped), cell.verdict
        pieces = {
            "corrected target": Piece(corrected(cell.published)),
            "shipped": Piece(scored(shipped, column) or measured(table, shipped, column) if cell.shipped else ""),
            "here": here[column] if cell.results else Piece(),
            "scored as printed": Piece(scored(cell, column)),
        }
        if verdict and (cell.results or cell.shipped):
            text = f"{difference(cell, column)} {verdict.status}".strip()
            pieces["verdict"] = Piece(text, status=verdict.status, why=verdict.why)
        for name, piece in pieces.items():
            below.setdefault(name, {}).update({column: piece} if piece.text else {})
    yield from (Line(row, name, below[name]) for name in below if below[name])


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


def parts(
    table: Table, shown: Sequence[Line], width: float = math.inf, gap: int = 3
) -> Iterator[tuple[list[Column], list[Line]]]:
    """The columns in parts that fit a width in characters, each with those of the lines that have something in them.

    A group of columns is split only if it is too wide by itself, and columns without a row in common with those before
    begin a new part.
    """
    labels = [*(line.label + line.marks for line in shown), *(row.group for row in table.rows)]
    free = width - max(map(len, labels), default=0) - 4 - gap
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
    for columns in found:
        yield columns, [line for line in shown if line.pieces.keys() & {*columns}]


def footnotes(table: Table) -> list[tuple[str, str, str]]:
    """(mark, key, text) of errata, causes of differences and remarks of rows, in the order of the table; the last ones,
    without a mark, are about the whole table. Empty without a print to compare with."""
    if not table.compares:
        return []
    texts = {erratum.id: f"{erratum.id}: {erratum.text}" for erratum in table.errata}
    causes = [cell.verdict.cause for cell in table.cells.values() if cell.verdict]
    texts |= {cause.id: f"{cause.id}: {cause}" for cause in causes if cause}
    texts |= {row.note: row.note for row in table.rows}
    cited = []
    for row in table.rows:
        cells = [table.cells[row, column] for column in table.columns if (row, column) in table.cells]
        cited += [row.note, *(key for cell in cells for key in _cited(cell))]
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


def below(table: Table) -> dict[str, list[tuple[str, str]]]:
    """The lists below a table that are not empty, by heading: texts with their marks (or "")."""
    verdicts = ", ".join(f"{count} {status}" for status, count in table.statuses.items())
    lists = {
        "Legend": [("", text) for text in _legend(table)],
        "Notes": [(mark, text) for mark, _, text in footnotes(table)],
        f"Verdicts: {verdicts}": [("", text) for text in _reasons(table)],
        "Remarks": [("", text) for text in table.notes],
        "What the papers claim": [
            ("", _joined(": ", one.status, f"{one.claim} ({_joined(', ', one.source, one.setting)})", one.evidence))
            for one in table.findings
        ],
    }
    return {name: texts for name, texts in lists.items() if texts}


def _joined(sign: str, *texts: str) -> str:
    return sign.join(filter(None, texts))


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
    ways = {cell.scored for (_, column), cell in table.cells.items() if scored(cell, column)}
    named = {
        "corrected target": f" {' and '.join(sorted(sources))}",
        "scored as printed": " " + "; ".join(sorted(way.removeprefix("audit_").replace("_", " ") for way in ways)),
    }
    labels = {line.label for line in lines(table)} | ({"bold"} if any(cell.best for cell in cells) else set())
    words = {"corrected target": "replaces the printed number; from", **LEGEND}
    return found + [f"{label}: {text}{named.get(label, '')}" for label, text in words.items() if label in labels]


def _reasons(table: Table) -> list[str]:
    """Reasons for verdicts that do not follow from comparing numbers, each with its rows."""
    rows: dict[tuple[VerdictStatus, str], list[Row]] = {}
    for (row, _), cell in table.cells.items():
        if cell.verdict and cell.verdict.status not in JUDGED:
            rows.setdefault((cell.verdict.status, cell.verdict.why), []).append(row)
    ordered = sorted(rows.items(), key=lambda item: STATUSES.index(item[0][0]))
    whole = len(table.cells)
    return [
        f"{_joined(', ', status, why)}: {'all' if len(of) == whole else _names(of)}" for (status, why), of in ordered
    ]


def _names(rows: Iterable[Row]) -> str:
    """Names of rows, with the name of each group once."""
    named = groupby(_by_group(dict.fromkeys(rows)), lambda row: row.group)
    return "; ".join(f"{group} {', '.join(row.name for row in some)}".strip() for group, some in named)


def _by_group(rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by group, in the order in which groups first appear."""
    rows = list(rows)
    groups = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: groups.index(row.group))
