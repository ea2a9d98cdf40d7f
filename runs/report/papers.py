"""The papers' tables and the experiments, filled from the record of the user and from the shipped record."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.compose import accepts
from runs.config.configs import ClusterConfig, EvaluateConfig, parse
from runs.config.overrides import write
from runs.record.query import RunRow
from runs.report.rendering import slug
from runs.tables.evidence import look_up
from runs.tables.filling import Record
from runs.tables.grid import clusterings_table, table_of
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import published_names, published_table, works
from runs.tables.papers.recipe import recipe_of
from runs.tables.shipped import Shipped
from runs.tables.table import Table
from runs.track import Tracker

RESULTS = ("evaluate/", "cluster/", "fair/")  # beginnings of the experiments that tables show
NAMES_IMAGES = {"benchmark", "features", "dataset", "fair_dataset"}


class Paper(NamedTuple):
    """A work with its tables.

    Attributes:
        work: its key, such as "thesis".
        title: its title.
        tables: the printed tables, in the order of print.
        elsewhere: the same tables on other data or with other networks, by the name of the printed table; only tables
            that have a run, of the user or else of the shipped record.
    """

    work: str
    title: str
    tables: tuple[Table, ...]
    elsewhere: Mapping[str, tuple[Table, ...]]

    @property
    def path(self) -> str:
        """The path of its page in the site."""
        return f"papers/{slug(self.work)}.html"


class Data(NamedTuple):
    """The data of a table and, of evaluations with given weights, the network.

    Attributes:
        name: name of the benchmark or, of clusterings, of the data set.
        settings: settings `key=value` of the network; empty for a network that was trained here.
        network: name of the file of its weights, without its suffix.
    """

    name: str
    settings: tuple[str, ...] = ()
    network: str = ""

    @classmethod
    def of(cls, run: RunRow) -> "Data":
        """The benchmark and network of an evaluation."""
        backbone, file = run.params.get("backbone", ""), run.params.get("checkpoint", "")
        if not (run.tags.get("weights") and backbone and file):
            return cls(run.params.get("benchmark", ""))
        settings = (f"backbone={write(backbone)}", f"checkpoint={write(file)}")
        return cls(run.params.get("benchmark", ""), settings, PurePath(file).name.partition(".")[0])

    def of_table(self, name: str) -> str:
        """The name of a table on these data with this network."""
        return f"{name}@{self.name}" + (f", {self.network}" if self.network else "")


class Reader:
    """Fills tables from records that are read once.

    Args:
        runs: finished evaluations and clusterings of the user, newest first.
        tracker: the record that contains them.
        shipped: the shipped results, for tables of which the user has no run.
    """

    def __init__(self, runs: Sequence[RunRow], tracker: Tracker, shipped: Shipped | None = None) -> None:
        self._tracker, self._record, self._shipped = tracker, Record(runs, tracker), shipped
        self._datasets = list(dict.fromkeys(run.tags.get("dataset", "") for run in runs))
        trained = [run for run in runs if run.params.get("pretrained", "None") == "None"]
        benchmarks = groups.names("benchmark")
        self._networks = [one for one in dict.fromkeys(map(Data.of, trained)) if one.name in benchmarks]

    def papers(self) -> list[Paper]:
        """Every work with its tables."""
        found = []
        for work, title in works().items():
            own = [name for name in published_names() if name.partition("/")[0] == work]
            tables = tuple(self._shown(paper_table(name)) for name in own)
            found.append(Paper(work, title, tables, {name: tuple(self._elsewhere(name)) for name in own}))
        return found

    def experiments(self, asked: Mapping[str, Sequence[EvaluateConfig]]) -> list[Table]:
        """The tables of the experiments that have a run.

        An experiment that names no benchmark also has a table for each other benchmark and network.

        Args:
            asked: configs of experiments whose settings differ from their files, or that have no file.
        """
        tables: dict[str, Table] = {}
        usual = Data(groups.GROUPS["benchmark"].default)
        for name in dict.fromkeys([*groups.names("experiment"), *asked]):
            configs = asked.get(name, ())
            named = bool(configs) or not NAMES_IMAGES.isdisjoint(groups.experiment(name))
            others = [one for one in self._networks if one != usual and not named]
            for data in (None, *others) if self._datasets else ():
                title = data.of_table(name) if data else name
                if shown := self._experiment(name, title, configs, data):
                    tables[title] = shown
            tables |= {
                table.name: table for table in self._of_shipped(name, groups.comment("experiment", name), tables)
            }
        return list(tables.values())

    def _experiment(self, name: str, title: str, configs: Sequence[EvaluateConfig], data: Data | None) -> Table | None:
        """The table of an experiment; None if it has no runs, or if something that it needs is missing."""
        typed = [f"experiment={name}", *((f"benchmark={data.name}", *data.settings) if data else ())]
        try:
            if not configs and accepts(ClusterConfig, name):
                empty = clusterings_table(title, parse(ClusterConfig, typed))
            else:
                empty = table_of(title, configs or parse(EvaluateConfig, typed))
            return self._shown(empty) if self._fills(empty) else None
        except InputError:
            return None

    def _fills(self, empty: Table) -> bool:
        """Whether a run fills a cell, which is faster than verdicts and claims; most tables have no runs."""
        return any(cell.results for cell in self._record.filled(empty).cells.values())

    def _shown(self, empty: Table) -> Table:
        """The table with its runs, verdicts and claims."""
        return look_up(empty, self._tracker, self._record)

    def _elsewhere(self, name: str) -> Iterator[Table]:
        """The table on each other benchmark or data set, and with each network, whose runs fill a cell."""
        recipe, known = recipe_of(name), {name}
        if not recipe.rows or published_table(name).kind != "results":
            return
        printed = [cell.clustering or cell.fair for cell in paper_table(name).cells.values()]
        others = set(groups.names(recipe.data)) - {config.dataset.name for config in printed if config}
        for data in [Data(one) for one in self._datasets if one in others] if recipe.clusters else self._networks:
            title = data.of_table(name)
            try:
                empty = paper_table(f"{name}@{data.name}", data.settings)
                shown = self._shown(empty) if title not in known and self._fills(empty) else None
            except InputError:
                continue  # the network or its file of weights is not here
            if shown:
                known.add(title)
                yield dataclasses.replace(shown, name=title)
        yield from self._of_shipped(name, published_table(name).caption, known)

    def _of_shipped(self, name: str, about: str, known: Collection[str]) -> Iterator[Table]:
        """The shipped tables of this name, on other data and with other networks, but those that are known."""
        for title in self._shipped.names if self._shipped else ():
            if self._shipped and title not in known and title.partition("@")[0] == name:
                yield self._shipped.table(title, f"{title}: {about.rstrip('.')}")
