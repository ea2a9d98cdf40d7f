"""The papers: their tables held against the record, and how much of each is printed, can be run, was run, agrees."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.configs import EvaluateConfig, parse
from runs.config.overrides import write
from runs.record.query import RunRow
from runs.record.tracking import Tracker
from runs.report.addresses import slug
from runs.tables.claims.claim import Finding
from runs.tables.claims.few_shot import PerTask
from runs.tables.evidence import look_up
from runs.tables.filling import Record
from runs.tables.grid import table_of
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names, works
from runs.tables.papers.recipe import recipe_of
from runs.tables.table import Table
from runs.tables.verdicts import STATUSES


@dataclass(frozen=True)
class Shown:
    """A table with the claims that were checked on it."""

    table: Table
    findings: tuple[Finding, ...]

    @property
    def statuses(self) -> dict[str, int]:
        """Its cells by verdict, in the order of the verdicts; those that no cell has are left out."""
        return _by_verdict([self])


@dataclass(frozen=True)
class Coverage:
    """Cells of a paper's tables, each number a part of the one before it.

    Attributes:
        printed: with a number in the paper.
        runnable: that a config of this project fills.
        found: that runs of the record fill.
        reproduced: that agree.
    """

    printed: int
    runnable: int
    found: int
    reproduced: int

    @classmethod
    def of(cls, tables: Iterable[Shown]) -> "Coverage":
        cells = [cell for shown in tables for cell in shown.table.cells.values() if cell.published]
        runnable = [cell for cell in cells if cell.config]
        found = [cell for cell in runnable if cell.results]
        reproduced = [cell for cell in found if cell.verdict and cell.verdict.status == "reproduced"]
        return cls(len(cells), len(runnable), len(found), len(reproduced))

    @property
    def in_words(self) -> str:
        return (
            f"{self.printed} cells printed, {self.runnable} can be run here, {self.found} run, "
            f"{self.reproduced} reproduced"
        )

    def share(self, count: int) -> str:
        """In percent of what is printed."""
        return f"{100 * count / self.printed if self.printed else 0:.2f}"


@dataclass(frozen=True)
class Paper:
    """A work with its tables.

    Attributes:
        work: its key, such as "thesis".
        tables: as printed, in the order of print.
        elsewhere: the same on other benchmarks, by the name of the table; those with a run.
    """

    work: str
    title: str
    tables: tuple[Shown, ...]
    elsewhere: Mapping[str, tuple[Shown, ...]]

    @property
    def path(self) -> str:
        """Of its first page in the site."""
        return f"papers/{slug(self.work)}.html"

    @property
    def coverage(self) -> Coverage:
        return Coverage.of(self.tables)

    @property
    def statuses(self) -> dict[str, int]:
        """Cells by verdict."""
        return _by_verdict(self.tables)


def _by_verdict(tables: Iterable[Shown]) -> dict[str, int]:
    cells = [cell for shown in tables for cell in shown.table.cells.values()]
    counts = Counter(cell.verdict.status for cell in cells if cell.verdict)
    return {status: counts[status] for status in STATUSES if counts[status]}


class Reader:
    """Looks up tables in a record that was read once.

    Args:
        evaluations: the finished ones, and clusterings, newest first.
        tracker: their record.
    """

    def __init__(self, evaluations: Sequence[RunRow], tracker: Tracker) -> None:
        self._tracker = tracker
        self._record = Record(evaluations, tracker)
        self._read = PerTask(tracker)
        known = groups.names("benchmark")
        self._datasets = list(dict.fromkeys(run.tags.get("dataset", "") for run in evaluations))
        # A network that was given as a file is named by it, where that is still there.
        used = dict.fromkeys(
            (run.params.get("benchmark", ""), run.params.get("checkpoint", "None"))
            for run in evaluations
            if run.params.get("pretrained", "None") == "None"
        )
        self._networks = [
            (name, [] if file == "None" else [f"checkpoint={write(file)}"])
            for name, file in used
            if name in known and (file == "None" or Path(file).is_file())
        ]

    def papers(self) -> list[Paper]:
        """Every work with its tables."""
        names = published_names()
        found = []
        for work, title in works().items():
            own = [name for name in names if name.partition("/")[0] == work]
            tables = tuple(self._shown(paper_table(name)) for name in own)
            found.append(Paper(work, title, tables, {name: tuple(self._elsewhere(name)) for name in own}))
        return found

    def experiments(self, asked: Mapping[str, Sequence[EvaluateConfig]]) -> list[Shown]:
        """The tables of the experiments that have a run.

        Args:
            asked: configs of experiments whose settings are not those of their files, or that have none.
        """
        tables = []
        for name in dict.fromkeys([*groups.names("experiment"), *asked]) if self._datasets else ():
            try:
                empty = table_of(name, asked.get(name) or parse(EvaluateConfig, [f"experiment={name}"]))
                tables += [self._shown(empty)] if self._has_runs(empty) else []
            except InputError:
                continue  # it needs something, such as a file, that is not here
        return tables

    def _elsewhere(self, name: str) -> Iterable[Shown]:
        """The table on the other benchmarks that the record has runs of, where they fill a cell."""
        recipe = recipe_of(name)
        if recipe.rows:
            known = groups.names(recipe.data)
            datasets: list[tuple[str, list[str]]] = [(name, []) for name in self._datasets if name in known]
            for benchmark, settings in datasets if recipe.clusters else self._networks:
                empty = paper_table(f"{name}@{benchmark}", settings)
                if self._has_runs(empty):
                    yield self._shown(empty)

    def _shown(self, empty: Table) -> Shown:
        table, findings = look_up(empty, self._tracker, self._record, self._read)
        return Shown(table, tuple(findings))

    def _has_runs(self, empty: Table) -> bool:
        """Whether the record fills a cell: verdicts and claims take longer to look up, and most tables have none."""
        return any(cell.results for cell in self._record.filled(empty).cells.values())
