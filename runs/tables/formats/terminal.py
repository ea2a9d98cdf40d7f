"""A table on the terminal."""

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from runs.tables.formats import footnotes, wording
from runs.tables.formats.layout import INDENT, Layout, Line, Part, Piece, Room
from runs.tables.table import Column, Table
from runs.tables.verdicts import VerdictStatus

if TYPE_CHECKING:
    from runs.console.output import Console

COLOURS: dict[VerdictStatus, str] = {
    "reproduced": "green",
    "above": "cyan",
    "below": "red",
    "other protocol": "yellow",
    "no target": "yellow",
}
LAST, EVIDENCE = "evidence", 40  # the last column of the claims, and the least number of characters for it
GAP = 3  # between the columns of a table
RAISED = str.maketrans(footnotes.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, console: "Console") -> None:
    """Print a table with its legend, notes, verdicts, runs and claims."""
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
    claims = [wording.claim(finding) for finding in table.findings]
    names = [name for claim in claims[:1] for name in claim if name != LAST]
    widths = [max(cell_len(claim[name]) for claim in claims) + GAP for name in names]
    room_for_claims = sum(widths) + EVIDENCE <= console.width
    table = dataclasses.replace(table, notes=())  # the command prints them on standard error
    for heading, items in footnotes.below(table, wording.DIGITS, claims=not room_for_claims):
        console.write("\n" + textwrap.fill(heading, console.width))
        for mark, text in items:
            console.write(_paragraph(f"{mark.translate(RAISED)} {text}".strip(), console.width))
    if claims and room_for_claims:
        console.write("")
        console.table(claims, title="What the papers claim")


def _paragraph(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent=INDENT, subsequent_indent=3 * INDENT, break_on_hyphens=False)


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
