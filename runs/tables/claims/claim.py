"""Claims of the papers: `runs/published/claims.yaml` states them, the other modules of this folder hold their tests."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from runs.config.source import freeze
from runs.tables.papers.published import Value, read_published
from runs.tables.table import Cell, ClaimStatus, Finding, Table

File = TypeVar("File")
Found = Iterator[tuple[ClaimStatus, str]]
"""Status and evidence."""
Cells = Mapping[str, Mapping[str, Cell]]
"""Cells of one setting: by metric and method of a data set, or by column and strategy of a benchmark and network."""


@dataclass(frozen=True)
class Claim:
    """A claim and its test.

    Attributes:
        text: the statement.
        source: where it is made.
        methods: the methods, or strategies, that it compares.
        test: called with the claim, the `Results` of a setting and the options; yields a status and its evidence for
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

    def is_asked(self, cells: Cells) -> bool:
        """Whether cells of a setting have its methods and metric, and its sampler and shots, with runs or without."""
        samplers = [cell.few_shot.sampler for of in cells.values() for cell in of.values() if cell.few_shot]
        return (
            any({*self.methods} <= of.keys() for heading, of in cells.items() if self.metric in ("", heading))
            and self.sampler in ("", *(sampler.plugin for sampler in samplers))
            and {*self.shots} <= {sampler.options.get("shot") for sampler in samplers}
        )


@dataclass(frozen=True)
class Results(Generic[File]):
    """The filled cells of one setting.

    Attributes:
        cells: by metric and method, or by column and strategy.
        read: reads the file of a run, such as its trials; None where it is not whole.
    """

    cells: Cells
    read: Callable[[Any], File | None]

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


def published_claims(section: str, tests: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims of a section of `runs/published/claims.yaml`, with their tests by name."""
    own = {item.name for item in dataclasses.fields(Claim)} - {"options"}
    claims = []
    for entry in read_published("claims.yaml")[section]:
        values: dict[str, Any] = {key: freeze(value) for key, value in entry.items()}
        text, name, each = values.pop("claim"), values.pop("test"), values.pop("each", ())
        options = {key: values.pop(key) for key in [*values] if key not in own}
        for methods in each or (values["methods"],):
            place = {**values, "methods": methods}
            claims.append(Claim(text.format(*methods, **options), test=tests[name], options=options, **place))
    return tuple(claims)


def check_claims(
    claims: Sequence[Claim],
    settings: Mapping[str, Cells],
    read: Callable[[Any], Any],
    place: Callable[[Sequence[str], str], str] = lambda column, name: name,
) -> list[Finding]:
    """The findings of each claim; one that is not run, where a setting has its methods but lacks the runs.

    Args:
        settings: the cells of each setting, with runs or without.
        read: reads the file of a run, or of a cell; None where it is not whole.
        place: the name of a setting in a finding, from what a test yields before the status, and the name.
    """
    filled = {
        name: Results({h: {method: c for method, c in of.items() if c.results} for h, of in cells.items()}, read)
        for name, cells in settings.items()
    }
    findings = []
    for claim in claims:
        about = [name for name in settings if not claim.datasets or name in claim.datasets]
        seen = [
            Finding(claim.text, claim.source, place(column, name), status, evidence)
            for name in about
            for *column, status, evidence in claim.check(filled[name])
        ]
        if not seen and any(claim.is_asked(settings[name]) for name in about):
            seen = [Finding(claim.text, claim.source, "", "not run", "")]
        findings += seen
    return findings


def by_dataset(table: Table, place: Callable[[Cell], tuple[str, str] | None]) -> dict[str, Cells]:
    """The cells of a table by data set, metric and method. A method that occurs with several settings is left out,
    since a claim does not say which of them it is about.

    Args:
        place: the names of a cell's data set and method; None for a cell that no claim is about.
    """
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    several = set()
    for (_, column), cell in table.cells.items():
        if names := place(cell):
            of_metric = found.setdefault(names[0], {}).setdefault(column.metric, {})
            known = of_metric.setdefault(names[1], cell)
            if known.config != cell.config:
                several.add((names[0], column.metric, names[1]))
            if cell.results and not known.results:
                of_metric[names[1]] = cell
    for name, metric, method in several:
        del found[name][metric][method]
    return {name: dict(cells) for name, cells in found.items()}
