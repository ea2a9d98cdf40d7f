"""Layout of a table in lines and columns, shared by the terminal, Markdown and LaTeX.

A row of a paper's table has a line for the printed numbers and, below it, lines for the corrected target, the result
here, the difference and the verdict, as far as there are any. A row of an experiment is one line.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from runs.tables.formats import footnotes, numbers, wording
from runs.tables.papers.paper import is_paper
from runs.tables.table import Cell, Column, Row, Table
from runs.tables.verdicts import VerdictStatus

Role = Literal["row", "corrected target", "shipped", "here", "scored as printed", "difference", "verdict"]
"""What a line shows; also its label, except for "row", whose label is the name of the row."""
HEADING = 12  # characters that a line of a heading may always have
SHORT: Mapping[VerdictStatus, str] = {"cannot run here": "cannot run"}
INDENT = "  "
NARROW = 22  # characters in a line of a row's name in a narrow layout


@dataclass(frozen=True)
class Piece:
    """The content of a line in one column.

    Attributes:
        text: a number with its interval, or a verdict.
        marks: marks of its footnotes, such as "ab".
        best: whether it is emphasised.
        status: the verdict, if the text is one.
    """

    text: str
    marks: str = ""
    best: bool = False
    status: VerdictStatus | None = None


@dataclass(frozen=True)
class Line:
    """One line of a row: what it shows, its label with marks of footnotes, and its pieces by column."""

    row: Row
    role: Role
    label: str
    marks: str = ""
    kind: str = ""
    pieces: Mapping[Column, Piece] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Columns that fit side by side, and the lines that have pieces in them, by group of rows."""

    columns: tuple[Column, ...]
    groups: tuple[tuple[str, tuple[Line, ...]], ...]


@dataclass(frozen=True)
class Room:
    """The available space, in characters or another unit.

    Attributes:
        width: width of all columns together.
        gap: space between two columns.
        text: gives the width of a text.
        marks: gives the width of marks of footnotes.
        spanned: whether the name of a group of columns is set once across them, not above each.
    """

    width: float = math.inf
    gap: float = 2
    text: Callable[[str], float] = len
    marks: Callable[[str], float] = len
    spanned: bool = False


