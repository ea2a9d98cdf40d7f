"""Claims of the papers: `runs/published/claims.yaml` states them, the other modules of this folder hold their tests."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from clustering.foundation.errors import unknown
from runs.config.source import freeze
from runs.tables.papers.published import Value, read_published
from runs.tables.table import Cell, ClaimStatus, Finding, SeedResult, Table

File = TypeVar("File")
Found = Iterator[tuple[ClaimStatus, str]]
"""Status and evidence."""
Cells = Mapping[str, Mapping[str, Cell]]
"""Cells of one data set, by metric and method."""


@dataclass(frozen=True)
class Claim:
    """A claim and its test.

    Attributes:
        text: the statement.
        source: where it is made.
        methods: the methods, or strategies, that it compares.
        test: called with the claim, the results of a setting and the options; yields a status and its evidence for
            each result that allows one (of few-shot claims with the column before them).
        datasets: the data sets that it is made for; empty for any.
        metric: the metric of the table that it is made for; empty for any.
        sampler: the kind of tasks that it is made for besides balanced ones; empty for none.
        shots: the numbers of shots that it is made for; empty for any.
        options: of the test.
    """

    text: str
    source: str
    methods: tuple[str, ...]
    test: Callable[..., Iterator[Any]]
    datasets: tuple[str, ...] = ()
    metric: str = ""
    sampler: str = ""
    shots: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, results: Any) -> Iterator[Any]:
        """What the test yields for the results of a setting."""
        return self.test(self, results, **self.options)

    def is_about(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets

    def is_asked(self, cells: Cells) -> bool:
        """Whether cells of a data set have its methods and metric."""
        return any({*self.methods} <= cells[metric].keys() for metric in cells if self.metric in ("", metric))


@dataclass(frozen=True)
class Results(Generic[File]):
    """The filled cells of one data set.

    Attributes:
        cells: by metric and method.
        read: reads the file of a run, its trials or its path of weights; None where it is not whole.
    """

    cells: Cells
    read: Callable[[SeedResult], File | None]

    def of(self, method: str) -> list[File]:
        """The files of the runs of a method, one for each seed."""
        cells = [of_metric[method] for of_metric in self.cells.values() if method in of_metric]
        files = [self.read(result) for result in (cells[0].results if cells else ())]
        return [file for file in files if file is not None]

    def pair(self, metric: str, *methods: str) -> tuple[float, float] | None:
        """The results of two methods scored as the paper did, else without labels; None where one is missing."""
        cells = [self.cells.get(metric, {}).get(method) for method in methods]
        values = [cell.compared for cell in cells if cell is not None]
        return (values[0], values[1]) if len(values) == 2 else None

    def printed(self, metric: str, method: str) -> Value | None:
        """The number of the paper."""
        cell = self.cells.get(metric, {}).get(method)
        return cell.published if cell else None


def published_claims(section: str, tests: Sequence[Callable[..., Iterator[Any]]]) -> tuple[Claim, ...]:
    """The claims of a section of `runs/published/claims.yaml`.

    Raises:
        InputError: names a test that is not among those given.
    """
    by_name = {test.__name__: test for test in tests}
    own = {item.name for item in dataclasses.fields(Claim)} - {"options"}
    claims = []
    for entry in read_published("claims.yaml")[section]:
        values: dict[str, Any] = {key: freeze(value) for key, value in entry.items()}
        text, name, each = values.pop("claim"), values.pop("test"), values.pop("each", ())
        if name not in by_name:
            raise unknown("test of a claim", name, by_name)
        options = {key: values.pop(key) for key in [*values] if key not in own}
        for methods in each or (values["methods"],):
            place = {**values, "methods": methods}
            claims.append(Claim(text.format(*methods, **options), test=by_name[name], options=options, **place))
    return tuple(claims)


def check_claims(
    claims: Iterable[Claim],
    check: Callable[[Claim], Iterable[tuple[str, ClaimStatus, str]]],
    is_asked: Callable[[Claim], bool],
) -> list[Finding]:
    """The findings of each claim; one that is not run, where the table asks for its methods but lacks the runs.

    Args:
        check: yields setting, status and evidence of a claim.
        is_asked: whether the table has the methods of a claim, with runs or without.
    """
    findings = []
    for claim in claims:
        seen = [Finding(claim.text, claim.source, *result) for result in check(claim)]
        if not seen and is_asked(claim):
            seen = [Finding(claim.text, claim.source, "", "not run", "")]
        findings += seen
    return findings


def check_by_dataset(
    table: Table,
    claims: Iterable[Claim],
    place: Callable[[Cell], tuple[str, str] | None],
    read: Callable[[SeedResult], Any],
) -> list[Finding]:
    """`check_claims` on every data set of a table.

    Args:
        place: the names of a cell's data set and method; None for a cell that no claim is about.
        read: reads the file of a run; None where it is not whole.
    """
    asked, filled = _by_dataset(table, place), _by_dataset(table, place, filled=True)

    def check(claim: Claim) -> Iterator[tuple[str, ClaimStatus, str]]:
        for name, cells in filled.items():
            if claim.is_about(name):
                yield from ((name, *found) for found in claim.check(Results(cells, read)))

    def is_asked(claim: Claim) -> bool:
        return any(claim.is_about(name) and claim.is_asked(cells) for name, cells in asked.items())

    return check_claims(claims, check, is_asked)


def _by_dataset(
    table: Table, place: Callable[[Cell], tuple[str, str] | None], *, filled: bool = False
) -> dict[str, dict[str, dict[str, Cell]]]:
    """Cells by data set, metric and method. A method that occurs with several settings is left out, since a claim does
    not say which of them it is about."""
    by_dataset: dict[str, dict[str, dict[str, Cell]]] = {}
    first: dict[tuple[str, str, str], Cell] = {}
    several = set()
    for (_, column), cell in table.cells.items():
        names = place(cell)
        if names is None:
            continue
        (dataset, method), metric = names, column.metric
        if first.setdefault((dataset, metric, method), cell).config != cell.config:
            several.add((dataset, metric, method))
        if cell.results or not filled:
            by_dataset.setdefault(dataset, {}).setdefault(metric, {}).setdefault(method, cell)
    for dataset, metric, method in several:
        by_dataset.get(dataset, {}).get(metric, {}).pop(method, None)
    return by_dataset
