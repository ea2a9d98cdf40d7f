"""How the cells of a paper's table are run: `configs/table/<work>/<number>.yaml`.

    all: {way: 5, tasks: 10000}               # of every cell
    columns:
      miniImageNet: {benchmark: mini}         # of the columns of that group, or of that name
    rows:
      ResNet-18: {backbone: resnet18_84}      # of the rows of that group, or of that name
      SimpleShot: {strategy: simpleshot}
    metrics: {Per Class: accuracy_per_class}  # by column or metric, where the runs call it otherwise than the print
    scored: {LaplacianShot (ours): audit_best_permutation}  # by row or metric, where the print is not of that metric
    tolerance: {accuracy: 0.3}                # by metric or column, in the printed unit; x10 is a factor
    verb: fair                                # makes the runs, where strategies and methods do not tell
    at:                                       # by row and column, what of a path of weights the print is held against
      Synthetic: {Ours: {fairness_weight: 85, balance: balance_mean}}
    cells:                                    # of one cell, by row and column
      Adult: {Ours: {max_iter: 20}}
    instead: {MNIST: pixels, not features}    # by row or column, what cells are of that the print is not of
    cannot:                                   # by row and column, what is not run, and why
      Bank: {Backurs et. al.: it takes two groups}

The settings of a cell go over each other in this order. A row without a strategy, or in a table of clusterings without
a method, is one that nothing here runs.
"""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from clustering.foundation.errors import InputError
from runs.config import groups, overrides
from runs.config.configs import SCHEMAS, ClusterConfig, EvaluateConfig, FairConfig, group_of
from runs.tables.papers.printed import PublishedColumn, PublishedRow
from runs.tables.papers.published import published_table as read_published
from runs.tables.papers.recipe_checks import WEIGHT, check_paths, check_words
from runs.tables.table import Config, OnPath
from runs.tables.verdicts import Tolerance

GROUP = "table"  # folder of configs/

Settings = dict[str, str]


@dataclass(frozen=True)
class Recipe:
    """How a table's cells are run: the content of its file."""

    all: Settings = field(default_factory=dict)
    columns: Mapping[str, Settings] = field(default_factory=dict)
    rows: Mapping[str, Settings] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    scored: Mapping[str, str] = field(default_factory=dict)
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    verb: str = ""
    at: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    instead: Settings = field(default_factory=dict)
    cannot: Mapping[str, Settings] = field(default_factory=dict)

    def settings(self, row: PublishedRow, column: PublishedColumn, *, elsewhere: bool = False) -> Settings:
        """Of one cell, the later over the earlier; `elsewhere`, on other data, without what is for that cell alone."""
        found = dict(self.all)
        for part, heading in ((self.columns, column), (self.rows, row)):
            for name in (heading.group, heading.name):
                found |= part.get(name, {})
        return found if elsewhere else found | self.cells.get(row.name, {}).get(column.name, {})

    def metric(self, column: PublishedColumn) -> str:
        """What the runs call what stands in a column."""
        return self.metrics.get(column.name, self.metrics.get(column.metric, column.metric))

    def scoring(self, row: PublishedRow, column: PublishedColumn) -> str:
        """What the runs call what is printed, where that is not what stands in the column; else nothing."""
        return self.scored.get(row.name, self.scored.get(column.metric, ""))

    def differing(self, row: PublishedRow, column: PublishedColumn) -> tuple[str, ...]:
        """What a cell is of that the print is not of, in words: it is of another protocol."""
        headings = (column.group, column.name, row.group, row.name)
        return tuple(self.instead[name] for name in headings if name in self.instead)

    def of_data(self, heading: PublishedRow | PublishedColumn, part: Mapping[str, Settings]) -> bool:
        """Whether a heading says which data set."""
        return any("dataset" in part.get(name, {}) for name in (heading.group, heading.name))

    def on_path(self, row: PublishedRow, column: PublishedColumn, config: Config) -> OnPath | None:
        """Where on the path of a fair clustering the print is; None where it is what the column shows."""
        if not isinstance(config, FairConfig):
            return None
        at, metric = self.at.get(row.name, {}).get(column.name, {}), self.metric(column)
        weight = float(at[WEIGHT]) if WEIGHT in at else None
        printed = at.get(metric, metric)
        return None if weight is None and printed == metric else OnPath(weight, printed)

    @property
    def schema(self) -> type[Config]:
        """What its cells are configured by."""
        if self.verb:
            return cast("type[Config]", SCHEMAS[self.verb])
        methods = any("method" in settings for settings in (*self.rows.values(), *self.columns.values()))
        return ClusterConfig if methods else EvaluateConfig

    @property
    def clusters(self) -> bool:
        """Whether its cells are clusterings, fair ones among them, and no evaluations."""
        return self.schema is not EvaluateConfig

    @property
    def data(self) -> str:
        """The group of its data."""
        return group_of(self.schema, "dataset") if self.clusters else "benchmark"

    def tolerated(self, column: PublishedColumn) -> Tolerance:
        return self.tolerance.get(column.name, self.tolerance.get(column.metric, Tolerance()))


@functools.cache
def recipe_of(name: str) -> Recipe:
    """How the cells of a paper's table are run; of a table without a file, that none is.

    Raises:
        InputError: names the file and the key that is wrong in it.
    """
    path = groups.folder() / GROUP / f"{name}.yaml"
    if not path.is_file():
        return Recipe()
    content = groups.read(path)
    printed = read_published(name)
    try:
        check_words(content, [item.name for item in dataclasses.fields(Recipe)], printed)
        recipe = _recipe(content)
        check_paths(recipe.at, recipe.metric, recipe.settings, printed)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return recipe


def _recipe(content: Mapping[str, Any]) -> Recipe:
    return Recipe(
        _texts(content.get("all")),
        {key: _texts(value) for key, value in (content.get("columns") or {}).items()},
        {key: _texts(value) for key, value in (content.get("rows") or {}).items()},
        _texts(content.get("metrics")),
        _texts(content.get("scored")),
        {key: _tolerance(value) for key, value in (content.get("tolerance") or {}).items()},
        content.get("verb", ""),
        _by_cell(content.get("at")),
        _by_cell(content.get("cells")),
        _texts(content.get("instead")),
        {key: _texts(value) for key, value in (content.get("cannot") or {}).items()},
    )


def _by_cell(rows: Mapping[str, Any] | None) -> dict[str, dict[str, Settings]]:
    return {row: {column: _texts(of) for column, of in (cells or {}).items()} for row, cells in (rows or {}).items()}


def _texts(values: Mapping[str, Any] | None) -> Settings:
    return {key: value if isinstance(value, str) else overrides.write(value) for key, value in (values or {}).items()}


def _tolerance(value: Any) -> Tolerance:
    if isinstance(value, str) and value.startswith("x"):
        return Tolerance(factor=float(value[1:]))
    return Tolerance(absolute=float(value))
