"""What every format of a table shows: its lines, with numbers as text, the columns that fit side by side, and the lists
below it.

A row of a paper's table has a line for the printed numbers and, below it, lines for the corrected target, the result
here and the verdict, as far as there are any. A row of an experiment is one line. Numbers are in the unit of their
column, with as many digits as the print has.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from runs.tables.published import published_table
from runs.tables.table import STATUSES, Cell, SeedResult, Status, Table

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
    "corrected target": "replaces the printed number; from",
    "shipped": "the result of the runs that the project ships, scored as in the paper",
    "here": "the result of the runs in this record; difference: here minus the target",
    "scored as printed": "what is compared, by",
    "bold": "significantly better, task by task, than every other cell of its column",
}
BELOW = ("corrected target", "shipped", "here", "scored as printed", "verdict")  # lines below the printed one
JUDGED: tuple[Status, ...] = ("reproduced", "above", "below")
Key = tuple[str, str, str]
"""Headings and metric of a column."""


@dataclass(frozen=True)
class Piece:
    """A line in one column: its text, marks of footnotes, how it is emphasised, its verdict, and its runs."""

    text: str = ""
    marks: str = ""
    style: Literal["", "bold", "italic"] = ""
    status: Status | None = None
    why: str = ""
    runs: tuple[SeedResult, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line of a row."""

    group: str  # the group of the row
    label: Piece  # the name of the row in the first line, then what the line shows
    pieces: Mapping[Key, Piece]  # of the columns that it has


def measured(cell: Cell, like: str = "", seeds: bool = False) -> str:
    """Mean and interval of the runs in the unit of the column, and their number of `seeds`; without runs, the verdict.

    Args:
        like: a number with the digits that numbers without a print get.
    """
    if not cell.results:
        return cell.verdict or "not run"
    count = f" (n={len(cell.results)})" if seeds and len(cell.results) > 1 else ""
    return _spell(cell.scale * cell.value, cell.scale * cell.half_width, _like(cell) or like) + count


def corrected(cell: Cell) -> str:
    """The number to compare with instead of the printed one; empty without one."""
    return "" if cell.corrected is None else _spell(cell.corrected, cell.corrected_half_width, cell.printed)


def scored(cell: Cell) -> str:
    """The result scored as in the paper; empty where that is the metric of the column, or where there is a corrected
    target."""
    if not cell.scored or math.isnan(cell.as_printed) or cell.corrected is not None:
        return ""
    return _number(cell.scale * cell.as_printed, _like(cell))


def difference(cell: Cell) -> str:
    """Result minus target, in the unit of the column; empty without one. It has two significant digits where the digits
    of the print would round it to 0."""
    if math.isnan(cell.difference):
        return ""
    text = _number(cell.difference, _shortened(_like(cell)), "+")
    hidden = cell.verdict in ("above", "below") and float(text) == 0
    return f"{cell.difference:+.2g}" if hidden else text


def _like(cell: Cell) -> str:
    """A number with as many digits as the numbers of the cell get."""
    return cell.printed or (PERCENT if cell.unit == "%" else "")


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
    digits = {cell.column_key: cell.printed for cell in reversed(table.cells) if cell.printed}
    alike = len({len(cell.results) for cell in table.cells if cell.results}) == 1  # the title says how many seeds
    rows = {key: list(cells) for key, cells in groupby(table.ordered, lambda cell: cell.row_key)}

    def shown(cell: Cell) -> Piece:
        text = measured(cell, digits.get(cell.column_key, ""), not alike)
        return Piece(text, style="bold" if cell.best else "", runs=cell.results)

    def stacked(cell: Cell) -> dict[str, Piece]:
        if not table.compares:
            return {"": shown(cell)}
        cited = sorted((marks[key] for key in _cited(cell) if key in marks), key=lambda mark: (len(mark), mark))
        shipped = cell.as_shipped
        pieces = {
            "": Piece(cell.printed or "-", "".join(cited)),
            "corrected target": Piece(corrected(cell)),
            "shipped": Piece((scored(shipped) or shown(shipped).text) if cell.shipped else ""),
            "here": shown(cell) if cell.results else Piece(),
            "scored as printed": Piece(scored(cell)),
        }
        if cell.verdict and (cell.results or cell.shipped):
            text = f"{difference(cell)} {cell.verdict}".strip()
            pieces["verdict"] = Piece(text, status=cell.verdict, why=cell.why)
        return {name: piece for name, piece in pieces.items() if piece.text}

    found = []
    for cells in map(rows.__getitem__, _by_group(rows)):
        first, by_column = cells[0], {cell.column_key: stacked(cell) for cell in cells}
        has_kind = first.row_kind not in ("", "own") and (table.compares or not table.is_paper)
        label = f"{first.row} ({first.row_kind})" if has_kind else first.row  # on other data nothing is quoted
        for name in ("", *BELOW):
            title = Piece(name, style="italic") if name else Piece(label, marks.get(first.row_note, ""))
            if pieces := {column: of[name] for column, of in by_column.items() if name in of}:
                found.append(Line(first.row_group, title, pieces))
    return found


