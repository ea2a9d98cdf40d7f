"""The papers' tables and the experiments, filled from the record of the user and from the shipped record."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.compose import accepts
from runs.config.configs import ClusterConfig, EvaluateConfig, TuneConfig, parse
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


@functools.cache
def evaluated_with(known: str) -> type[EvaluateConfig]:
    """Return the schema of evaluations with given weights, whose file may not be here.

    Args:
        known: hash of the weights: the tag `weights` of a run.
    """

    class TuneWithWeights(TuneConfig):
        @property
        def weights(self) -> str:
            return known

    class WithWeights(EvaluateConfig):
        @property
        def weights(self) -> str:
            return known

        def tuning_config(self) -> TuneConfig:
            return TuneWithWeights(**vars(super().tuning_config()))

    return WithWeights


@dataclass(frozen=True)
class Paper:
    """A work with its tables.

    Attributes:
        work: its key, such as "thesis".
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


@dataclass(frozen=True)
class Network:
    """The data of a table and, of evaluations, the network.

    Attributes:
        benchmark: name of the benchmark or, of clusterings, of the data set.
        weights: hash of the given weights; empty for a network that was trained here.
        settings: settings `key=value` of a table with this network.
        name: name of the file of the weights, without its suffix; empty without given weights.
    """

    benchmark: str
    weights: str = ""
    settings: tuple[str, ...] = ()
    name: str = ""

    @classmethod
    def of(cls, run: RunRow) -> "Network":
        """The benchmark and network of an evaluation. Its file of weights may not be here."""
        benchmark, weights = run.params.get("benchmark", ""), run.tags.get("weights", "")
        backbone, file = run.params.get("backbone", ""), run.params.get("checkpoint", "")
        if not (weights and backbone and file):
            return cls(benchmark)
        settings = (f"backbone={write(backbone)}", f"checkpoint={write(file)}")
        return cls(benchmark, weights, settings, PurePath(file).name.partition(".")[0])

    @property
    def schema(self) -> type[EvaluateConfig]:
        """The class of its configs, for which the file of weights need not be here."""
        return evaluated_with(self.weights) if self.weights else EvaluateConfig

    @property
    def is_other(self) -> bool:
        """Whether an experiment that names neither benchmark nor network would use others."""
        return bool(self.weights) or self.benchmark != groups.GROUPS["benchmark"].default

    def on(self, name: str) -> str:
        """The name of a table on these data with this network."""
        return f"{name}@{self.benchmark}" + (f", {self.name}" if self.name else "")


class Source:
    """The record of the user.

    Args:
        runs: its finished evaluations and clusterings, newest first.
        folders: the record that contains them.

    Attributes:
        datasets: names of their data sets, each once.
        networks: benchmarks and networks of the evaluations, each once.
    """

    def __init__(self, runs: Sequence[RunRow], folders: Tracker) -> None:
        self._folders, self._record = folders, Record(runs, folders)
        self.datasets = list(dict.fromkeys(run.tags.get("dataset", "") for run in runs))
        trained = [run for run in runs if run.params.get("pretrained", "None") == "None"]
        networks = dict.fromkeys(map(Network.of, trained))
        self.networks = [network for network in networks if network.benchmark in groups.names("benchmark")]

    def fills(self, empty: Table) -> bool:
        """Whether a run fills a cell, which is faster than verdicts and claims; most tables have no runs."""
        return any(cell.results for cell in self._record.filled(empty).cells.values())

    def shown(self, empty: Table) -> Table:
        """The table with its runs, verdicts and claims."""
        return look_up(empty, self._folders, self._record)


