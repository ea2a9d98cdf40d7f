"""A table as GitHub-flavoured Markdown."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runs.console.output import WIDE
from runs.tables.formats import wording
from runs.tables.formats.footnotes import below
from runs.tables.formats.layout import Layout, Line, Part, Piece, Room
from runs.tables.table import Table

# An underscore within a word, and an ampersand that begins no entity, are themselves.
INLINE = re.compile(r"([\\`*<\[|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
LEADING = re.compile(r"^(\d*)([#>+\-=.)])")


def markdown(table: Table) -> str:
    """A Markdown table with its title, legend and notes, and a second table of the claims."""
    layout = Layout(table)
    blocks = [f"{paragraph(table.title)}."]
    blocks += ["\n".join(_part(layout, part)) for part in layout.parts(Room(WIDE))]
    for heading, items in below(table, claims=False):
        texts = (f"- {_raised(mark)} {paragraph(text)}" if mark else f"- {paragraph(text)}" for mark, text in items)
        blocks += [f"{heading}:", "\n".join(texts)]
    if table.findings:
        claims = [{name: escape(text) for name, text in wording.claim(one).items()} for one in table.findings]
        blocks += ["What the papers claim:", "\n".join(markdown_table(claims))]
    return "\n\n".join(blocks) + "\n"


def markdown_table(rows: Sequence[Mapping[str, str]], right: Sequence[str] = ()) -> list[str]:
    """The lines of a Markdown table whose cells are Markdown. The keys of the rows are its columns; those in `right`
    are aligned right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return list(_lines([(name, name in right) for name in names], ([row.get(n, "") for n in names] for row in rows)))


def escape(text: str) -> str:
    """Text that is shown as it is, within a line."""
    return INLINE.sub(r"\\\1", " ".join(text.split()))


def paragraph(text: str) -> str:
    """Text that is shown as it is, as a paragraph of its own."""
    return LEADING.sub(r"\1\\\2", escape(text))


def _lines(heads: Sequence[tuple[str, bool]], rows: Iterable[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(name for name, _ in heads) + " |"
    yield "| " + " | ".join("---:" if right else "---" for _, right in heads) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _part(layout: Layout, part: Part) -> Iterator[str]:
    heads = [(layout.corner, False), *([("kind", False)] if layout.kinds else [])]
    heads += [(escape(" ".join(layout.heading(column))), True) for column in part.columns]
    return _lines(heads, _rows(layout, part))


def _rows(layout: Layout, part: Part) -> Iterator[list[str]]:
    for group, lines in part.groups:
        if group:
            yield [f"**{escape(group)}**", *[""] * (len(part.columns) + layout.kinds)]
        for line in lines:
            kind = [escape(line.kind)] if layout.kinds else []
            yield [_label(line), *kind, *(_piece(line.pieces.get(column, Piece(""))) for column in part.columns)]


def _label(line: Line) -> str:
    return escape(line.label) + _raised(line.marks) if line.role == "row" else f"*{line.label}*"


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    return (f"**{text}**" if piece.best else text) + _raised(piece.marks)


def _raised(marks: str) -> str:
    return f"<sup>{marks}</sup>" if marks else ""
