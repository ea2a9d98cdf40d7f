"""Results on a screen that is too narrow for them: tables below each other, or rows as blocks of lines."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

READABLE = 20  # columns of the screen that a longer text gets at least


def tables(
    rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str], width: int
) -> "list[tuple[list[Mapping[str, str | Text]], list[str]]]":
    """Rows and columns of tables below each other, each of which begins with the columns that tell its rows apart.

    Returns:
        One table where all columns fit; none where a text of more than half a screen is among them, or a column that
        does not fit beside the names of the rows.
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
    """The first columns that tell all rows apart: one, as a rule. A name that is left out is that of the row above."""
    filled: list[str] = []
    for row in rows:
        filled.append(str(row.get(columns[0], "")) or (filled[-1] if filled else ""))
    for count in range(1, len(columns)):
        others = [[str(row.get(name, "")) for name in columns[1:count]] for row in rows]
        if len({(name, *cells) for name, cells in zip(filled, others, strict=True)}) == len(rows):
            return list(columns[:count])
    return list(columns[:1])


def _under_one_heading(columns: Sequence[str]) -> list[list[str]]:
    """Columns in groups: one whose heading is empty, or begins with an empty line, goes with that on its left."""
    groups: list[list[str]] = []
    for name in columns:
        if groups and (not name or name.startswith("\n")):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _needed(rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str]) -> int:
    """Columns of the screen below which a table would cut words, or squeeze a text into a few letters."""
    needed = 1
    for name in columns:
        cells = [str(row.get(name, "")) for row in rows]
        widest = max(map(len, [*name.split("\n"), *cells]))
        if name != columns[0]:  # which is not wrapped
            words = [len(word) for text in (name, *cells) for word in text.split()]
            widest = min(widest, max([*words, READABLE]))
        needed += widest + 3
    return needed


def as_blocks(rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str], width: int) -> str:
    """Rows below each other, for a narrow screen: the first column, then a line for each of the others."""
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
