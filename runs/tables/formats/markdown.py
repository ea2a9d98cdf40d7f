"""A table as GitHub-flavoured Markdown."""

import re
from collections.abc import Mapping, Sequence

from runs.console.output import WIDE
from runs.tables.formats import lines as shared
from runs.tables.formats import wording
from runs.tables.formats.lines import Piece
from runs.tables.table import Column, Table

# An underscore within a word, and an ampersand that begins no entity, are themselves.
INLINE = re.compile(r"([\\`*<\[|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
LEADING = re.compile(r"^(\d*)([#>+\-=.)])")


def markdown(table: Table) -> str:
    """A Markdown table with its title, legend and notes, and a second table of the claims."""
    shown = shared.lines(table)
    blocks = [f"{paragraph(table.title)}."]
    blocks += ["\n".join(_part(table, shown, columns)) for columns in shared.parts(table, shown, WIDE)]
    for name, items in shared.below(table):
        texts = (f"- {_raised(mark)} {paragraph(text)}" if mark else f"- {paragraph(text)}" for mark, text in items)
        blocks += [f"{name}:", "\n".join(texts)]
    if table.findings:
        claims = [{name: escape(text) for name, text in wording.claim(one).items()} for one in table.findings]
        blocks += ["What the papers claim:", "\n".join(markdown_table(claims))]
    return "\n\n".join(blocks) + "\n"


def markdown_table(rows: Sequence[Mapping[str, str]], right: Sequence[str] = ()) -> list[str]:
    """The lines of a Markdown table whose cells are Markdown. The keys of the rows are its columns; those in `right`
    are aligned right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _lines(names, [name in right for name in names], [[row.get(n, "") for n in names] for row in rows])


def escape(text: str) -> str:
    """Text that is shown as it is, within a line."""
    return INLINE.sub(r"\\\1", " ".join(text.split()))


def paragraph(text: str) -> str:
    """Text that is shown as it is, as a paragraph of its own."""
    return LEADING.sub(r"\1\\\2", escape(text))


def _lines(names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]]) -> list[str]:
    aligned = ["---:" if one else "---" for one in right]
    return ["| " + " | ".join(row) + " |" for row in (names, aligned, *rows)]


def _part(table: Table, shown: Sequence[shared.Line], columns: Sequence[Column]) -> list[str]:
    kinds = ["kind"] if wording.kinds(table) else []
    names = [escape(" ".join(shared.heading(table, column))) for column in columns]
    rows = []
    for group, some in shared.by_group(shown, columns):
        rows += [[f"**{escape(group)}**", *[""] * len([*kinds, *names])]] if group else []
        for line in some:
            label = escape(line.label) + _raised(line.marks) if line.first else f"*{line.label}*"
            kind = [escape(line.row.kind) if line.first else ""] if kinds else []
            rows.append([label, *kind, *(_piece(line.pieces.get(column, Piece(""))) for column in columns)])
    heads = [wording.corner(table), *kinds, *names]
    return _lines(heads, [i > len(kinds) for i in range(len(heads))], rows)


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    return (f"**{text}**" if piece.best else text) + _raised(piece.marks)


def _raised(marks: str) -> str:
    return f"<sup>{marks}</sup>" if marks else ""
