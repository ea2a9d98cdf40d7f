"""What stands below a table: its legend, footnotes, the reasons for verdicts, runs, remarks and claims."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from runs.tables.formats import wording
from runs.tables.papers.paper import is_paper
from runs.tables.table import Cell, Row, Table

LETTERS = "abcdefghijklmnoprstuvwxyz"  # Unicode has no raised q


@dataclass(frozen=True)
class Footnote:
    """A footnote: its mark ("" if about the whole table), the id of the erratum or cause (or ""), and the text."""

    mark: str
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.id}: {self.text}" if self.id else self.text


class Section(NamedTuple):
    """A list below a table: its heading, and its texts with their marks (or "")."""

    heading: str
    items: list[tuple[str, str]]


def below(table: Table, digits: int | None = None, *, claims: bool = True) -> list[Section]:
    """The lists below a table that are not empty.

    Args:
        digits: characters of the ids of runs; None for all.
        claims: include the findings on claims.
    """
    sections: dict[str, list[str]] = {}
    if is_paper(table.name):
        sections["Legend"] = wording.legend(table)
        sections[f"Verdicts: {wording.tally(table)}"] = wording.reasons(table)
        sections["Runs"] = wording.runs(table, digits)
    sections["Remarks"] = list(table.notes)
    if claims:
        sections["What the papers claim"] = [f"{one.status}: {wording.sentence(one)}" for one in table.findings]
    lists = [Section(heading, [("", text) for text in texts]) for heading, texts in sections.items()]
    lists.insert(1, Section("Notes", [(note.mark, str(note)) for note in footnotes(table)]))
    return [section for section in lists if section.items]


def footnotes(table: Table) -> list[Footnote]:
    """Errata, causes of differences and remarks of rows, marked in the order of the table, those without a mark last;
    empty without a print to compare with."""
    if not wording.compares(table):
        return []
    texts: dict[str, str] = {erratum.id: erratum.text for erratum in table.errata}
    causes = [cell.verdict.cause for cell in table.cells.values() if cell.verdict]
    texts |= {cause.id: str(cause) for cause in causes if cause}
    cited = []
    for row in table.rows:
        cited += [row.note] if row.note else []
        for column in table.columns:
            cited += [key for key in _keys(table.cells.get((row, column))) if key in texts]
    order = list(dict.fromkeys(cited))
    marked = [Footnote(_letters(i), key if key in texts else "", texts.get(key, key)) for i, key in enumerate(order)]
    return marked + [Footnote("", key, text) for key, text in texts.items() if key not in order]


def marks(notes: Iterable[Footnote], row: Row, cell: Cell | None = None) -> str:
    """The marks of a row's name, or of a cell."""
    keys = _keys(cell) if cell else (row.note,)
    return "".join(note.mark for note in notes if note.mark and (note.id or note.text) in keys)


def _keys(cell: Cell | None) -> tuple[str, ...]:
    """The ids of the errata of a cell, and of the cause of its difference."""
    errata = cell.published.errata if cell and cell.published else ()
    cause = cell.verdict.cause if cell and cell.verdict else None
    return (*errata, cause.id) if cause else errata


def _letters(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(i, len(LETTERS))
    return (_letters(before - 1) if before else "") + LETTERS[last]
