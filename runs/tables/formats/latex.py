"""A table as LaTeX, to be \\input. Needs only the packages booktabs and longtable, and breaks across pages."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from runs.tables.formats import wording
from runs.tables.formats.footnotes import Section, below
from runs.tables.formats.latex_text import escape
from runs.tables.formats.layout import Layout, Line, Part, Piece, Room
from runs.tables.table import Table

PACKAGES = ("booktabs", "longtable")
TEXT_WIDTH = 345.0  # points, of the class article
GAP = 6.0  # points between two columns


def latex(table: Table) -> str:
    """The table, with lists of its legend, notes, verdicts, runs and claims below."""
    layout = Layout(table)
    if len(layout.parts(ROOM)) > 1:
        layout = Layout(table, narrow=True)
    parts = layout.parts(ROOM)
    needed = ", ".join(PACKAGES)
    lines = [f"% {table.name}, needs the packages {needed}; run twice", r"{\scriptsize\setlength{\tabcolsep}{3pt}%"]
    for i, part in enumerate(parts):
        lines += _part(layout, part, first=i == 0)
    if not parts:
        lines += [rf"\noindent {escape(table.title)}."]
    lines += [r"\raggedright", *(line for section in below(table, wording.DIGITS) for line in _section(section))]
    return "\n".join([*lines, r"\par}", ""])


def points(text: str) -> float:
    """Approximate width of a text in Computer Modern at 7 points."""
    return sum(map(_width, text))


def _width(sign: str) -> float:
    for signs, width in (("ijlf.,:;'|!", 2.4), ("rst()[]- ", 3.1), ("mw±→", 6.6)):
        if sign in signs:
            return width
    return 5.9 if sign.isupper() else 4.1


# The marks of footnotes hang into the gap.
ROOM = Room(TEXT_WIDTH, GAP, points, marks=lambda marks: 0, spanned=True)


def _part(layout: Layout, part: Part, *, first: bool) -> Iterator[str]:
    names = 1 + layout.kinds
    count = names + len(part.columns)
    if not first:
        yield r"\addtocounter{table}{-1}%"
    yield rf"\begin{{longtable}}{{@{{}}{'l' * names}{'r' * len(part.columns)}@{{}}}}"
    if first:
        yield rf"\caption{{{escape(layout.table.title)}.}}\label{{table:{layout.table.file_name}}}\\"
    heading = [r"\toprule", *_heading(layout, part), r"\midrule"]
    yield from (*heading, r"\endfirsthead", *heading, r"\endhead", r"\bottomrule", r"\endfoot")
    for i, (group, lines) in enumerate(part.groups):
        if i:
            yield r"\addlinespace"
        if group:
            yield rf"\multicolumn{{{count}}}{{@{{}}l}}{{\textbf{{{escape(group)}}}}}\\*"
        for line, after in zip(lines, (*lines[1:], None), strict=True):
            yield from _line(layout, part, line, ends=after is None or after.role == "row")
    yield r"\end{longtable}"


def _heading(layout: Layout, part: Part) -> Iterator[str]:
    """A line of the groups of columns, then one of the names of columns."""
    at = 1 + layout.kinds
    spans, rules = [""] * at, []
    for group, some in groupby(part.columns, lambda column: column.group):
        columns = list(some)
        room = sum(layout.width(column, ROOM) + GAP for column in columns) - GAP
        lines = textwrap.wrap(group, max(int(room / points("n")), 8)) or [""]
        spans.append(rf"\multicolumn{{{len(columns)}}}{{c}}{{{_stack(lines)}}}")
        rules += [rf"\cmidrule(lr){{{at + 1}-{at + len(columns)}}}"] if group else []
        at += len(columns)
    if rules:
        yield " & ".join(spans) + r"\\" + "".join(rules)
    names = [escape(layout.corner), *(["kind"] if layout.kinds else [])]
    yield " & ".join([*names, *(_stack(layout.heading(column, group=False)) for column in part.columns)]) + r"\\"


def _stack(lines: Sequence[str]) -> str:
    stack = r"\\".join(escape(line) for line in lines)
    return stack if len(lines) == 1 else rf"\shortstack[r]{{{stack}}}"


def _line(layout: Layout, part: Part, line: Line, *, ends: bool) -> Iterator[str]:
    """A line of the table, kept on one page with the next unless it `ends` the row. A long name takes several lines."""
    names = line.label.split("\n")
    indent = r"\quad " * (line.role != "row")
    yield from (rf"{indent}{escape(text)}\\*" for text in names[:-1])
    label = escape(names[-1])
    label = label + _raised(line.marks) if line.role == "row" else rf"\textit{{{label}}}"
    kind = [escape(line.kind)] if layout.kinds else []
    pieces = [_piece(line.pieces.get(column, Piece(""))) for column in part.columns]
    yield " & ".join([indent + label, *kind, *pieces]) + (r"\\" if ends else r"\\*")


def _piece(piece: Piece) -> str:
    text = re.sub(r"(\d)e(-?\d+)(?!\w)", r"\1$\\times10^{\2}$", escape(piece.text))
    raised = rf"\rlap{{{_raised(piece.marks)}}}" if piece.marks else ""
    return (rf"\textbf{{{text}}}" if piece.best else text) + raised


def _raised(marks: str) -> str:
    return rf"\textsuperscript{{{marks}}}" if marks else ""


def _section(section: Section) -> Iterator[str]:
    """A list of texts with their marks, below its heading."""
    yield rf"\par\smallskip\noindent {escape(section.heading)}"
    close = "".join(rf"\setlength{{\{space}}}{{0pt}}" for space in ("topsep", "itemsep", "parsep"))
    yield rf"\begin{{list}}{{}}{{\setlength{{\leftmargin}}{{1.5em}}{close}}}"
    yield from (rf"\item[{_raised(mark)}] {escape(text)}" for mark, text in section.items)
    yield r"\end{list}"
