"""Tables on narrow screens: split into several tables, or printed as one block of lines per row."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

READABLE = 20  # minimum width of a column with long text, in characters


def tables(
    rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str], width: int
) -> "list[tuple[list[Mapping[str, str | Text]], list[str]]]":
    """Split a table into tables of at most `width` characters. Each begins with the columns that identify its rows.

    Returns:
        The rows and columns of each table: one table if all columns fit, none if a cell is longer than half the width
        or a column does not fit beside the identifying columns.
    """
    if _needed(rows, columns) <= width:
        return [(list(rows), list(columns))]
    if any(len(str(cell)) > width / 2 for row in rows for cell in row.values()):
        return []
    names = _names(rows, columns)
    parts: list[list[str]] = [[]]
    for group in _under_one_heading(columns[len(names) :]):
        if parts[-1] and _needed(rows, [*names, *parts[-1], *group]) > width:
            parts.append([])
        parts[-1] += group
    if any(_needed(rows, [*names, *part]) > width for part in parts):
        return []
    headings = [row for row in rows if not _has(row, columns[len(names) :])]
    return [([row for row in rows if row in headings or _has(row, part)], [*names, *part]) for part in parts]


def _has(row: "Mapping[str, str | Text]", columns: Sequence[str]) -> bool:
    return any(str(row.get(name, "")) for name in columns)


def _names(rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str]) -> list[str]:
    """The first columns that identify all rows, usually one. An empty cell repeats the one above."""
    filled: list[str] = []
    for row in rows:
        filled.append(str(row.get(columns[0], "")) or (filled[-1] if filled else ""))
    for count in range(1, len(columns)):
        others = [[str(row.get(name, "")) for name in columns[1:count]] for row in rows]
        if len({(name, *cells) for name, cells in zip(filled, others, strict=True)}) == len(rows):
            return list(columns[:count])
    return list(columns[:1])


def _under_one_heading(columns: Sequence[str]) -> list[list[str]]:
    """Group columns: a column whose heading is empty or begins with an empty line joins the column to its left."""
    groups: list[list[str]] = []
    for name in columns:
        if groups and (not name or name.startswith("\n")):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _needed(rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str]) -> int:
    """The minimum width of a table that neither splits words nor makes text columns narrower than READABLE."""
    needed = 1
    for name in columns:
        cells = [str(row.get(name, "")) for row in rows]
        widest = max(map(len, [*name.split("\n"), *cells]))
        if name != columns[0]:  # the first column is not wrapped
            words = [len(word) for text in (name, *cells) for word in text.split()]
            widest = min(widest, max([*words, READABLE]))
        needed += widest + 3
    return needed


def as_blocks(rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str], width: int) -> str:
    """Print each row as a block: the first column, then one line for each other column."""
    first, *others = columns
    lines: list[str] = []
    for row in rows:
        lines.append(str(row.get(first, "")))
        for name in others:
            if text := " ".join(str(row.get(name, "")).split()):
                lines += textwrap.wrap(
                    f"{' '.join(name.split())}: {text}" if name else text,
                    width,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
    return "\n".join(lines) + "\n"
