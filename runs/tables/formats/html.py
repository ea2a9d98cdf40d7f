"""A table as HTML: a fragment for a page that has its own style, or a small page of its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from runs.tables.formats import lines as shared
from runs.tables.formats import wording
from runs.tables.formats.lines import Line, Piece
from runs.tables.table import Column, Finding, Table

Href = Callable[[str], str | None]
"""Run id -> address of its entry, or None without one."""
STYLE = """\
body { margin: 1rem auto; max-width: 76rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .5rem; }
.caption { max-width: min(46rem, 90vw); }
th, td { padding: .2rem .7rem; text-align: left; vertical-align: top; }
.first > * { border-top: 1px solid #d5dae0; }
.more > th { font-weight: normal; font-style: italic; padding-left: 1.5rem; }
.number { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; }
"""


def table(table: Table, href: Href = lambda run_id: None) -> str:
    """The table with its caption, and legend, footnotes, verdicts and claims below.

    Classes: `scroll` around it, `caption`; `first` of the first line of a row and `more` of the others; `number` of
    cells; `verdict` and, as in "verdict other-protocol", its status; `best`; `legend` and `footnotes`.

    Args:
        href: gives the address of the entry of a run.
    """
    return "\n".join(_fragment(table, href)) + "\n"


def page(table_: Table) -> str:
    """A page of its own, without other files."""
    title = escape(table_.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{table(table_)}</main>\n</body>\n</html>\n"
    )


def _fragment(table: Table, href: Href) -> Iterator[str]:
    name, shown = f"table-{re.sub('[^0-9A-Za-z_-]+', '-', table.file_name)}", shared.lines(table)
    title = f"{escape(table.title)}."
    if not table.columns:
        yield f"<p>{title}</p>"
    for i, columns in enumerate(wording.blocks(table)):
        yield f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">\n<table>'
        if i == 0:
            yield f'<caption><div class="caption" id="{name}">{title}</div></caption>'
        yield from _head(table, columns)
        for group, some in shared.by_group(shown, columns):
            across = 1 + wording.kinds(table) + len(columns)
            yield "<tbody>"
            if group:
                yield f'<tr><th scope="rowgroup" colspan="{across}">{escape(group)}</th></tr>'
            yield from (_row(table, line, columns, name, href) for line in some)
            yield "</tbody>"
        yield "</table>\n</div>"
    for heading, items in shared.below(table):
        listed = "".join(f"<li>{_anchor(name, mark)}{escape(text)}</li>\n" for mark, text in items)
        kind = "footnotes" if heading == "Notes" else "legend"
        many = heading.startswith("Verdicts")
        summary = f"<details>\n<summary>{escape(heading)}</summary>\n" if many else ""
        yield f'{summary}<ul class="{kind}">\n{listed}</ul>{"</details>" if many else ""}'
    yield from _claims(table.findings)


def _head(table: Table, columns: Sequence[Column]) -> Iterator[str]:
    grouped = any(column.group for column in columns)
    down, corner = ' rowspan="2"' if grouped else "", wording.corner(table)
    first = f'<th scope="col"{down}>{corner}</th>' if corner else f"<td{down}></td>"
    first += f'<th scope="col"{down}>kind</th>' if wording.kinds(table) else ""
    names = "".join(f'<th scope="col" class="number">{_heading(table, column)}</th>' for column in columns)
    spans = "".join(
        f'<th scope="colgroup" colspan="{len(list(some))}">{escape(group)}</th>'
        for group, some in groupby(columns, lambda column: column.group)
    )
    rows = f"<tr>{first}{spans}</tr>\n<tr>{names}</tr>" if grouped else f"<tr>{first}{names}</tr>"
    yield f"<thead>\n{rows}\n</thead>"


def _heading(table: Table, column: Column) -> str:
    name = escape(wording.heading(table, column))
    for short, meaning in wording.ABBREVIATIONS.items():
        name = name.replace(short, f'<abbr title="{meaning}">{short}</abbr>')
    return name


def _row(table: Table, line: Line, columns: Sequence[Column], name: str, href: Href) -> str:
    kind = f"<td>{escape(line.row.kind) if line.first else ''}</td>" if wording.kinds(table) else ""
    label = escape(line.label) + _marks(name, line.marks)
    if not line.first and not line.pieces:
        label = f'<span class="verdict {line.label.replace(" ", "-")}">{label}</span>'
    cells = "".join(_cell(line.pieces.get(column, Piece("")), name, href) for column in columns)
    return f'<tr class="{"first" if line.first else "more"}"><th scope="row">{label}</th>{kind}{cells}</tr>'


def _cell(piece: Piece, name: str, href: Href) -> str:
    text = escape(piece.text)
    text = f'<strong class="best">{text}</strong>' if piece.best else text
    links = [(result, place) for result in piece.runs if (place := href(result.run_id))]
    if len(piece.runs) == 1 and links:
        text = f'<a href="{escape(links[0][1])}">{text}</a>'
    elif links:
        seeds = (f'<a href="{escape(place)}">seed {result.seed}</a>' for result, place in links)
        text += f" ({', '.join(seeds)})"
    if piece.status:
        text = f'<span class="verdict {piece.status.replace(" ", "-")}" title="{escape(piece.why)}">{text}</span>'
    return f'<td class="number">{text}{_marks(name, piece.marks)}</td>'


def _marks(name: str, marks: str) -> str:
    links = "".join(f'<a href="#{name}-{mark}">{mark}</a>' for mark in marks)
    return f"<sup>{links}</sup>" if marks else ""


def _anchor(name: str, mark: str) -> str:
    return f'<sup id="{name}-{mark}">{mark}</sup> ' if mark else ""


def _claims(findings: Sequence[Finding]) -> Iterable[str]:
    if not findings:
        return
    rows = [wording.claim(finding) for finding in findings]
    yield '<div class="scroll" role="region" aria-label="What the papers claim" tabindex="0">\n<table class="claims">'
    yield "<caption>What the papers claim, checked on these runs.</caption>"
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    yield f"<thead><tr>{heads}</tr></thead>\n<tbody>"
    for row in rows:
        first, *others = row.values()
        yield f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(text)}</td>" for text in others)}</tr>'
    yield "</tbody>\n</table>\n</div>"
