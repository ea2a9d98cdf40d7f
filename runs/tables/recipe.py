"""How the cells of a paper's table are run: `configs/table/<work>/<number>.yaml`.

Later settings of a cell override earlier ones: all, columns, rows, cells. A row without a strategy or method cannot be
run here. The tests check that headings and metrics are those of the print, and that compared points are on the path of
their cell.
"""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, StrictBool
from pydantic.dataclasses import dataclass

from runs.config import groups, overrides
from runs.config.base import group_of
from runs.config.configs import SCHEMAS, ClusterConfig, EvaluateConfig, FairConfig
from runs.config.yaml_files import read
from runs.tables.keys import Config
from runs.tables.published import STRICT, build
from runs.tables.table import Cell, Tolerance

GROUP = "table"  # folder of configs/
WEIGHT = "fairness_weight"


def _texts(values: Any) -> Any:
    """Settings as text, as they would be typed."""
    if not isinstance(values, Mapping):
        return values
    return {key: value if isinstance(value, str) else overrides.write(value) for key, value in values.items()}


def _tolerance(value: Any) -> Tolerance:
    if isinstance(value, str) and value.startswith("x"):
        return Tolerance(factor=float(value[1:]))
    return Tolerance(absolute=float(value))


Settings = dict[str, str]
Typed = Annotated[Settings, BeforeValidator(_texts)]


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """How the cells of a table are run: the content of its file."""

    all: Typed = field(default_factory=dict)  # settings of every cell: {way: 5, tasks: 10000}
    # Settings of the columns, or of the rows, of a group or name: {miniImageNet: {benchmark: mini}}
    columns: Mapping[str, Typed] = field(default_factory=dict)
    rows: Mapping[str, Typed] = field(default_factory=dict)
    # By column or metric, its name in the runs, if not that of the print: {Per Class: accuracy_per_class}
    metrics: Typed = field(default_factory=dict)
    # By row or metric, the metric that was printed, if another: {LaplacianShot (ours): audit_best_permutation}
    scored: Typed = field(default_factory=dict)
    # By metric or column, in the printed unit; x10 is a factor: {accuracy: 0.3}
    tolerance: Mapping[str, Annotated[Tolerance, BeforeValidator(_tolerance)]] = field(default_factory=dict)
    same_queries: StrictBool = False  # the print has the queries of the runs: intervals do not count
    verb: str = ""  # of the runs, if strategies and methods do not decide it: fair
    # By row and column, the point of a path of weights that is compared:
    # {Synthetic: {Ours: {fairness_weight: 85, balance: balance_mean}}}
    at: Mapping[str, Mapping[str, Typed]] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, Typed]] = field(default_factory=dict)  # by row and column: settings of one cell
    needs: str = ""  # what the runs need besides folders, such as a GPU; not on another data set
    instead: Settings = field(default_factory=dict)  # by row or column, how cells differ from the protocol of the print
    cannot: Mapping[str, Settings] = field(default_factory=dict)  # by row and column, why cells are not run

    def settings(self, cell: Cell, *, elsewhere: bool = False) -> Settings:
        """Settings of a cell; `elsewhere`, on other data, without the settings for that cell alone."""
        settings = dict(self.all)
        for part, names in ((self.columns, cell.column_key[:2]), (self.rows, cell.row_key)):
            for name in names:
                settings |= part.get(name, {})
        return settings if elsewhere else settings | self.cells.get(cell.row, {}).get(cell.column, {})

    def metric(self, cell: Cell) -> str:
        """Name in the runs of the printed metric."""
        return self.metrics.get(cell.column, self.metrics.get(cell.metric, cell.metric))

    def on_path(self, cell: Cell, config: Config) -> tuple[float | None, str] | None:
        """The printed point on the path of a fair clustering; None if it is what the column shows."""
        if not isinstance(config, FairConfig):
            return None
        at, metric = self.at.get(cell.row, {}).get(cell.column, {}), self.metric(cell)
        weight = float(at[WEIGHT]) if WEIGHT in at else None
        printed = at.get(metric, metric)
        return None if weight is None and printed == metric else (weight, printed)

    @property
    def schema(self) -> type[Config]:
        """Class of the configs of its cells."""
        if self.verb:
            return cast("type[Config]", SCHEMAS[self.verb])
        methods = any("method" in settings for settings in (*self.rows.values(), *self.columns.values()))
        return ClusterConfig if methods else EvaluateConfig

    @property
    def clusters(self) -> bool:
        """Whether its cells are clusterings, fair ones included, and not evaluations."""
        return self.schema is not EvaluateConfig

    @property
    def key(self) -> str:
        """Key of its data."""
        return "dataset" if self.clusters else "benchmark"

    @property
    def data(self) -> str:
        """Name of the group of its data."""
        return group_of(self.schema, "dataset") if self.clusters else "benchmark"

    def tolerated(self, cell: Cell) -> Tolerance:
        """The deviation from the print that counts as reproduced."""
        tolerance = self.tolerance.get(cell.column, self.tolerance.get(cell.metric, Tolerance()))
        return dataclasses.replace(tolerance, alone=self.same_queries)


@functools.cache
def recipe_of(name: str) -> Recipe:
    """How the cells of a paper's table are run; empty for a table without a file.

    Raises:
        InputError: names the file and the wrong key.
    """
    path = groups.folder() / GROUP / f"{name}.yaml"
    content = read(path) if path.is_file() else {}
    return build(Recipe, {key: value for key, value in content.items() if value is not None}, str(path))
