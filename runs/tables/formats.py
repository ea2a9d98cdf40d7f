"""A table as text: on the terminal, as Markdown, LaTeX and HTML, and as records for CSV and JSON.

What is shown is in `runs.tables.layout`.
"""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from runs.console.output import WIDE
from runs.tables import layout
from runs.tables.keys import cell_key
from runs.tables.layout import Piece
from runs.tables.table import Cell, Status, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from runs.console.output import Console

PACKAGES = ("booktabs", "longtable")  # of LaTeX
LATEX_WIDTH = 80  # characters that fit side by side in a text of 345 points
PRINTED = ("published", "published_half_width", "corrected", "corrected_half_width")
COLOURS: Mapping[Status | None, str] = {
    "reproduced": "green",
    "above": "cyan",
    "below": "red",
    "other protocol": "yellow",
    "no target": "yellow",
}
RAISED = str.maketrans(layout.LETTERS, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")


def show(table: Table, console: "Console") -> None:
    """Print a table with its legend, notes, verdicts and claims; the remarks are printed by the command."""
    from rich.text import Text

    def text(piece: Piece) -> Text:
        style = f"{piece.style.replace('italic', '')} {COLOURS.get(piece.status, '')}".strip()
        return Text("  " * (piece.style == "italic") + piece.text, style).append(piece.marks.translate(RAISED))

    title = table.title
    for heads, rows in layout.parts(table, layout.lines(table), console.width - 1):
        names = [layout.wrapped(*head) for head in heads]
        shown = [dict(zip(["", *names], map(text, row), strict=True)) for row in rows]
        console.table(shown, title=title, right=names)
        title = ""
    if title:
        console.write(title)
    wrapped = textwrap.TextWrapper(console.width, "  ", "      ", break_on_hyphens=False)
    for heading, items in layout.below(replace(table, notes=())).items():
        console.write("\n" + textwrap.fill(heading, console.width))
        texts = (f"{mark.translate(RAISED)} {text}".strip() for mark, text in items)
        console.write("\n".join(map(wrapped.fill, texts)))


# An underscore within a word, and an ampersand that begins no entity, are themselves.
INLINE = re.compile(r"([\\`*<\[|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
LEADING = re.compile(r"^(\d*)([#>+\-=.)])")
EMPHASIS = {"": "", "bold": "**", "italic": "*"}


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, within a line."""
    return INLINE.sub(r"\\\1", " ".join(text.split()))


def _markdown(piece: Piece) -> str:
    sign, raised = EMPHASIS[piece.style], f"<sup>{piece.marks}</sup>" if piece.marks else ""
    return f"{sign}{markdown_text(piece.text)}{sign}{raised}"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """A Markdown table of cells in Markdown; the columns in `right` are aligned right."""
    aligned = ["---:" if name in right else "---" for name in names]
    return "\n".join("| " + " | ".join(line) + " |" for line in (names, aligned, *rows))


def markdown(table: Table) -> str:
    """A Markdown table with its title, and legend, notes, verdicts and claims below."""

    def paragraph(text: str) -> str:
        return LEADING.sub(r"\1\\\2", markdown_text(text))

    blocks = [f"{paragraph(table.title)}."]
    for heads, rows in layout.parts(table, layout.lines(table), WIDE):
        names = [markdown_text(" ".join(head)) for head in heads]
        blocks.append(markdown_table(["", *names], [list(map(_markdown, row)) for row in rows], names))
    for heading, items in layout.below(table).items():
        texts = (f"- <sup>{mark}</sup> {paragraph(text)}" if mark else f"- {paragraph(text)}" for mark, text in items)
        blocks += [f"{heading}:", "\n".join(texts)]
    return "\n\n".join(blocks) + "\n"


SIGNS: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}
SIGNS |= {sign: f"\\{sign}" for sign in "{}$&#_%"} | {sign: f"${sign}$" for sign in "<>|"}


def latex_text(text: str) -> str:
    """Text escaped for LaTeX, on one line, with the minus of numbers as in formulas. Letters of other scripts stay."""
    written = " ".join(text.split()).translate(str.maketrans(SIGNS))
    return re.sub(r"(?<![\w.])([+-])(?=\d)", r"$\1$", written)


def _latex(piece: Piece) -> str:
    command = {"": "", "bold": r"\textbf", "italic": r"\quad\textit"}[piece.style]
    return f"{command}{{{latex_text(piece.text)}}}" if command else latex_text(piece.text)


def latex_table(frame: "DataFrame", caption: str, label: str, right: Sequence[bool]) -> str:
    """A frame of LaTeX as a table by booktabs, which may be longer than a page."""
    return frame.style.hide(axis="index").to_latex(
        hrules=True,
        environment="longtable",
        caption=f"{latex_text(caption)}.",
        label=f"table:{re.sub('[^0-9A-Za-z@._-]+', '-', label)}",
        column_format="".join("r" if numbers else "l" for numbers in right),
        multicol_align="c",
    )


def _grouped(heads: list[tuple[str, str]]) -> Any:
    """The names of columns, below those of their groups if there are any."""
    from pandas import MultiIndex

    return MultiIndex.from_tuples(heads) if any(group for group, _ in heads) else [name for _, name in heads]


def latex(table: Table) -> str:
    r"""The table alone, to be \input, in parts that fit the page: printed numbers, targets and results. Its verdicts,
    notes and claims are in the Markdown file."""
    from pandas import DataFrame

    shown = [line for line in layout.lines(table) if line.label.text != "verdict"]
    texts = []
    for i, (heads, rows) in enumerate(layout.parts(table, shown, LATEX_WIDTH, gap=2)):
        stacks = [r"\\".join(map(latex_text, layout.wrapped(name).splitlines())) for _, name in heads]
        names = [rf"\shortstack[r]{{{stack}}}" if r"\\" in stack else stack for stack in stacks]
        above = [latex_text(group) for group, _ in heads]
        columns = _grouped([("", ""), *zip(above, names, strict=True)])
        frame = DataFrame([list(map(_latex, row)) for row in rows], columns=columns)
        caption = f"{table.name}, continued" if i else table.title
        label = f"{table.file_name}-{i + 1}" if i else table.file_name
        texts.append(latex_table(frame, caption, label, [False, *[True] * len(heads)]))
    about = f"% {table.name}, needs the packages {' and '.join(PACKAGES)}; its notes are in {table.file_name}.md\n"
    size = "{\\scriptsize\\setlength{\\tabcolsep}{3pt}%\n"
    return about + size + ("".join(texts) or f"\\noindent {latex_text(table.title)}.\n") + "}\n"


CSS = """\
body { margin: 1rem auto; max-width: 76rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: left; vertical-align: top; }
.numbers td { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; }
"""


def _html(piece: Piece, address: Callable[[str], str] | None) -> str:
    tag = {"": "", "bold": "strong", "italic": "em"}[piece.style]
    text = f"<{tag}>{escape(piece.text)}</{tag}>" if tag else escape(piece.text)
    links = [(result.seed, escape(address(result.run_id))) for result in piece.runs if address and result.run_id]
    if len(links) == 1:
        text = f'<a href="{links[0][1]}">{text}</a>'
    elif links:
        seeds = (f'<a href="{place}">seed {seed}</a>' for seed, place in links)
        text += f" ({', '.join(seeds)})"
    if piece.status:
        text = f'<span class="verdict {piece.status.replace(" ", "-")}" title="{escape(piece.why)}">{text}</span>'
    return text + (f"<sup>{piece.marks}</sup>" if piece.marks else "")


def html_table(frame: "DataFrame", about: str, kind: str, *, index: bool) -> str:
    """A frame of HTML as a table that scrolls within its page; `about` names it for those who do not see it."""
    table = frame.to_html(escape=False, border=0, index=index, classes=kind, justify="unset")
    table = table.replace('<tr style="text-align: unset;">', "<tr>")  # pages of the report admit no inline styles
    return f'<div class="scroll" role="region" aria-label="{escape(about)}" tabindex="0">\n{table}\n</div>'


def html(table: Table, address: Callable[[str], str] | None = None) -> str:
    """The table with its caption, and legend, footnotes, verdicts and claims below: a fragment for a page with its own
    style.

    Classes: `caption`; `scroll` around a table, which is of `numbers`; `verdict` and, as in "verdict other-protocol",
    its status; `legend` of the lists below.

    Args:
        address: that of a run, by its id; None: numbers are no links.
    """
    from pandas import DataFrame

    found = [f'<p class="caption">{escape(table.title)}.</p>']
    for heads, pieces in layout.parts(table, layout.lines(table)):
        names = _grouped([(escape(group), escape(name)) for group, name in heads])
        rows = [[_html(piece, address) for piece in row] for row in pieces]
        frame = DataFrame([row[1:] for row in rows], index=[row[0] for row in rows], columns=names)
        found.append(html_table(frame, table.name, "numbers", index=True))
    for heading, items in layout.below(table).items():
        marked = (f"<sup>{mark}</sup> {escape(text)}" if mark else escape(text) for mark, text in items)
        listed = '<ul class="legend">' + "".join(f"<li>{text}</li>" for text in marked) + "</ul>"
        folded = f"<details>\n<summary>{escape(heading)}</summary>\n{listed}</details>"
        found.append(listed if heading in ("Legend", "Notes") else folded)
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
    return [_record(table, cell) for cell in table.cells]


def _record(table: Table, cell: Cell) -> dict[str, Any]:
    tasks, clustering = cell.few_shot, cell.clustering or cell.fair
    known = table.compares and bool(cell.printed)  # the print is compared with
    return {
        "table": table.name,
        **dict(zip(("row_group", "row", "column_group", "column", "metric"), cell.place, strict=True)),
        "unit": cell.unit,
        # Origin of the printed number; in an experiment, what the strategy declares.
        "kind": cell.kind if known else cell.row_kind,
        # The printed number, and that which is compared with in its place.
        **{name: getattr(cell, name) if known else None for name in PRINTED},
        "errata": cell.errata if known else (),
        # Mean over seeds, and half its 95 % interval.
        "reproduced": _finite(cell.scale * cell.value),
        "half_width": _finite(cell.scale * cell.half_width),
        # Mean over the seeds of the shipped runs.
        "shipped": _finite(cell.scale * cell.as_shipped.value),
        "shipped_seeds": len(cell.shipped),
        # The metric by which the paper scored, if it is not that of the column, and the result by it.
        "scored": cell.scored,
        "scored_as_printed": _finite(cell.scale * cell.as_printed),
        "difference": _finite(cell.difference) if known else None,
        "verdict": cell.verdict or "",
        "why": cell.why,
        "cause": cell.cause.cause if cell.cause else "",  # of above or below
        "best": cell.best,
        "tasks": sum(result.tasks for result in cell.results),  # over all seeds
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
        "claims": [
            {"claim": of.claim, "source": of.source, "in": of.setting, "verdict": of.status, "evidence": of.evidence}
            for of in table.findings
        ],
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
