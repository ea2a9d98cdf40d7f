"""A table as HTML: a fragment for a page that has its own style, or a small page of its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from runs.tables.formats import footnotes, numbers, wording
from runs.tables.papers.paper import is_paper
from runs.tables.table import Cell, Column, Row, SeedResult, Table
from runs.tables.verdicts import Finding

Href = Callable[[str], str | None]
"""Run id -> address of its entry, or None without one."""
NEAR = "near: the result of a run with another protocol, which is not compared"
STYLE = """\
body { margin: 1rem auto; max-width: 76rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .5rem; }
.caption { max-width: min(46rem, 90vw); }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #d5dae0; }
thead th { vertical-align: bottom; }
th[scope=rowgroup] { padding-top: 1rem; }
.number { text-align: right; white-space: nowrap; }
.number > span { display: block; }
.scroll { overflow-x: auto; }
"""


def table(table: Table, href: Href = lambda run_id: None) -> str:
    """The table with its caption, and legend, footnotes, verdicts and claims below.

    Classes: `scroll` around it, `caption`; `number` of cells, with `printed`, `target`, `found`, `scored`, `verdict`
    and `near` inside; a verdict has its own, too, as in "verdict other-protocol"; `best`; `legend` and `footnotes`.

    Args:
        href: gives the address of the entry of a run.
    """
    return "\n".join(_Fragment(table, href).lines()) + "\n"


def page(table_: Table) -> str:
    """A page of its own, without other files."""
    title = escape(table_.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{table(table_)}</main>\n</body>\n</html>\n"
    )


class _Fragment:
    def __init__(self, table: Table, href: Href) -> None:
        self.table = table
        self.href = href
        self.paper = is_paper(table.name)
        self.notes = footnotes.footnotes(table)
        self.compares = wording.compares(table)
        self.kinds = wording.kinds(table)
        self.id = f"table-{table.file_name.replace('.', '-')}"

    def lines(self) -> Iterator[str]:
        title = f"{escape(self.table.title)}."
        if not self.table.columns:
            yield f"<p>{title}</p>"
        for i, columns in enumerate(wording.blocks(self.table)):
            yield f'<div class="scroll" role="region" aria-labelledby="{self.id}" tabindex="0">'
            yield f'<table class="{"paper" if self.paper else "experiment"}">'
            if i == 0:
                yield f'<caption><div class="caption" id="{self.id}">{title}</div></caption>'
            yield from self._head(columns)
            rows = [row for row in self.table.rows if any((row, column) in self.table.cells for column in columns)]
            for group, some in groupby(wording.by_group(rows), lambda row: row.group):
                yield from self._group(group, some, columns)
            yield "</table>\n</div>"
        yield from self._below()
        yield from _claims(self.table.findings)

    def _head(self, columns: Sequence[Column]) -> Iterator[str]:
        grouped = any(column.group for column in columns)
        down = ' rowspan="2"' if grouped else ""
        first = f"<td{down}></td>" if self.paper else f'<th scope="col"{down}>{wording.corner(self.table)}</th>'
        first += f'<th scope="col"{down}>kind</th>' if self.kinds else ""
        names = "".join(f'<th scope="col" class="number">{self._heading(column)}</th>' for column in columns)
        spans = "".join(
            f'<th scope="colgroup" colspan="{len(list(some))}">{escape(group)}</th>'
            for group, some in groupby(columns, lambda column: column.group)
        )
        yield "<thead>"
        yield f"<tr>{first}{spans}</tr>\n<tr>{names}</tr>" if grouped else f"<tr>{first}{names}</tr>"
        yield "</thead>"

    def _heading(self, column: Column) -> str:
        name = escape(wording.heading(self.table, column))
        for short, meaning in wording.ABBREVIATIONS.items():
            name = name.replace(short, f'<abbr title="{meaning}">{short}</abbr>')
        return name

    def _group(self, group: str, rows: Iterable[Row], columns: Sequence[Column]) -> Iterator[str]:
        yield "<tbody>"
        if group:
            across = 1 + self.kinds + len(columns)
            yield f'<tr><th scope="rowgroup" colspan="{across}">{escape(group)}</th></tr>'
        for row in rows:
            kind = f"<td>{escape(row.kind)}</td>" if self.kinds else ""
            name = escape(row.name) + self._marks(footnotes.marks(self.notes, row))
            if verdict := self._shared_verdict(row):
                name += f' <span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'
            yield f'<tr><th scope="row">{name}</th>{kind}{"".join(self._cells(row, columns))}</tr>'
        yield "</tbody>"

    def _cells(self, row: Row, columns: Sequence[Column]) -> Iterator[str]:
        for column in columns:
            cell = self.table.cells.get((row, column))
            content = "" if cell is None else "\n".join(self._content(row, column, cell))
            yield f'<td class="number">{content}</td>'

    def _content(self, row: Row, column: Column, cell: Cell) -> Iterator[str]:
        if not self.compares:
            yield self._measured(column, cell)
            return
        marks = self._marks(footnotes.marks(self.notes, row, cell))
        yield f'<span class="printed">{escape(numbers.as_printed(cell.published))}{marks}</span>'
        if target := numbers.corrected(cell.published):
            yield f'<span class="target">target {escape(target)}</span>'
        if shipped := numbers.shipped(self.table, cell, column):
            yield f'<span class="found">shipped {escape(shipped)}</span>'
        if cell.results:
            yield f'<span class="found">here {self._measured(column, cell)}</span>'
        if scored := numbers.scored(cell, column):
            yield f'<span class="scored">scored as printed {escape(scored)}</span>'
        if cell.verdict and self._shared_verdict(row) is None:
            verdict = f"{numbers.difference(cell, column)} {cell.verdict.status}".strip()
            name = cell.verdict.status.replace(" ", "-")
            yield f'<span class="verdict {name}" title="{escape(cell.verdict.why)}">{verdict}</span>'
        if cell.near and (near := numbers.near(cell, column)):
            differs = escape("; ".join(cell.near.differs))
            yield f'<span class="near" title="{differs}">near: {self._link(cell.near.run_id, escape(near))}</span>'

    def _shared_verdict(self, row: Row) -> str | None:
        return wording.shared_verdict(self.table, row) if self.compares else None

    def _measured(self, column: Column, cell: Cell) -> str:
        text = escape(numbers.measured(self.table, cell, column))
        return self._linked(f'<strong class="best">{text}</strong>' if cell.best else text, cell.results)

    def _linked(self, text: str, results: Sequence[SeedResult]) -> str:
        """A result as a link to its run; with several runs, a link for each."""
        if len(results) == 1:
            return self._link(results[0].run_id, text)
        links = [self._link(r.run_id, f"seed {r.seed}") for r in results if self.href(r.run_id)]
        return text + (f" ({', '.join(links)})" if links else "")

    def _link(self, run_id: str, text: str) -> str:
        place = self.href(run_id)
        return f'<a href="{escape(place)}">{text}</a>' if place else text

    def _marks(self, marks: str) -> str:
        links = (f'<a href="#{self.id}-{mark}">{mark}</a>' for mark in marks)
        return f"<sup>{''.join(links)}</sup>" if marks else ""

    def _below(self) -> Iterator[str]:
        """Legend, footnotes, verdicts and runs below a paper's table; below an experiment's, only its notes."""
        if self.paper:
            near = self.compares and any(numbers.near(cell, c) for (_, c), cell in self.table.cells.items())
            yield from _list("legend", map(escape, [*wording.legend(self.table), *([NEAR] if near else [])]))
            if self.notes:
                yield '<ul class="footnotes">'
                yield from (self._footnote(note) for note in self.notes)
                yield "</ul>"
            yield from _details(f"Verdicts: {wording.tally(self.table)}", wording.reasons(self.table, judged=True))
            yield from _details("Runs", wording.runs(self.table))
        yield from _list("legend", map(escape, self.table.notes))

    def _footnote(self, note: footnotes.Footnote) -> str:
        mark = f'<sup id="{self.id}-{note.mark}">{note.mark}</sup> ' if note.mark else ""
        return f"<li>{mark}{escape(str(note))}</li>"


def _list(name: str, items: Iterable[str]) -> Iterator[str]:
    listed = "".join(f"<li>{item}</li>\n" for item in items)
    if listed:
        yield f'<ul class="{name}">\n{listed}</ul>'


def _details(summary: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"<details>\n<summary>{escape(summary)}</summary>"
        yield from _list("legend", map(escape, texts))
        yield "</details>"


def _claims(findings: Sequence[Finding]) -> Iterator[str]:
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
