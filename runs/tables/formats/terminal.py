"""A table on the terminal."""

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from runs.tables.formats import lines as shared
from runs.tables.formats import wording
from runs.tables.formats.lines import Piece
from runs.tables.table import Column, Table, VerdictStatus

if TYPE_CHECKING:
    from runs.console.output import Console

COLOURS: dict[VerdictStatus, str] = {
    "reproduced": "green",
    "above": "cyan",
    "below": "red",
    "other protocol": "yellow",
    "no target": "yellow",
}
RAISED = str.maketrans(shared.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, console: "Console") -> None:
    """Print a table with its legend, notes, verdicts and claims."""
    shown, title = shared.lines(table), table.title
    for columns in shared.parts(table, shown, console.width - 1):
        heads = {column: "\n".join(shared.heading(table, column)) for column in columns}
        console.table(list(_rows(table, shown, heads)), title=title, right=list(heads.values()))
        title = ""
    if title:
        console.write(title)
    table = dataclasses.replace(table, notes=())  # the command prints them on standard error
    for heading, items in shared.below(table):
        _list(console, heading, [f"{mark.translate(RAISED)} {text}".strip() for mark, text in items])
    if table.findings:
        claims = [f"{finding.status}: {wording.sentence(finding)}" for finding in table.findings]
        _list(console, "What the papers claim", claims)


def _list(console: "Console", heading: str, texts: Sequence[str]) -> None:
    console.write("\n" + textwrap.fill(heading, console.width))
    for text in texts:
        wrapped = textwrap.TextWrapper(console.width, "  ", "      ", break_on_hyphens=False)
        console.write(wrapped.fill(text))


def _rows(table: Table, shown: Sequence[shared.Line], heads: dict[Column, str]) -> Iterator[dict[str, Text]]:
    first, kinds = wording.corner(table), wording.kinds(table)
    for group, some in shared.by_group(shown, list(heads)):
        if group:
            yield {first: Text(group, "bold")}
        for line in some:
            indent = ("  " if group else "") + ("" if line.first else "  ")
            row = {first: Text(f"{indent}{line.label}{line.marks.translate(RAISED)}")}
            if kinds:
                row["kind"] = Text(line.row.kind if line.first else "")
            yield row | {head: _piece(line.pieces.get(column, Piece(""))) for column, head in heads.items()}


def _piece(piece: Piece) -> Text:
    colour = COLOURS.get(piece.status, "") if piece.status else ""
    style = f"{'bold' if piece.best else ''} {colour}".strip()
    return Text(piece.text, style).append(piece.marks.translate(RAISED))