class Reader:
    """Fills tables from records that are read once.

    Args:
        evaluations: finished evaluations and clusterings of the user, newest first.
        tracker: the record that contains them.
        shipped: the shipped results, for tables of which the user has no run.
    """

    def __init__(self, evaluations: Sequence[RunRow], tracker: Tracker, shipped: Shipped | None = None) -> None:
        self._own, self._shipped = Source(evaluations, tracker), shipped
        networks = {(one.benchmark, one.name, one.weights) for one in self._own.networks}
        of_name = Counter((benchmark, name) for benchmark, name, _ in networks)
        self._own.networks = [  # networks whose files have the same name have the digits of the hash as well
            dataclasses.replace(one, name=f"{one.name} ({one.weights[:8]})")
            if of_name[one.benchmark, one.name] > 1
            else one
            for one in self._own.networks
        ]

    def _of_shipped(self, name: str, about: str, known: Collection[str]) -> Iterator[Table]:
        """The shipped tables of this name, on other data and with other networks, but those that are known."""
        for title in self._shipped.names if self._shipped else ():
            if self._shipped and title not in known and title.partition("@")[0] == name:
                yield self._shipped.table(title, f"{title}: {about.rstrip('.')}")

    def papers(self) -> list[Paper]:
        """Every work with its tables."""
        found = []
        for work, title in works().items():
            own = [name for name in published_names() if name.partition("/")[0] == work]
            tables = tuple(self._own.shown(paper_table(name)) for name in own)
            found.append(Paper(work, title, tables, {name: tuple(self._elsewhere(name)) for name in own}))
        return found

    def experiments(self, asked: Mapping[str, Sequence[EvaluateConfig]]) -> list[Table]:
        """The tables of the experiments that have a run.

        An experiment that names no benchmark also has a table for each other benchmark and network.

        Args:
            asked: configs of experiments whose settings differ from their files, or that have no file.
        """
        tables: dict[str, Table] = {}
        source = self._own
        for name in dict.fromkeys([*groups.names("experiment"), *asked]):
            configs = asked.get(name, ())
            named = bool(configs) or not NAMES_IMAGES.isdisjoint(groups.experiment(name))
            others = () if named else [one for one in source.networks if one.is_other]
            for network in (None, *others) if source.datasets else ():
                title = network.on(name) if network else name
                empty = None if title in tables else _of_experiment(name, title, configs, network)
                if empty and source.fills(empty):
                    tables[title] = source.shown(empty)
            about = groups.comment("experiment", name)
            tables |= {table.name: table for table in self._of_shipped(name, about, tables)}
        return list(tables.values())

    def _elsewhere(self, name: str) -> Iterator[Table]:
        """The table on each other benchmark or data set, and with each network, whose runs fill a cell."""
        recipe, known = recipe_of(name), set[str]()
        if not recipe.rows or published_table(name).kind != "results":
            return
        printed = [cell.clustering or cell.fair for cell in paper_table(name).cells.values()]
        others = set(groups.names(recipe.data)) - {config.dataset.name for config in printed if config}
        source = self._own
        on_data = [Network(data) for data in source.datasets if data in others]
        for network in on_data if recipe.clusters else source.networks:
            title = network.on(name)
            try:
                schema = None if recipe.clusters else network.schema
                wanted = f"{name}@{network.benchmark}"
                empty = None if title in known else paper_table(wanted, network.settings, schema)
            except InputError:
                continue  # the network is unknown here, such as that of a plug-in
            if empty and source.fills(empty):
                known.add(title)
                yield dataclasses.replace(source.shown(empty), name=title)
        yield from self._of_shipped(name, published_table(name).caption, known | {name})


def _of_experiment(name: str, title: str, configs: Sequence[EvaluateConfig], network: Network | None) -> Table | None:
    """The table of an experiment, without results; None if it has none, or if something that it needs is missing."""
    typed = [f"experiment={name}", *((f"benchmark={network.benchmark}", *network.settings) if network else ())]
    try:
        if not configs and accepts(ClusterConfig, name):
            return clusterings_table(title, parse(ClusterConfig, typed))
        return table_of(title, configs or parse(network.schema if network else EvaluateConfig, typed))
    except InputError:
        return None
