"""A claim, its test, and the results of one setting, on which it is tested."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.config.source import freeze
from runs.tables.published import read_published
from runs.tables.table import Cell, ClaimStatus, Finding, Table

Read = Callable[[Cell], Mapping[int, Any]]
"""Reads what the runs of a filled cell have saved, by seed."""
Found = Iterator[tuple[str, ClaimStatus, str]]
"""Column or columns ("": the whole setting), status and evidence."""
Cells = Mapping[str, Mapping[str, Cell]]
"""Cells of one setting: by metric and method of a data set, or by column and strategy of a benchmark and network."""


@dataclass(frozen=True)
class Results:
    """The filled cells of one setting, and what reads the files of their runs by seed."""

    cells: Cells
    read: Read

    def by_seed(self, method: str, heading: str = "") -> Mapping[int, Any]:
        """The files of the runs of a method, below one heading or the first that has it."""
        cells = [of[method] for name, of in self.cells.items() if method in of and heading in ("", name)]
        return self.read(cells[0]) if cells else {}

    def of(self, method: str) -> list[Any]:
        """The same files, one for each seed."""
        return list(self.by_seed(method).values())

    def pair(self, metric: str, first: str, second: str) -> tuple[float, float] | None:
        """The results of two methods scored as the paper did, else without labels; None where one is missing."""
        cells = self.cells.get(metric, {})
        return (cells[first].compared, cells[second].compared) if {first, second} <= cells.keys() else None

    def printed(self, metric: str, method: str) -> tuple[float, str, float] | None:
        """The number of the paper, its text, and half a unit of its last digit; None without one."""
        cell = self.cells.get(metric, {}).get(method)
        return (cell.published, cell.printed, cell.resolution) if cell and cell.published is not None else None


@dataclass(frozen=True)
class Claim:
    """A claim and its test."""

    text: str  # the statement
    source: str  # where it is made
    methods: tuple[str, ...]  # the methods, or strategies, that it compares
    # Called with the claim, the `Results` of a setting and the options; yields `Found` for each result that allows one.
    test: Callable[..., Found]
    datasets: tuple[str, ...] = ()  # that it is made for; empty for any
    metric: str = ""  # of the table that it is made for; empty for any
    sampler: str = ""  # the kind of tasks that it is made for besides balanced ones; empty for none
    shots: tuple[int, ...] = ()  # the numbers of shots that it is made for; empty for any
    options: Mapping[str, Any] = field(default_factory=dict)  # of the test

    def check(self, results: Any) -> Found:
        """What the test yields for the results of a setting."""
        return self.test(self, results, **self.options)

    def findings(self, settings: Mapping[str, Cells], read: Read) -> list[Finding]:
        """What the test finds in each setting; "not run" where a setting has the methods but lacks the runs."""
        found, about = [], [name for name in settings if not self.datasets or name in self.datasets]
        for name in about:
            filled = {h: {m: cell for m, cell in of.items() if cell.results} for h, of in settings[name].items()}
            for column, status, evidence in self.check(Results(filled, read)):
                place = f"{column} ({name})" if column and len(settings) > 1 else column or name
                found.append(Finding(self.text, self.source, place, status, evidence))
        if not found and any(self._is_asked(settings[name]) for name in about):
            return [Finding(self.text, self.source, "", "not run", "")]
        return found

    def _is_asked(self, cells: Cells) -> bool:
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


def by_setting(table: Table, place: Callable[[Cell], Sequence[str] | None], *, first: bool = False) -> dict[str, Cells]:
    """The cells of a table by setting, heading and method. A method that occurs with several configs is left out, since
    a claim does not say which of them it is about.

    Args:
        place: the names of a cell's setting, heading and method; None for a cell that no claim is about.
        first: of such a method, use the first cell, whether it is filled or not.
    """
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    several = set()
    for cell in table.cells:
        if names := place(cell):
            setting, heading, method = names
            of_heading = found.setdefault(setting, {}).setdefault(heading, {})
            known = of_heading.setdefault(method, cell)
            if known.config != cell.config and not first:
                several.add((setting, heading, method))
            if cell.results and not known.results and not first:
                of_heading[method] = cell
    for setting, heading, method in several:
        del found[setting][heading][method]
    return {name: dict(cells) for name, cells in found.items()}


def holds(fulfilled: bool) -> ClaimStatus:
    """The status of a claim that is not about a difference."""
    return "holds" if fulfilled else "fails"
