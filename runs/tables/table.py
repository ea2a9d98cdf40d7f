"""A table: the grid of an experiment or the table of a paper, with what was found about it."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

from runs.config import groups
from runs.tables.cell import STATUSES, Cell, Status
from runs.tables.keys import Config
from runs.tables.papers.published import Erratum

ClaimStatus = Literal["holds", "tie", "fails", "not run"]
CLAIM_STATUSES: tuple[ClaimStatus, ...] = get_args(ClaimStatus)


@dataclass(frozen=True)
class Finding:
    """The status of a claim in one setting.

    Attributes:
        claim, source: the statement, and where it is made.
        setting: the column, columns or data set that it was checked on; empty where it was not run.
        status: holds, tie or fails; not run where the table has the methods but not their runs.
        evidence: the numbers.
    """

    claim: str
    source: str
    setting: str
    status: ClaimStatus
    evidence: str


@dataclass(frozen=True)
class Table:
    """Cells, row by row.

    Attributes:
        name: "quickstart", "thesis/4.1", "thesis/4.4@omniglot".
        about: what all cells have in common, in words.
        cells: places that the print leaves out are missing.
        columns: `Cell.column_key` of each column in the order shown; by default that of the cells.
        configs: every config to be run for it, one for each seed.
        seeds: seeds whose runs count; empty for all seeds of the record.
        notes: remarks for the reader: which runs are left out and why.
        errata: known errors of the print, by the ids that cells cite.
        findings: the claims of the papers that were checked on its runs.
    """

    name: str
    about: str
    cells: tuple[Cell, ...]
    columns: tuple[tuple[str, str, str], ...] = ()
    configs: tuple[Config, ...] = ()
    seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    errata: tuple[Erratum, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", tuple(dict.fromkeys(cell.column_key for cell in self.cells)))

    def mapped(self, changes: Callable[[Cell], Mapping[str, Any]], **more: Any) -> Self:
        """The table with new values of some fields of its cells, and of its own fields."""
        return dataclasses.replace(
            self, cells=tuple(dataclasses.replace(cell, **changes(cell)) for cell in self.cells), **more
        )

    @property
    def file_name(self) -> str:
        """The name for files: thesis-4.4-omniglot."""
        return self.name.replace("/", "-").replace("@", "-")

    @property
    def is_paper(self) -> bool:
        """Whether it is a paper's table, on the paper's data or on others."""
        return is_paper(self.name)

    @property
    def compares(self) -> bool:
        """Whether it is compared with printed numbers: a paper's table, but not on another benchmark."""
        return self.is_paper and "@" not in self.name

    @property
    def missing(self) -> list[Cell]:
        """Cells that can be run here but were not."""
        return [cell for cell in self.cells if cell.config and not cell.results]

    @property
    def statuses(self) -> dict[Status, int]:
        """Number of cells for each verdict, in the order of `STATUSES`; verdicts without cells are omitted."""
        counts = Counter(cell.verdict for cell in self.cells)
        return {status: counts[status] for status in STATUSES if counts[status]}

    @property
    def ordered(self) -> list[Cell]:
        """The cells in the order shown: by rows as they first occur, and by columns."""
        rows = list(dict.fromkeys(cell.row_key for cell in self.cells))
        places = {(row, column): i for i, (row, column) in enumerate(itertools.product(rows, self.columns))}
        return sorted(self.cells, key=lambda cell: places[cell.row_key, cell.column_key])

    def at(self, row: str, column: str) -> Cell:
        """The cell under the headings of these names, groups before them."""
        return next(cell for cell in self.cells if (cell.row_name, cell.column_name) == (row, column))

    @cached_property
    def title(self) -> str:
        """What the cells have in common, with the numbers of tasks and seeds of the runs."""
        filled = [cell.results for cell in self.cells if cell.results]
        counts = sorted({result.tasks for results in filled for result in results if result.tasks})
        seeds = sorted({len(results) for results in filled} or {1})
        parts = [self.about]
        parts += [f"{_range(counts)} task{'' if counts[-1] == 1 else 's'} a seed"] if counts else []
        parts += [f"{_range(seeds)} seeds"] if seeds[-1] > 1 else []
        words = {"%": "values in %", "s": "times in seconds"}
        units = {cell.column_key: cell.unit for cell in self.cells}
        shown = [words[unit] for unit in dict.fromkeys(units[column] for column in self.columns) if unit in words]
        if counts or seeds[-1] > 1:
            over = "seeds" if seeds[-1] > 1 else "queries" if counts == [1] else "tasks"
            shown.append(f"95 % interval over {over}")
        return "; ".join(filter(None, (", ".join(filter(None, parts)), ", ".join(shown))))


def distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The first cell at each place."""
    found: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        found.setdefault(cell.place, cell)
    return tuple(found.values())


def _range(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"


def is_paper(name: str) -> bool:
    """Whether a table's name is of the form WORK/NUMBER, with or without @BENCHMARK."""
    is_file = name.endswith((".yaml", ".yml"))
    return "/" in name and not is_file and name.partition("@")[0] not in groups.names("experiment")
