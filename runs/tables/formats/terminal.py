"""A table on the terminal."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from runs.tables.claims import Finding
from runs.tables.formats import footnotes, wording
from runs.tables.formats.layout import INDENT, Layout, Line, Part, Piece, Room
from runs.tables.table import Column, Table
from runs.tables.verdicts import Status

if TYPE_CHECKING:
    from runs.console import Console

COLOURS: dict[Status, str] = {
    "reproduced": "green",
    "above": "cyan",
    "below": "red",
    "other protocol": "yellow",
    "no target": "yellow",
}
GAP = 3  # between the columns of a table
RAISED = str.maketrans(footnotes.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, findings: Sequence[Finding], console: "Console") -> None:
    """Print a table and what is to be said below it."""
    layout = Layout(table)
    room = Room(console.width - 1, GAP, cell_len)
    if len(layout.parts(room)) > 1:
        layout = Layout(table, narrow=True)
    title = table.title
    for part in layout.parts(room):
        heads = {column: "\n".join(layout.heading(column)) for column in part.columns}
        console.table(list(_rows(layout, part, heads)), title=title, right=list(heads.values()))
        title = ""
    if title:
        console.write(title)
    for heading, paragraphs in _below(layout):
        if heading and paragraphs:
            console.write("\n" + textwrap.fill(heading, console.width))
        for text in paragraphs:
            console.write(textwrap.fill(text, console.width, initial_indent=INDENT, subsequent_indent=3 * INDENT))
    if findings:
        console.write("")
        console.table([wording.claim(finding) for finding in findings], title="what the papers claim")


def _rows(layout: Layout, part: Part, heads: dict[Column, str]) -> Iterator[dict[str, Text]]:
    first = layout.corner
    for group, lines in part.groups:
        if group:
            yield {first: Text(group, "bold")}
        for line in lines:
            indent = (INDENT if group else "") + ("" if line.role == "row" else INDENT)
            label = textwrap.indent(f"{line.label}{line.marks.translate(RAISED)}", indent)
            row = {first: Text(label)}
            if layout.kinds:
                row["kind"] = Text(line.kind)
            yield row | {head: _piece(line, column) for column, head in heads.items()}


def _piece(line: Line, column: Column) -> Text:
    piece = line.pieces.get(column, Piece(""))
    colour = COLOURS.get(piece.status, "") if piece.status else ""
    style = f"{'bold' if piece.best else ''} {colour}".strip()
    return Text(piece.text, style).append(piece.marks.translate(RAISED))


def _below(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """What is said below a paper's table: headings, and paragraphs below each."""
    if not layout.paper:
        return
    notes = [f"{note.mark.translate(RAISED)} {note.id}{': ' if note.id else ''}{note.text}" for note in layout.notes]
    yield "legend", wording.legend(layout.table)
    yield "notes", [note.strip() for note in notes]
    yield f"verdicts: {wording.tally(layout.table)}", wording.reasons(layout.table)
    yield "runs", wording.runs(layout.table, wording.DIGITS)
