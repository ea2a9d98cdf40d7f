"""A table on the terminal."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from runs.tables.claims.claim import Finding
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
CLAIMS = "what the papers claim"
EVIDENCE = 40  # least number of columns for the evidence of a claim
GAP = 3  # between the columns of a table
RAISED = str.maketrans(footnotes.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, findings: Sequence[Finding], console: "Console") -> None:
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
    for heading, paragraphs in _below(layout):
        _list(heading, paragraphs, console)
    _claims(findings, console)


def _list(heading: str, paragraphs: Sequence[str], console: "Console") -> None:
    if paragraphs:
        console.write("\n" + textwrap.fill(heading, console.width))
    for text in paragraphs:
        lines = textwrap.fill(
            text, console.width, initial_indent=INDENT, subsequent_indent=3 * INDENT, break_on_hyphens=False
        )
        console.write(lines)


def _claims(findings: Sequence[Finding], console: "Console") -> None:
    """Print claims as a table, or as a list where a table leaves no room for the evidence."""
    if not findings:
        return
    rows = [wording.claim(finding) for finding in findings]
    names = [name for name in rows[0] if name != "evidence"]
    widths = [max(cell_len(row[name]) for row in rows) + GAP for name in names]
    if sum(widths) + EVIDENCE > console.width:
        _list(CLAIMS, [f"{finding.status}: {wording.sentence(finding)}" for finding in findings], console)
    else:
        console.write("")
        console.table(rows, title=CLAIMS)


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
    """Headings and paragraphs below a paper's table."""
    if not layout.paper:
        return
    notes = [f"{note.mark.translate(RAISED)} {note.id}{': ' if note.id else ''}{note.text}" for note in layout.notes]
    yield "legend", wording.legend(layout.table)
    yield "notes", [note.strip() for note in notes]
    yield f"verdicts: {wording.tally(layout.table)}", wording.reasons(layout.table)
    yield "runs", wording.runs(layout.table, wording.DIGITS)
