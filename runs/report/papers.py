"""The papers: their tables beside the record and the shipped runs."""

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
from runs.tables.evidence import look_up
from runs.tables.filling import Record
from runs.tables.grid import table_of
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names, works
from runs.tables.papers.recipe import recipe_of
from runs.tables.table import Table


@dataclass(frozen=True)
class Paper:
    """A work with its tables.

    Attributes:
        work: its key, such as "thesis".
        tables: the printed tables, in the order of print.
        elsewhere: the same tables on other benchmarks, by the name of the table; only tables with a run.
    """

    work: str
    title: str
    tables: tuple[Table, ...]
    elsewhere: Mapping[str, tuple[Table, ...]]

    @property
    def path(self) -> str:
        """The path of its first page in the site."""
        return f"papers/{slug(self.work)}.html"


class Reader:
    """Fills tables from a record that is read once.

    Args:
        evaluations: finished evaluations and clusterings, newest first.
        tracker: the record that contains them.
    """

    def __init__(self, evaluations: Sequence[RunRow], tracker: Tracker) -> None:
        self._tracker = tracker
        self._record = Record(evaluations, tracker)
        known = groups.names("benchmark")
        self._datasets = list(dict.fromkeys(run.tags.get("dataset", "") for run in evaluations))
        # If the network was given as a file and the file still exists, the config contains the file's name.
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

    def experiments(self, asked: Mapping[str, Sequence[EvaluateConfig]]) -> list[Table]:
        """The tables of the experiments that have a run.

        Args:
            asked: configs of experiments whose settings differ from their files, or that have no file.
        """
        tables = []
        for name in dict.fromkeys([*groups.names("experiment"), *asked]) if self._datasets else ():
            try:
                empty = table_of(name, asked.get(name) or parse(EvaluateConfig, [f"experiment={name}"]))
                tables += [self._shown(empty)] if self._has_runs(empty) else []
            except InputError:
                continue  # the experiment needs something, such as a file, that is missing here
        return tables

    def _elsewhere(self, name: str) -> Iterable[Table]:
        """The table on the other benchmarks that have runs in the record, if these runs fill a cell."""
        recipe = recipe_of(name)
        if recipe.rows:
            known = groups.names(recipe.data)
            datasets: list[tuple[str, list[str]]] = [(name, []) for name in self._datasets if name in known]
            for benchmark, settings in datasets if recipe.clusters else self._networks:
                empty = paper_table(f"{name}@{benchmark}", settings)
                if self._has_runs(empty):
                    yield self._shown(empty)

    def _shown(self, empty: Table) -> Table:
        return look_up(empty, self._tracker, self._record)

    def _has_runs(self, empty: Table) -> bool:
        """Whether the record fills a cell. This check is faster than verdicts and claims; most tables have no runs."""
        return any(cell.results for cell in self._record.filled(empty).cells.values())
