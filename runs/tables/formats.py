"""A table as text: on the terminal, as Markdown, LaTeX and HTML, and as records for CSV and JSON.

What is shown is in `runs.tables.layout`.
"""

import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from runs.console.output import WIDE
from runs.tables import layout
from runs.tables.keys import cell_key
from runs.tables.layout import Piece
from runs.tables.table import Cell, Column, Row, Table, VerdictStatus

if TYPE_CHECKING:
    from runs.console.output import Console

PACKAGES = ("booktabs", "longtable")  # of LaTeX
LATEX_WIDTH = 80  # characters that fit side by side in a text of 345 points
COLOURS: Mapping[VerdictStatus | None, str] = {
    "reproduced": "green",
    "above": "cyan",
    "below": "red",
    "other protocol": "yellow",
    "no target": "yellow",
}
RAISED = str.maketrans(layout.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, console: "Console") -> None:
    """Print a table with its legend, notes, verdicts and claims; the remarks are printed by the command."""
    shown, title = layout.lines(table), table.title
    grouped = any(row.group for row in table.rows)

    def text(piece: Piece) -> Text:
        indent = "  " * (piece.labels in ("first", "more")) * grouped + "  " * (piece.labels == "more")
        bold, colour = piece.best or piece.labels == "group", "" if piece.labels else COLOURS.get(piece.status, "")
        raised = piece.marks.translate(RAISED)
        return Text(indent + piece.text, f"{'bold' if bold else ''} {colour}".strip()).append(raised)

    for columns in layout.parts(table, shown, console.width - 1):
        heads = [layout.wrapped(column.group, layout.heading(table, column)) for column in columns]
        names = [*layout.heads(table), *heads]
        rows = [dict(zip(names, map(text, pieces), strict=True)) for pieces in layout.grid(table, shown, columns)]
        console.table(rows, title=title, right=heads)
        title = ""
    if title:
        console.write(title)
    lists = {
        heading: [f"{mark.translate(RAISED)} {text}".strip() for mark, text in items]
        for heading, items in layout.below(replace(table, notes=()))
    }
    if table.findings:
        lists["What the papers claim"] = [
            f"{one.status}: {one.claim} ({', '.join(filter(None, (one.source, one.setting)))})"
            f"{': ' if one.evidence else ''}{one.evidence}"
            for one in table.findings
        ]
    for heading, texts in lists.items():
        console.write("\n" + textwrap.fill(heading, console.width))
        wrapped = textwrap.TextWrapper(console.width, "  ", "      ", break_on_hyphens=False)
        console.write("\n".join(map(wrapped.fill, texts)))


# An underscore within a word, and an ampersand that begins no entity, are themselves.
INLINE = re.compile(r"([\\`*<\[|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
LEADING = re.compile(r"^(\d*)([#>+\-=.)])")


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, within a line."""
    return INLINE.sub(r"\\\1", " ".join(text.split()))


def _markdown(piece: Piece) -> str:
    sign = "*" if piece.labels == "more" else "**" if piece.best or piece.labels == "group" else ""
    raised = f"<sup>{piece.marks}</sup>" if piece.marks else ""
    return f"{sign}{markdown_text(piece.text)}{sign}{raised}"


def markdown_table(rows: Sequence[Mapping[str, str]], right: Sequence[str] = ()) -> str:
    """A Markdown table whose cells are Markdown. The keys of the rows are its columns; those in `right` are aligned
    right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[row.get(name, "") for name in names] for row in rows]
    aligned = ["---:" if name in right else "---" for name in names]
    return "\n".join("| " + " | ".join(line) + " |" for line in (names, aligned, *lines))


