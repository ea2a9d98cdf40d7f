"""Claims of the papers: `runs/published/claims.yaml` states them, the other modules of this folder hold their tests."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.config.source import freeze
from runs.tables.published import read_published
from runs.tables.table import Cell, ClaimStatus, Finding, Table

Read = Callable[[Cell], Mapping[int, Any]]
Found = Iterator[tuple[ClaimStatus, str]]
"""Status and evidence; of few-shot claims with the column before them."""
Cells = Mapping[str, Mapping[str, Cell]]
"""Cells of one setting: by metric and method of a data set, or by column and strategy of a benchmark and network."""


@dataclass(frozen=True)
class Results:
    """The filled cells of one setting, and what reads the files of their runs by seed."""

    cells: Cells
    read: Read

    def of(self, method: str) -> list[Any]:
        """The files of the runs of a method, one for each seed."""
        cells = [of_metric[method] for of_metric in self.cells.values() if method in of_metric]
        return list(self.read(cells[0]).values()) if cells else []

    def pair(self, metric: str, *methods: str) -> tuple[float, float] | None:
        """The results of two methods scored as the paper did, else without labels; None where one is missing."""
        cells = self.cells.get(metric, {})
        first, second = methods
        return (cells[first].compared, cells[second].compared) if {first, second} <= cells.keys() else None

    def printed(self, metric: str, method: str) -> tuple[float, str, float] | None:
        """The number of the paper, its text, and half a unit of its last digit; None without one."""
        cell = self.cells.get(metric, {}).get(method)
        return (cell.published, cell.printed, cell.resolution) if cell and cell.published is not None else None


@dataclass(frozen=True)
class Claim:
    """A claim and its test.

    Attributes:
        text, source: the statement, and where it is made.
        methods: the methods, or strategies, that it compares.
        test: called with the claim, the `Results` of a setting and the options; yields `Found` for each result that
            allows one.
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


def checked(claims: Sequence[Claim], settings: Mapping[str, Cells], read: Read) -> list[Finding]:
    """The findings of each claim; one that is not run, where a setting has its methods but lacks the runs.

    Args:
        settings: the cells of each setting, with runs or without.
    """
    filled = {
        name: Results({h: {method: c for method, c in of.items() if c.results} for h, of in cells.items()}, read)
        for name, cells in settings.items()
    }
    findings = []
    for claim in claims:
        about, seen = [name for name in settings if not claim.datasets or name in claim.datasets], []
        for name in about:
            for *column, status, evidence in claim.check(filled[name]):
                place = f"{column[0]} ({name})" if column and len(settings) > 1 else column[0] if column else name
                seen.append(Finding(claim.text, claim.source, place, status, evidence))
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
    for cell in table.cells:
        if names := place(cell):
            of_metric = found.setdefault(names[0], {}).setdefault(cell.metric, {})
            known = of_metric.setdefault(names[1], cell)
            if known.config != cell.config:
                several.add((names[0], cell.metric, names[1]))
            if cell.results and not known.results:
                of_metric[names[1]] = cell
    for name, metric, method in several:
        del found[name][metric][method]
    return {name: dict(cells) for name, cells in found.items()}
