"""A claim of a paper about clusterings, and the data sets of a table that it is checked on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from runs.tables.claims.few_shot import Finding, Status
from runs.tables.table import Cell, Table

Results = TypeVar("Results")
Cells = Mapping[str, Mapping[str, Cell]]
"""Of one data set, by metric and method."""


@dataclass(frozen=True)
class Claim(Generic[Results]):
    """A claim and its check.

    Attributes:
        text: in a sentence.
        source: where it is made.
        methods: what it is about.
        check: gives (status, evidence) where the results of a data set allow it.
        datasets: those it is made of; of any without.
        metric: what the table must be about; any without.
    """

    text: str
    source: str
    methods: tuple[str, ...]
    check: Callable[[Results], Iterator[tuple[Status, str]]]
    datasets: tuple[str, ...] = ()
    metric: str = ""

    def is_about(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets

    def is_asked(self, cells: Cells) -> bool:
        """Whether cells of a data set have its methods and metric."""
        return any({*self.methods} <= cells[metric].keys() for metric in cells if self.metric in ("", metric))


def checked(
    table: Table,
    claims: Sequence[Claim[Results]],
    place: Callable[[Cell], tuple[str, str] | None],
    results: Callable[[str, Cells], Results],
) -> list[Finding]:
    """Every claim on every data set for which the table has the runs; those it has the methods for, but no runs, as not
    run.

    Args:
        place: the names of a cell's data set and method; None of a cell that no claim is about.
        results: what a check looks at, of a data set by its name and its filled cells.
    """
    asked, filled = _by_dataset(table, place), _by_dataset(table, place, filled=True)
    findings = []
    for claim in claims:
        found = []
        for name, cells in filled.items():
            if claim.is_about(name):
                seen = claim.check(results(name, cells))
                found += [Finding(claim.text, claim.source, name, status, evidence) for status, evidence in seen]
        if not found and any(claim.is_about(name) and claim.is_asked(cells) for name, cells in asked.items()):
            found = [Finding(claim.text, claim.source, "", "not run", "")]
        findings += found
    return findings


def _by_dataset(
    table: Table, place: Callable[[Cell], tuple[str, str] | None], *, filled: bool = False
) -> dict[str, dict[str, dict[str, Cell]]]:
    """Cells by data set, metric and method; of several of a kind the first counts."""
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    for (_, column), cell in table.cells.items():
        names = place(cell) if cell.results or not filled else None
        if names is not None:
            dataset, method = names
            found.setdefault(dataset, {}).setdefault(column.metric, {}).setdefault(method, cell)
    return found
