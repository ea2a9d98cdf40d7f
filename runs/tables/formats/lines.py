"""The lines of a table, the columns that fit side by side, and what stands below, for every format.

A row of a paper's table has a line for the printed numbers and, below it, lines for the corrected target, the result
here and the verdict, as far as there are any. A row of an experiment is one line.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from runs.tables.formats import numbers, wording
from runs.tables.table import Cell, Column, Row, SeedResult, Table, VerdictStatus

HEADING = 12  # characters that a line of a heading may always have
LETTERS = "abcdefghijklmnoprstuvwxyz"  # Unicode has no raised q


@dataclass(frozen=True)
class Piece:
    """A line in one column: its text, marks of footnotes, whether it is emphasised, its verdict, and its runs."""

    text: str
    marks: str = ""
    best: bool = False
    status: VerdictStatus | None = None
    why: str = ""
    runs: tuple[SeedResult, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line of a row. Its label is the name of the row in the first line, then what the line shows."""

    row: Row
    label: str
    pieces: Mapping[Column, Piece] = field(default_factory=dict)
    marks: str = ""
    first: bool = False


@dataclass(frozen=True)
class Footnote:
    """A footnote: its mark ("" if about the whole table), the id of the erratum or cause (or ""), and the text."""

    mark: str
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.id}: {self.text}" if self.id else self.text


def lines(table: Table) -> list[Line]:
    """The lines from top to bottom, rows of a group together."""
    notes = footnotes(table)
    return [line for row in wording.by_group(table.rows) for line in _of_row(table, row, notes)]


def _of_row(table: Table, row: Row, notes: Sequence[Footnote]) -> Iterator[Line]:
    cells = {column: table.cells[row, column] for column in table.columns if (row, column) in table.cells}
    measured = {
        column: Piece(numbers.measured(table, cell, column), best=cell.best, runs=cell.results)
        for column, cell in cells.items()
    }
    if not wording.compares(table):
        yield Line(row, row.name, measured, first=True)
        return
    printed = {c: Piece(numbers.as_printed(cell.published), marks(notes, row, cell)) for c, cell in cells.items()}
    yield Line(row, row.name, printed, marks(notes, row), first=True)
    shared = wording.shared_verdict(table, row)
    verdicts = {
        column: Piece(
            f"{numbers.difference(cell, column)} {cell.verdict.status}".strip(),
            status=cell.verdict.status,
            why=cell.verdict.why,
        )
        for column, cell in cells.items()
        if cell.verdict and shared is None
    }
    below = {
        "corrected target": {c: Piece(numbers.corrected(cell.published)) for c, cell in cells.items()},
        "shipped": {c: Piece(numbers.shipped(table, cell, c)) for c, cell in cells.items()},
        "here": {column: piece for column, piece in measured.items() if piece.runs},
        "scored as printed": {c: Piece(numbers.scored(cell, c)) for c, cell in cells.items()},
        "verdict": verdicts,
    }
    for label, pieces in below.items():
        if kept := {column: piece for column, piece in pieces.items() if piece.text}:
            yield Line(row, label, kept)
    if shared:
        yield Line(row, shared)


def heading(table: Table, column: Column, *, group: bool = True) -> list[str]:
    """The heading of a column, its group first, in short lines."""
    texts = [column.group if group else "", wording.heading(table, column)]
    return [line for text in texts for line in textwrap.wrap(text, HEADING)]


def parts(table: Table, shown: Sequence[Line], width: int, gap: int = 3) -> list[list[Column]]:
    """The columns in parts that fit a width in characters. A group of columns is split only if it is too wide by
    itself, and columns without a row in common with those before begin a new part."""
    labels = [wording.corner(table), *(line.label + line.marks for line in shown), *(row.group for row in table.rows)]
    free = width - max(map(len, labels)) - 4 - gap
    free -= max(map(len, ("kind", *(row.kind for row in table.rows)))) + gap if wording.kinds(table) else 0
    widths = {}
    for column in table.columns:
        texts = [line.pieces[column].text + line.pieces[column].marks for line in shown if column in line.pieces]
        widths[column] = max(map(len, (*texts, *heading(table, column)))) + gap
    found: list[list[Column]] = []
    for block in wording.blocks(table):
        left = 0
        for _, group in groupby(block, lambda column: column.group):
            columns = list(group)
            if sum(widths[column] for column in columns) > left:
                left = 0
            for column in columns:
                if widths[column] > left:
                    found.append([])
                    left = free
                found[-1].append(column)
                left -= widths[column]
    return found


def by_group(shown: Sequence[Line], columns: Sequence[Column]) -> Iterator[tuple[str, list[Line]]]:
    """The lines that have something in these columns, by group of rows."""
    rows = {line.row for line in shown if any(column in line.pieces for column in columns)}
    kept = [line for line in shown if line.row in rows and (not line.pieces or line.pieces.keys() & {*columns})]
    yield from ((group, list(some)) for group, some in groupby(kept, lambda line: line.row.group))


def below(table: Table) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The lists below a table that are not empty: heading, and texts with their marks (or "")."""
    yield from _list("Legend", wording.legend(table))
    notes = [(note.mark, str(note)) for note in footnotes(table)]
    yield from [("Notes", notes)] if notes else []
    yield from _list(f"Verdicts: {wording.tally(table)}", wording.reasons(table))
    yield from _list("Remarks", table.notes)


def _list(name: str, texts: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    if texts:
        yield name, [("", text) for text in texts]


def footnotes(table: Table) -> list[Footnote]:
    """Errata, causes of differences and remarks of rows, marked in the order of the table, those without a mark last;
    empty without a print to compare with."""
    if not wording.compares(table):
        return []
    texts: dict[str, str] = {erratum.id: erratum.text for erratum in table.errata}
    causes = [cell.verdict.cause for cell in table.cells.values() if cell.verdict]
    texts |= {cause.id: str(cause) for cause in causes if cause}
    cited = []
    for row in table.rows:
        cited += [row.note] if row.note else []
        for column in table.columns:
            cited += [key for key in _keys(table.cells.get((row, column))) if key in texts]
    order = list(dict.fromkeys(cited))
    marked = [Footnote(_letters(i), key if key in texts else "", texts.get(key, key)) for i, key in enumerate(order)]
    return marked + [Footnote("", key, text) for key, text in texts.items() if key not in order]


def marks(notes: Sequence[Footnote], row: Row, cell: Cell | None = None) -> str:
    """The marks of a row's name, or of a cell."""
    keys = _keys(cell) if cell else (row.note,)
    return "".join(note.mark for note in notes if note.mark and (note.id or note.text) in keys)


def _keys(cell: Cell | None) -> tuple[str, ...]:
    """The ids of the errata of a cell, and of the cause of its difference."""
    errata = cell.published.errata if cell and cell.published else ()
    cause = cell.verdict.cause if cell and cell.verdict else None
    return (*errata, cause.id) if cause else errata


def _letters(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(i, len(LETTERS))
    return (_letters(before - 1) if before else "") + LETTERS[last]