def markdown(table: Table) -> str:
    """A Markdown table with its title, legend and notes, and a second table of the claims."""

    def paragraph(text: str) -> str:
        return LEADING.sub(r"\1\\\2", markdown_text(text))

    shown, blocks = layout.lines(table), [f"{paragraph(table.title)}."]
    for columns in layout.parts(table, shown, WIDE):
        names = [f"{column.group} {layout.heading(table, column)}".strip() for column in columns]
        heads = [*layout.heads(table), *map(markdown_text, names)]
        lines = [heads, ["---"] * (len(heads) - len(names)) + ["---:"] * len(names)]
        lines += [list(map(_markdown, pieces)) for pieces in layout.grid(table, shown, columns)]
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    for heading, items in layout.below(table):
        texts = (f"- <sup>{mark}</sup> {paragraph(text)}" if mark else f"- {paragraph(text)}" for mark, text in items)
        blocks += [f"{heading}:", "\n".join(texts)]
    if table.findings:
        rows = [{name: markdown_text(text) for name, text in layout.claim(one).items()} for one in table.findings]
        blocks += ["What the papers claim:", markdown_table(rows)]
    return "\n\n".join(blocks) + "\n"


SIGNS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"}
SIGNS |= {sign: f"\\{sign}" for sign in "{}$&#_%"} | {'"': "''", "\u2013": "--", "\u2014": "---", "\u2019": "'"}
SIGNS |= {"<": "$<$", ">": "$>$", "|": "$|$", "\u2212": "$-$", "±": r"$\pm$", "\u00d7": r"$\times$", "·": r"$\cdot$"}
SIGNS |= {"→": r"$\to$", "≤": r"$\leq$", "≥": r"$\geq$"}
SIGNS |= {"ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "\N{ZERO WIDTH SPACE}": "{}"}
GREEK = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi o pi rho varsigma sigma tau upsilon"
)
SIGNS |= {chr(0x3B1 + i): f"$\\{name}$" for i, name in enumerate([*GREEK.split(), "varphi", "chi", "psi", "omega"])}
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u0327\u030c", "`'^~\"rcv", strict=True))


def latex_text(text: str) -> str:
    """Text escaped for LaTeX, on one line. -> becomes an arrow, and a character without a command its code point."""
    joined = re.sub("-(?=-)", "-\N{ZERO WIDTH SPACE}", " ".join(text.split()).replace("->", "→"))
    written = "".join(map(_latex, unicodedata.normalize("NFC", joined)))
    return re.sub(r"(?<![\w.])([+-])(?=\d)", r"$\1$", written)


def _latex(sign: str) -> str:
    if sign in SIGNS or sign.isascii():
        return SIGNS.get(sign, sign if sign.isprintable() else "")
    plain, *accents = list(unicodedata.normalize("NFKD", sign))
    if not (plain.isascii() and plain.isalnum() and {*accents} <= {*ACCENTS}):
        return f"U+{ord(sign):04X}"
    for accent in accents:
        plain = f"\\{ACCENTS[accent]}{{{plain}}}"
    return plain


def _latex_piece(piece: Piece) -> str:
    text = re.sub(r"(\d)e(-?\d+)(?!\w)", r"\1$\\times10^{\2}$", latex_text(piece.text))
    command = r"\quad\textit" if piece.labels == "more" else r"\textbf" if piece.best or piece.labels == "group" else ""
    raised = rf"\textsuperscript{{{piece.marks}}}" if piece.marks else ""
    return (f"{command}{{{text}}}" if command else text) + raised


def latex(table: Table) -> str:
    r"""The table alone, to be \input, in parts that fit the page; its notes and claims are in the Markdown file."""
    from pandas import DataFrame, MultiIndex

    shown, texts = layout.lines(table), []
    corner = layout.heads(table)
    for i, columns in enumerate(layout.parts(table, shown, LATEX_WIDTH, gap=2)):
        heads = [("", name) for name in corner]
        for column in columns:
            stack = r"\\".join(map(latex_text, layout.wrapped(layout.heading(table, column)).splitlines()))
            heads.append((latex_text(column.group), rf"\shortstack[r]{{{stack}}}" if r"\\" in stack else stack))
        grouped = MultiIndex.from_tuples(heads) if any(group for group, _ in heads) else [name for _, name in heads]
        rows = [list(map(_latex_piece, pieces)) for pieces in layout.grid(table, shown, columns)]
        frame = DataFrame(rows, columns=grouped)
        caption = f"{latex_text(table.title)}." if i == 0 else f"{latex_text(table.name)}, continued."
        texts.append(
            frame.style.hide(axis="index").to_latex(
                hrules=True,
                environment="longtable",
                caption=caption,
                label=f"table:{table.file_name}{f'-{i + 1}' if i else ''}",
                column_format="l" * len(corner) + "r" * len(columns),
                multicol_align="c",
            )
        )
    about = f"% {table.name}, needs the packages {' and '.join(PACKAGES)}; its notes are in {table.file_name}.md\n"
    size = "{\\scriptsize\\setlength{\\tabcolsep}{3pt}%\n"
    return about + size + ("".join(texts) or f"\\noindent {latex_text(table.title)}.\n") + "}\n"


Href = Callable[[str], str | None]
"""Run id -> address of its entry, or None without one."""
CSS = """\
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


def _html(piece: Piece, href: Href) -> str:
    text = f"<strong>{escape(piece.text)}</strong>" if piece.best else escape(piece.text)
    links = [(result.seed, escape(place)) for result in piece.runs if (place := href(result.run_id))]
    if len(piece.runs) == 1 and links:
        text = f'<a href="{links[0][1]}">{text}</a>'
    elif links:
        seeds = (f'<a href="{place}">seed {seed}</a>' for seed, place in links)
        text += f" ({', '.join(seeds)})"
    if piece.status:
        text = f'<span class="verdict {piece.status.replace(" ", "-")}" title="{escape(piece.why)}">{text}</span>'
    return text + (f"<sup>{piece.marks}</sup>" if piece.marks else "")


def html(table: Table, href: Href = lambda run_id: None) -> str:
    """The table with its caption, and legend, footnotes, verdicts and claims below: a fragment for a page with its own
    style.

    Classes: `scroll` around a table, `caption`; `group`, `first` and `more` of lines; `number` of cells; `verdict` and,
    as in "verdict other-protocol", its status; `legend` and `footnotes`.

    Args:
        href: gives the address of the entry of a run.
    """
    shown, found = layout.lines(table), []
    name = f"table-{re.sub('[^0-9A-Za-z_-]+', '-', table.file_name)}"
    title, corner = f'<div class="caption" id="{name}">{escape(table.title)}.</div>', layout.heads(table)
    for i, columns in enumerate(layout.parts(table, shown)):
        region = f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">'
        found.append(f"{region}\n<table>{'' if i else f'<caption>{title}</caption>'}\n<thead>")
        if any(column.group for column in columns):
            groups = ((group, len(list(some))) for group, some in groupby(columns, lambda column: column.group))
            spans = (f'<th scope="colgroup" colspan="{count}">{escape(group)}</th>' for group, count in groups)
            found.append(f"<tr>{'<td></td>' * len(corner)}{''.join(spans)}</tr>")
        heads = [f'<th scope="col">{head}</th>' if head else "<td></td>" for head in corner]
        names = (escape(layout.heading(table, column)) for column in columns)
        heads += [f'<th scope="col" class="number">{text}</th>' for text in names]
        found.append(f"<tr>{''.join(heads)}</tr>\n</thead>\n<tbody>")
        for label, *pieces in layout.grid(table, shown, columns):
            cells = [f"<td>{_html(piece, href)}</td>" for piece in pieces[: len(corner) - 1]]
            cells += [f'<td class="number">{_html(piece, href)}</td>' for piece in pieces[len(corner) - 1 :]]
            scope = f'scope="rowgroup" colspan="{1 + len(cells)}"' if label.labels == "group" else 'scope="row"'
            line = f"<th {scope}>{_html(label, href)}</th>{'' if label.labels == 'group' else ''.join(cells)}"
            found.append(f'<tr class="{label.labels}">{line}</tr>')
        found.append("</tbody>\n</table>\n</div>")
    found += [] if table.columns else [title]
    for heading, items in layout.below(table):
        kind = "footnotes" if heading == "Notes" else "legend"
        marked = (f"<sup>{mark}</sup> {escape(text)}" if mark else escape(text) for mark, text in items)
        listed = f'<ul class="{kind}">' + "".join(f"<li>{text}</li>" for text in marked) + "</ul>"
        folded = f"<details>\n<summary>{escape(heading)}</summary>\n{listed}</details>"
        found.append(folded if heading.startswith("Verdicts") else listed)
    if claims := [layout.claim(finding) for finding in table.findings]:
        lines = ["".join(f"<td>{escape(text)}</td>" for text in one.values()) for one in claims]
        lines.insert(0, "".join(f'<th scope="col">{name}</th>' for name in claims[0]))
        rows = "\n".join(f"<tr>{line}</tr>" for line in lines)
        region = '<div class="scroll" role="region" aria-label="What the papers claim" tabindex="0">'
        caption = "<caption>What the papers claim, checked on these runs.</caption>"
        found.append(f'{region}\n<table class="claims">\n{caption}\n{rows}\n</table>\n</div>')
    return "\n".join(found) + "\n"


def page(table: Table) -> str:
    """A page of its own, without other files."""
    title = escape(table.name)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{html(table)}</main>\n</body>\n</html>\n"
    )


def records(table: Table) -> list[dict[str, Any]]:
    """One record for each cell, in the order of the table; None or "" where something is missing."""
    return [_record(table, row, column, cell) for (row, column), cell in table.cells.items()]


def _record(table: Table, row: Row, column: Column, cell: Cell) -> dict[str, Any]:
    verdict = cell.verdict
    tasks, clustering = cell.few_shot, cell.clustering or cell.fair
    printed = cell.published if table.compares else None
    return {
        "table": table.name,
        "row_group": row.group,
        "row": row.name,
        "column_group": column.group,
        "column": column.name,
        "metric": column.metric,
        "unit": column.unit,
        # Origin of the printed number; in an experiment, what the strategy declares.
        "kind": printed.kind if printed else row.kind,
        "published": printed.value if printed else None,
        "published_half_width": printed.half_width if printed else None,
        # The number that is compared with in place of the published one.
        "corrected": printed.corrected if printed else None,
        "corrected_half_width": printed.corrected_half_width if printed else None,
        "errata": printed.errata if printed else (),
        # Mean over seeds, and half its 95 % interval.
        "reproduced": _finite(column.scale * cell.value),
        "half_width": _finite(column.scale * cell.half_width),
        # Mean over the seeds of the shipped runs.
        "shipped": _finite(column.scale * replace(cell, results=cell.shipped).value),
        "shipped_seeds": len(cell.shipped),
        # The metric by which the paper scored, if it is not that of the column, and the result by it.
        "scored": cell.scored,
        "scored_as_printed": _finite(column.scale * cell.as_printed),
        "difference": _finite(verdict.difference) if verdict and printed else None,
        "verdict": verdict.status if verdict else "",
        "why": verdict.why if verdict else "",
        "cause": verdict.cause.cause if verdict and verdict.cause else "",  # of above or below
        "best": cell.best,
        "tasks": cell.tasks,  # over all seeds
        "seeds": len(cell.results),
        "runs": tuple(result.run_id for result in cell.results),
        "strategy": tasks.strategy.name if tasks else clustering.method.name if clustering else "",
        "sampler": tasks.sampler.name if tasks else "",
        "shot": tasks.sampler.options.get("shot") if tasks else None,
        # Identity of the config; equal for cells that the same runs fill.
        "config": cell_key(cell.config) if cell.config else "",
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(table: Table) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "table": table.name,
        "title": table.title,
        "cells": records(table),
        "errata": {erratum.id: erratum.text for erratum in table.errata},
        "claims": [layout.claim(finding) for finding in table.findings],
    }


def as_csv(table: Table) -> str:
    """One line for each cell; lists, such as runs, are separated by spaces."""
    from pandas import DataFrame

    cells = [
        {name: " ".join(value) if isinstance(value, tuple) else value for name, value in record.items()}
        for record in records(table)
    ]
    return DataFrame(cells, dtype=object).to_csv(index=False, lineterminator="\n")


FILES: Mapping[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "html": page, "csv": as_csv}
"""What a table is saved as: the ending of the file, and what writes its text."""