def headings(table: Table) -> dict[Key, str]:
    """The name of each column, with its metric, unit and kind where the table has several."""
    of_column = {key: [cell for cell in table.cells if cell.column_key == key] for key in table.columns}
    units = {key: cells[0].unit for key, cells in of_column.items()}
    names = [key[:2] for key in table.columns]
    found = {}
    for key in table.columns:
        name, metric = key[1:]
        if names.count(key[:2]) > 1:
            name += f" {METRICS.get(metric, metric.replace('_', ' '))}"
        if units[key] and len({*units.values()}) > 1:
            name += f" ({units[key]})"
        kinds = {cell.kind for cell in of_column[key] if cell.printed}
        alone = len(kinds) == 1 and not any(cell.row_kind for cell in table.cells)
        found[key] = f"{name}, {kinds.pop()}" if alone else name
    return found


def wrapped(*texts: str) -> str:
    """The headings of a column in short lines."""
    return "\n".join(line for text in texts for line in textwrap.wrap(text, HEADING))


def parts(
    table: Table, shown: Sequence[Line], width: float = math.inf, gap: int = 3
) -> Iterator[tuple[list[tuple[str, str]], list[list[Piece]]]]:
    """The columns in parts that fit a width in characters: group and name of each, and rows of pieces: the label, and
    one a column. There are the lines that have something in these columns, and a line for the name of each group of
    rows.

    A group of columns is split only if it is too wide by itself, and columns without a row in common with those before
    begin a new part.
    """
    labels = [*(line.label.text + line.label.marks for line in shown), *(cell.row_group for cell in table.cells)]
    free = width - max(map(len, labels), default=0) - 4 - gap
    heads, found = headings(table), list[list[Key]]()
    left, known = 0.0, set[tuple[str, str]]()
    for group, columns in groupby(table.columns, lambda column: column[0]):
        widths = {}
        for column in columns:
            pieces = [line.pieces[column] for line in shown if column in line.pieces]
            texts = [*wrapped(group, heads[column]).splitlines(), *(piece.text + piece.marks for piece in pieces)]
            widths[column] = max(map(len, texts)) + gap
        rows = {cell.row_key for cell in table.cells if cell.column_key in widths}
        left = left if sum(widths.values()) <= left and known & rows else 0
        for column, wide in widths.items():
            if wide > left:
                found.append([])
                left, known = free, set()
            found[-1].append(column)
            left -= wide
            known |= rows
    for part in found:
        body: list[list[Piece]] = []
        for name, lines_ in groupby((line for line in shown if line.pieces.keys() & {*part}), lambda line: line.group):
            body += [[Piece(name, style="bold"), *[Piece()] * len(part)]] if name else []
            body += [[line.label, *(line.pieces.get(column, Piece()) for column in part)] for line in lines_]
        yield [(column[0], heads[column]) for column in part], body