class Layout:
    """The lines of a table.

    Args:
        table: table of a paper or an experiment.
        narrow: set differences above their verdicts, not before them, and break or shorten long texts.

    Attributes:
        paper: whether it is the table of a paper.
        corner: heading of the names of rows.
        notes: footnotes below the table.
        lines: from top to bottom, rows of a group together.
        kinds: whether there is a column of kinds.
    """

    def __init__(self, table: Table, *, narrow: bool = False) -> None:
        self.table = table
        self.narrow = narrow
        self.paper = is_paper(table.name)
        self.corner = wording.corner(table)
        self.notes = footnotes.footnotes(table)
        self.lines = [line for row in wording.by_group(table.rows) for line in self._of(row)]
        self.kinds = wording.kinds(table)

    def _of(self, row: Row) -> Iterator[Line]:
        cells = {c: self.table.cells[row, c] for c in self.table.columns if (row, c) in self.table.cells}
        if not wording.compares(self.table):
            pieces = {c: Piece(numbers.measured(self.table, cell, c), best=cell.best) for c, cell in cells.items()}
            yield Line(row, "row", row.name, kind="" if self.paper else row.kind, pieces=pieces)
            return
        printed = {
            column: Piece(numbers.as_printed(cell.published), footnotes.marks(self.notes, row, cell))
            for column, cell in cells.items()
        }
        name = "\n".join(textwrap.wrap(row.name, NARROW)) if self.narrow else row.name
        yield Line(row, "row", name, footnotes.marks(self.notes, row), row.kind, printed)
        targets = {c: Piece(text) for c, cell in cells.items() if (text := numbers.corrected(cell.published))}
        if targets:
            yield Line(row, "corrected target", "corrected target", pieces=targets)
        yield from self._measured(row, cells)

    def _measured(self, row: Row, cells: Mapping[Column, Cell]) -> Iterator[Line]:
        shared = wording.shared_verdict(self.table, row)
        if shared is not None:
            if shared:
                yield Line(row, "verdict", shared)
            return
        shipped = {c: Piece(text) for c, cell in cells.items() if (text := numbers.shipped(self.table, cell, c))}
        if shipped:
            yield Line(row, "shipped", "shipped", pieces=shipped)
        pieces = {
            column: Piece(numbers.measured(self.table, cell, column), best=cell.best)
            for column, cell in cells.items()
            if cell.results
        }
        if pieces:
            yield Line(row, "here", "here", pieces=pieces)
        scored = {column: Piece(text) for column, cell in cells.items() if (text := numbers.scored(cell, column))}
        if scored:
            yield Line(row, "scored as printed", "scored as printed", pieces=scored)
        differences = {column: numbers.difference(cell, column) for column, cell in cells.items()}
        if self.narrow and any(differences.values()):
            apart = {column: Piece(text) for column, text in differences.items() if text}
            yield Line(row, "difference", "difference", pieces=apart)
        before = {c: f"{text} " if text and not self.narrow else "" for c, text in differences.items()}
        judged = {
            c: Piece(before[c] + (SHORT.get(v.status, v.status) if self.narrow else v.status), status=v.status)
            for c, cell in cells.items()
            if (v := cell.verdict)
        }
        if judged:
            yield Line(row, "verdict", "verdict", pieces=judged)

    def heading(self, column: Column, *, group: bool = True) -> list[str]:
        """The heading of a column, its group first, in lines about as wide as the column."""
        width = max(int(self._below(column, Room())), HEADING)
        texts = [column.group if group else "", wording.heading(self.table, column)]
        return [line for text in texts for line in textwrap.wrap(text, width)]

    def parts(self, room: Room) -> list[Part]:
        """The columns in parts that fit the room; a group of columns is split only if it is too wide by itself."""
        free = room.width - self._label_width(room) - room.gap
        if self.kinds:
            free -= max(room.text(kind) for kind in ("kind", *(line.kind for line in self.lines))) + room.gap
        widths = {column: self.width(column, room) + room.gap for column in self.table.columns}
        parts: list[list[Column]] = []
        for block in wording.blocks(self.table):
            left = 0.0  # a block starts a new part
            for _, group in groupby(block, lambda column: column.group):
                columns = list(group)
                if sum(widths[column] for column in columns) > left:
                    left = 0
                for column in columns:
                    if widths[column] > left:
                        parts.append([])
                        left = free
                    parts[-1].append(column)
                    left -= widths[column]
        return [self._part(tuple(columns)) for columns in parts]

    def _label_width(self, room: Room) -> float:
        groups = {row.group for row in self.table.rows}
        labels = [self.corner, *(() if room.spanned else groups)]
        widths = [room.text(label) for label in labels]
        for line in self.lines:
            indent = (INDENT if any(groups) else "") + ("" if line.role == "row" else INDENT)
            widths += [room.text(f"{indent}{part}") + room.marks(line.marks) for part in line.label.split("\n")]
        return max(widths)

    def width(self, column: Column, room: Room) -> float:
        """Width of a column with its heading."""
        heading = self.heading(column, group=not room.spanned)
        return max(self._below(column, room), *map(room.text, heading))

    def _below(self, column: Column, room: Room) -> float:
        """Width of the widest piece of a column, or word of its heading. The headings of an experiment are broken into
        words only in a narrow layout."""
        pieces = [line.pieces[column] for line in self.lines if column in line.pieces]
        heading = f"{'' if room.spanned else column.group} {wording.heading(self.table, column)}"
        words = heading.split() if self.paper or self.narrow else [heading.strip()]
        return max([room.text(piece.text) + room.marks(piece.marks) for piece in pieces] + [*map(room.text, words)])

    def _part(self, columns: tuple[Column, ...]) -> Part:
        kept = {line.row for line in self.lines if any(column in line.pieces for column in columns)}
        lines = [
            line
            for line in self.lines
            if line.row in kept and (not line.pieces or any(column in line.pieces for column in columns))
        ]
        groups = groupby(lines, lambda line: line.row.group)
        return Part(columns, tuple((group, tuple(of_group)) for group, of_group in groups))
