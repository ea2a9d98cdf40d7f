"""The papers' tables and the experiments, filled from the record of the user and from the shipped record."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.configs import EvaluateConfig
from runs.config.overrides import write
from runs.record.query import RunRow
from runs.report.rendering import slug
from runs.tables.evidence import Record, look_up
from runs.tables.grid import experiment_table, table_of
from runs.tables.paper import paper_table, recipe_of
from runs.tables.published import published_names, published_table, works
from runs.tables.shipped import Shipped
from runs.tables.table import Table
from runs.track import Tracker

RESULTS = ("evaluate/", "cluster/", "fair/")  # beginnings of the experiments that tables show
NAMES_IMAGES = {"benchmark", "features", "dataset", "fair_dataset"}


class Paper(NamedTuple):
    """A work with its tables."""

    work: str  # its key, such as "thesis"
    title: str
    tables: tuple[Table, ...]  # the printed tables, in the order of print
    # The same tables on other data or with other networks, by the name of the printed table; only tables that have a
    # run, of the user or else of the shipped record.
    elsewhere: Mapping[str, tuple[Table, ...]]

    @property
    def path(self) -> str:
        """The path of its page in the site."""
        return f"papers/{slug(self.work)}.html"


Settings = tuple[str, ...]
"""Settings as `key=value`."""


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
        trained = [run for run in runs if "pretrained" not in run.params]
        benchmarks = groups.names("benchmark")
        self._networks = [one for one in dict.fromkeys(map(_network, trained)) if _data(one[0]) in benchmarks]

    def papers(self) -> list[Paper]:
        """Every work with its tables."""
        found = []
        for work, title in works().items():
            own = [name for name in published_names() if name.partition("/")[0] == work]
            tables = tuple(look_up(paper_table(name), self._tracker, self._record) for name in own)
            found.append(Paper(work, title, tables, {name: tuple(self._elsewhere(name)) for name in own}))
        return found

    def _elsewhere(self, name: str) -> Iterator[Table]:
        """The table on each other benchmark or data set, and with each network, whose runs fill a cell."""
        recipe, known = recipe_of(name), {name}
        if not recipe.rows or published_table(name).kind != "results":
            return
        places = self._networks
        if recipe.key == "dataset":
            printed = {config.dataset.name for c in paper_table(name).cells if (config := c.clustering or c.fair)}
            places = [(one, ()) for one in self._datasets if one in {*groups.names(recipe.data)} - printed]
        for place, settings in places:
            title = f"{name}@{place}"
            if title not in known and (shown := self._filled(_data(title), settings)):
                known.add(title)
                yield dataclasses.replace(shown, name=title)
        yield from self._of_shipped(name, published_table(name).caption, known)

    def experiments(self, asked: Mapping[str, Sequence[EvaluateConfig]]) -> list[Table]:
        """The tables of the experiments that have a run.

        An experiment that names no benchmark also has a table for each other benchmark and network.

        Args:
            asked: configs of experiments whose settings differ from their files, or that have no file.
        """
        tables: dict[str, Table] = {}
        usual = groups.GROUPS["benchmark"].default, ()
        for name in dict.fromkeys([*groups.names("experiment"), *asked]):
            places: list[tuple[str, Settings]] = [(name, ())]
            if name not in asked and NAMES_IMAGES.isdisjoint(groups.experiment(name)):
                others = [one for one in self._networks if one != usual]
                places += [(f"{name}@{place}", (f"benchmark={_data(place)}", *given)) for place, given in others]
            for title, settings in places if self._datasets else ():
                if shown := self._filled(name, settings, asked.get(name, ())):
                    tables[title] = dataclasses.replace(shown, name=title)
            tables |= {one.name: one for one in self._of_shipped(name, groups.comment("experiment", name), tables)}
        return list(tables.values())

    def _filled(self, name: str, settings: Sequence[str], asked: Sequence[EvaluateConfig] = ()) -> Table | None:
        """The table of a paper or an experiment with these settings, or that of the configs asked for; None if it has
        no runs, or if something that it needs is missing, such as a file of weights."""
        try:
            if asked:
                empty = table_of(name, asked)
            else:
                empty = paper_table(name, settings) if "@" in name else experiment_table(name, settings)
            # Most tables have no runs, which is seen faster than verdicts and claims.
            if any(cell.results for cell in self._record.filled(empty).cells):
                return look_up(empty, self._tracker, self._record)
        except InputError:
            pass
        return None

    def _of_shipped(self, name: str, about: str, known: Collection[str]) -> Iterator[Table]:
        """The shipped tables of this name, on other data and with other networks, but those that are known."""
        for title in self._shipped.names if self._shipped else ():
            if self._shipped and title not in known and title.partition("@")[0] == name:
                yield self._shipped.table(title, f"{title}: {about.rstrip('.')}")


def _network(run: RunRow) -> tuple[str, Settings]:
    """The benchmark of an evaluation and, of given weights, the name of their file: "mini, conv4_5shot"; and the
    settings of that network."""
    name, backbone, file = (run.params.get(key, "") for key in ("benchmark", "backbone", "checkpoint"))
    if not (run.tags.get("weights") and backbone and file):
        return name, ()
    settings = f"backbone={write(backbone)}", f"checkpoint={write(file)}"
    return f"{name}, {PurePath(file).name.partition('.')[0]}", settings


def _data(place: str) -> str:
    """The part of a title or place without the name of a network."""
    return place.partition(", ")[0]