def footnotes(table: Table) -> list[tuple[str, str, str]]:
    """(mark, key, text) of errata, causes of differences and remarks of rows, in the order of the table; the last ones,
    without a mark, are about the whole table. Empty without a print to compare with."""
    if not table.compares:
        return []
    texts = {erratum.id: f"{erratum.id}: {erratum.text}" for erratum in table.errata}
    texts |= {cell.cause.id: f"{cell.cause.id}: {cell.cause}" for cell in table.cells if cell.cause}
    texts |= {cell.row_note: cell.row_note for cell in table.cells}
    cited = dict.fromkeys(
        key for cell in table.ordered for key in (cell.row_note, *_cited(cell)) if key and key in texts
    )
    marked = [(_letters(i), key, texts[key]) for i, key in enumerate(cited)]
    return marked + [("", key, text) for key, text in texts.items() if key and key not in cited]


def _cited(cell: Cell) -> tuple[str, ...]:
    """The ids of the errata of a cell, and of the cause of its difference."""
    return (*cell.errata, cell.cause.id) if cell.cause else cell.errata


def _letters(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(i, len(LETTERS))
    return (_letters(before - 1) if before else "") + LETTERS[last]


def below(table: Table) -> dict[str, list[tuple[str, str]]]:
    """The lists below a table that are not empty, by heading: texts with their marks (or "")."""
    verdicts = ", ".join(f"{count} {status}" for status, count in table.statuses.items())
    claims = [
        _joined(": ", one.status, f"{one.claim} ({_joined(', ', one.source, one.setting)})", one.evidence)
        for one in table.findings
    ]
    lists = {
        "Legend": [("", text) for text in _legend(table)],
        "Notes": [(mark, text) for mark, _, text in footnotes(table)],
        f"Verdicts: {verdicts}": [("", text) for text in _reasons(table)],
        "Remarks": [("", text) for text in table.notes],
        "What the papers claim": [("", text) for text in claims],
    }
    return {name: texts for name, texts in lists.items() if texts}


def _joined(sign: str, *texts: str) -> str:
    return sign.join(filter(None, texts))


def _legend(table: Table) -> list[str]:
    """Meaning of the words and signs that occur in a paper's table."""
    if not table.compares:
        return []
    paper, printed = published_table(table.name), [cell for cell in table.cells if cell.printed]
    count = paper.tasks if paper.over == "tasks" else paper.runs
    over = f" over {f'{count:,} ' if count else ''}{paper.over}" if paper.over else ""
    found = [f"{INTERVALS[paper.interval]}{over}"] if paper.interval in INTERVALS and printed else []
    found += [f"{kind}: {text}" for kind, text in KINDS.items() if kind in {cell.kind for cell in printed}]
    sources = {cell.corrected_source for cell in printed if cell.corrected is not None}
    ways = {cell.scored.removeprefix("audit_").replace("_", " ") for cell in table.cells if scored(cell)}
    named = {
        "corrected target": f" {' and '.join(sorted(sources))}",
        "scored as printed": f" {'; '.join(sorted(ways))}",
    }
    labels = {line.label.text for line in lines(table)} | (
        {"bold"} if any(cell.best for cell in table.cells) else set()
    )
    return found + [f"{label}: {text}{named.get(label, '')}" for label, text in LEGEND.items() if label in labels]


def _reasons(table: Table) -> list[str]:
    """Reasons for verdicts that do not follow from comparing numbers, each with its rows."""
    rows: dict[tuple[Status, str], list[tuple[str, str]]] = {}
    for cell in table.cells:
        if cell.verdict and cell.verdict not in JUDGED:
            rows.setdefault((cell.verdict, cell.why), []).append(cell.row_key)
    ordered = sorted(rows.items(), key=lambda item: STATUSES.index(item[0][0]))
    whole = len(table.cells)
    return [f"{_joined(', ', *reason)}: {'all' if len(of) == whole else _names(of)}" for reason, of in ordered]


def _names(rows: Iterable[tuple[str, str]]) -> str:
    """Names of rows, with the name of each group once."""
    named = groupby(_by_group(dict.fromkeys(rows)), lambda row: row[0])
    return "; ".join(f"{group} {', '.join(name for _, name in some)}".strip() for group, some in named)


def _by_group(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows sorted by group, in the order in which groups first appear."""
    rows = list(rows)
    groups = list(dict.fromkeys(group for group, _ in rows))
    return sorted(rows, key=lambda row: groups.index(row[0]))
