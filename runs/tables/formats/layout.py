"""A table as lines of text side by side, which the terminal, Markdown and LaTeX set each in their way.

A row of a paper's table is what is printed, and below it, where there is something to say, the corrected target, what
was found here, the difference and the verdict, each a line of its own. A row of an experiment is one line.
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
from runs.tables.verdicts import Status

Role = Literal["row", "corrected target", "here", "scored as printed", "difference", "verdict"]
"""What a line says of its row; also its label, but for "row", which has the row's name."""
HEADING = 12  # characters that the heading of a column may always have in a line
SHORT: Mapping[Status, str] = {"cannot run here": "cannot run"}
INDENT = "  "
NARROW = 22  # characters of a row's name where there is little room


@dataclass(frozen=True)
class Piece:
    """What a line has in a column.

    Attributes:
        text: a number with its interval, or a verdict.
        marks: of the footnotes to it, such as "ab".
        best: whether it stands out.
        status: the verdict, where the text is one.
    """

    text: str
    marks: str = ""
    best: bool = False
    status: Status | None = None


@dataclass(frozen=True)
class Line:
    """One line: of which row, what it says of it, its label with footnotes, and its pieces by column."""

    row: Row
    role: Role
    label: str
    marks: str = ""
    kind: str = ""
    pieces: Mapping[Column, Piece] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Columns that fit beside each other; the lines that have anything there, by group of rows."""

    columns: tuple[Column, ...]
    groups: tuple[tuple[str, tuple[Line, ...]], ...]


@dataclass(frozen=True)
class Room:
    """What there is room for, in characters or another unit.

    Attributes:
        width: of all columns together.
        gap: between two columns.
        text: how wide a text is.
        marks: how wide the marks of footnotes are.
        spanned: whether the name of a group of columns stands once above them all, not above each.
    """

    width: float = math.inf
    gap: float = 2
    text: Callable[[str], float] = len
    marks: Callable[[str], float] = len
    spanned: bool = False


class Layout:
    """The lines of a table.

    Args:
        table: of a paper or an experiment.
        narrow: differences stand above their verdicts, not before them; what is long is broken or shortened.

    Attributes:
        paper: whether it is a paper's.
        corner: what stands above the names of its rows.
        notes: what is said below it, with marks.
        lines: from top to bottom, rows of a group together.
        kinds: whether there is a column of kinds, which there is unless all are the paper's own.
    """

    def __init__(self, table: Table, *, narrow: bool = False) -> None:
        self.table = table
        self.narrow = narrow
        self.paper = is_paper(table.name)
        self.corner = "" if self.paper else "strategy"
        self.notes = footnotes.footnotes(table)
        self.lines = [line for row in wording.by_group(table.rows) for line in self._of(row)]
        self.kinds = wording.kinds(table)

    def _of(self, row: Row) -> Iterator[Line]:
        cells = {c: self.table.cells[row, c] for c in self.table.columns if (row, c) in self.table.cells}
        if not wording.compares(self.table):
            found = {c: Piece(numbers.found(self.table, cell, c), best=cell.best) for c, cell in cells.items()}
            yield Line(row, "row", row.name, kind="" if self.paper else row.kind, pieces=found)
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
        yield from self._found(row, cells)

    def _found(self, row: Row, cells: Mapping[Column, Cell]) -> Iterator[Line]:
        told = wording.told_once(self.table, row)
        if told is not None:
            if told:
                yield Line(row, "verdict", told)
            return
        found = {
            column: Piece(numbers.found(self.table, cell, column), best=cell.best)
            for column, cell in cells.items()
            if cell.results
        }
        if found:
            yield Line(row, "here", "here", pieces=found)
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
        """What stands above a column, the name of its group first, in lines about as wide as what stands below."""
        width = max(int(self._below(column, Room())), HEADING)
        texts = [column.group if group else "", wording.heading(self.table, column)]
        return [line for text in texts for line in textwrap.wrap(text, width)]

    def parts(self, room: Room) -> list[Part]:
        """The columns side by side as far as there is room; a group of them is torn only where it alone is too wide."""
        free = room.width - self._label_width(room) - room.gap
        if self.kinds:
            free -= max(room.text(kind) for kind in ("kind", *(line.kind for line in self.lines))) + room.gap
        widths = {column: self.width(column, room) + room.gap for column in self.table.columns}
        parts: list[list[Column]] = []
        for block in wording.blocks(self.table):
            left = 0.0  # a part of its own
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
        groups = {row.group for row in self.table.rows} if self.paper else set()
        labels = [self.corner, *(() if room.spanned else groups)]
        widths = [room.text(label) for label in labels]
        for line in self.lines:
            indent = (INDENT if any(groups) else "") + ("" if line.role == "row" else INDENT)
            widths += [room.text(f"{indent}{part}") + room.marks(line.marks) for part in line.label.split("\n")]
        return max(widths)

    def width(self, column: Column, room: Room) -> float:
        """Of a column with its heading."""
        heading = self.heading(column, group=not room.spanned)
        return max(self._below(column, room), *map(room.text, heading))

    def _below(self, column: Column, room: Room) -> float:
        """The width of the widest piece of a column, or word of its heading, which an experiment's is broken into only
        where there is little room."""
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
        groups = groupby(lines, lambda line: line.row.group if self.paper else "")
        return Part(columns, tuple((group, tuple(found)) for group, found in groups))
