"""A paper's table, with the config that fills each of its cells.

What is printed is in `runs/published/`; how a cell is run here is in `configs/table/<work>/<number>.yaml`. Later
settings of a cell override earlier ones: all, columns, rows, cells. A row without a strategy or method cannot be run
here. The tests check that headings and metrics are those of the print, and that compared points are on the path of
their cell.

`thesis/4.4@omniglot` is the table on another benchmark, with a small network, and `thesis/2.2@digits` on another data
set. Cells that become equal are merged.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, StrictBool
from pydantic.dataclasses import dataclass

from clustering.foundation.errors import InputError, unknown
from runs.config import groups, overrides
from runs.config.base import group_of
from runs.config.configs import SCHEMAS, ClusterConfig, EvaluateConfig, FairConfig, parse
from runs.stages.lineage import weights_name
from runs.tables.keys import Config, cell_key, differences, settings_of
from runs.tables.published import STRICT, build, causes, errata, published_table, read_yaml
from runs.tables.table import Cell, Table, Tolerance

GROUP = "table"  # folder of configs/
WEIGHT = "fairness_weight"
SMALL = "conv4"  # the network of a table on another benchmark
SMALL_CLUSTERING = "small_cnn"  # the network of a table of clusterings on another data set, if the paper's has one
NO_METHOD = "its method or data are not among those of transduce"
QUOTED = "quoted from another paper; its method is not among those of transduce"
SEVERAL = InputError(
    "a cell takes one value of each key but the seed; make a table of your own (configs/experiment) to compare several"
)
Found = Mapping[str, Config] | InputError
"""Configs by the arguments that make them, one for each seed; or why there are none."""
Parse = Callable[[tuple[str, ...], tuple[tuple[str, str], ...]], Found]


def as_typed(values: Any) -> Any:
    """Settings of a file as text, as they would be typed."""
    if not isinstance(values, Mapping):
        return values
    return {key: value if isinstance(value, str) else overrides.write(value) for key, value in values.items()}


def _tolerance(value: Any) -> Tolerance:
    if isinstance(value, str) and value.startswith("x"):
        return Tolerance(factor=float(value[1:]))
    return Tolerance(absolute=float(value))


Settings = dict[str, str]
Typed = Annotated[Settings, BeforeValidator(as_typed)]


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
    def key(self) -> str:
        """Key of its data: "benchmark" of evaluations, "dataset" of clusterings, fair ones included."""
        return "benchmark" if self.schema is EvaluateConfig else "dataset"

    @property
    def data(self) -> str:
        """Name of the group of its data."""
        return group_of(self.schema, self.key)

    def tolerated(self, cell: Cell) -> Tolerance:
        """The deviation from the print that counts as reproduced."""
        tolerance = self.tolerance.get(cell.column, self.tolerance.get(cell.metric, Tolerance()))
        return replace(tolerance, alone=self.same_queries)


@functools.cache
def recipe_of(name: str) -> Recipe:
    """How the cells of a paper's table are run; empty for a table without a file.

    Raises:
        InputError: names the file and the wrong key.
    """
    path = groups.folder() / GROUP / f"{name}.yaml"
    content = read_yaml(path, str(path)) if path.is_file() else {}
    return build(Recipe, {key: value for key, value in content.items() if value is not None}, str(path))


def paper_table(name: str, settings: Sequence[str] = ()) -> Table:
    """The table, without results.

    Args:
        name: such as "thesis/4.1" or "thesis/4.1@omniglot".
        settings: `key=value`, which override the paper's; `mini.root=FOLDER` for the cells of one benchmark.

    Raises:
        InputError: unknown table or benchmark, or a setting that fits no cell.
    """
    full, (name, at, variant) = name, name.partition("@")
    published, recipe = published_table(name), recipe_of(name)
    if at and variant not in groups.names(recipe.data):
        raise unknown(recipe.key, variant, groups.names(recipe.data))

    @functools.cache  # on another benchmark most cells of a table are equal
    def parsed(typed: tuple[str, ...], under: tuple[tuple[str, str], ...]) -> Found:
        try:
            return {" ".join(one.arguments()): one for one in parse(recipe.schema, typed, dict(under))}
        except InputError as error:
            return error

    known = [] if variant else [one for one in causes().values() if name in {place.table for place in one.where}]
    positions = {(one.group, one.name, one.metric): i for i, one in enumerate(published.columns)}
    refused: list[InputError] = []
    shown: list[tuple[Cell, int, Mapping[str, Config]]] = []
    for cell in published.cells:
        changes, found = _run(recipe, cell, variant, settings, parsed)
        refused += [found] if isinstance(found, InputError) else []
        configs = {} if isinstance(found, InputError) else found
        if configs or (cell.printed and not variant):
            cause = next((one for one in known if one.holds(name, cell)), None)
            changes |= {"metric": recipe.metric(cell), "tolerance": recipe.tolerated(cell), "known_cause": cause}
            shown.append((replace(cell, **changes), positions[cell.column_key], configs))
    every = {key: config for _, _, configs in shown for key, config in configs.items()}
    if refused and not every:
        raise refused[0]
    if variant:
        shown = _elsewhere(shown, recipe, variant)
    order: dict[tuple[str, str, str], int] = {}
    for cell, position, _ in shown:
        order[cell.column_key] = min(position, order.get(cell.column_key, position))
    about = f"{name}{f', on {variant}' if variant else ''}"
    if few_shot := [config for config in every.values() if variant and isinstance(config, EvaluateConfig)]:
        about += f" with {next((weights_name(config) for config in few_shot if config.given), SMALL)}"
    return Table(
        full,
        f"{about}: {published.caption.rstrip('.')}",
        tuple(cell for cell, _, _ in shown),  # a variant makes some equal
        tuple(sorted(order, key=lambda column: order[column])),
        tuple(every.values()),
        errata=() if variant else tuple(errata()[mark] for mark in published.errata),
    )


def _elsewhere(
    shown: Sequence[tuple[Cell, int, Mapping[str, Config]]], recipe: Recipe, variant: str
) -> list[tuple[Cell, int, Mapping[str, Config]]]:
    """The cells with their headings on other data: rows or columns of one name share a heading if their cells have
    become equal, else they keep their groups. Headings named after a data set get the name of this one."""
    by_row: dict[Any, set[Any]] = defaultdict(set)
    by_column: dict[Any, set[Any]] = defaultdict(set)
    for cell, position, configs in shown:
        by_row[cell.row_key] |= {(cell.metric, key) for key in configs}
        by_column[cell.column_group, cell.column, position] |= configs.keys()

    def alike(known: Mapping[Any, set[Any]], key: tuple[Any, ...]) -> bool:
        return all(known[key] == other for (_, name, *_), other in known.items() if name == key[1])

    found = []
    for cell, position, configs in shown:
        column = cell.column_group, cell.column, position
        changes: dict[str, Any] = {"row_group": "" if alike(by_row, cell.row_key) else cell.row_group}
        if any("dataset" in recipe.rows.get(name, {}) for name in cell.row_key):
            changes |= {"row": variant, "row_note": ""}  # notes are about the paper's data
        if any("dataset" in recipe.columns.get(name, {}) for name in column[:2]):
            apart = recipe.columns.get(cell.column_group, {})  # a group may decide more than the data set
            group = cell.column_group if apart and "dataset" not in apart else ""
            changes |= {"column": variant, "column_group": group}
        else:
            group = "" if alike(by_column, column) else cell.column_group
            changes["column_group"] = f"{variant} {group}".strip()
        found.append((replace(cell, **changes), position, configs))
    return found


def _run(
    recipe: Recipe, cell: Cell, variant: str, settings: Sequence[str], parsed: Parse
) -> tuple[dict[str, Any], Found]:
    """How a cell is run, with its config for every seed, or the error of a setting that was typed."""
    wanted = recipe.settings(cell, elsewhere=bool(variant))
    if not variant and (why := recipe.cannot.get(cell.row, {}).get(cell.column)):
        return {"obstacle": why}, {}
    if "strategy" not in wanted and "method" not in wanted:
        return {"obstacle": QUOTED if cell.printed and cell.kind == "quoted" else NO_METHOD}, {}
    asked = _on(wanted, variant, recipe.data) if variant else wanted
    typed = _of_data(settings, recipe.data, recipe.key, asked.get(recipe.key, ""))
    plain, configs = (parsed(given, tuple(asked.items())) for given in ((), typed))
    if isinstance(configs, InputError):
        if isinstance(plain, InputError):  # not because of what was typed
            return {"obstacle": str(plain).partition(";")[0]}, {}
        return {"obstacle": str(configs)}, configs
    if len(configs) > 1 and len(set(map(cell_key, configs.values()))) > 1:
        return {"obstacle": str(SEVERAL)}, SEVERAL
    first, names = next(iter(configs.values())), () if variant else (*cell.column_key[:2], *cell.row_key)
    differs = [recipe.instead[name] for name in names if name in recipe.instead]
    differs += [f"{key}={text}, not {wanted[key]}" for key, text in asked.items() if wanted.get(key, text) != text]
    if isinstance(plain, InputError):  # the paper's own config cannot be made here
        pairs = (setting.partition("=")[::2] for setting in typed)
        differs += [f"{key}={text}" for key, text in pairs if asked.get(key) != text]
    elif configs is not plain:
        differs += differences(settings_of(first), settings_of(next(iter(plain.values()))))
    on_path = None if variant else recipe.on_path(cell, first)
    scored = recipe.scored.get(cell.row, recipe.scored.get(cell.metric, ""))
    if on_path:
        weight, metric = on_path
        named = "" if metric == recipe.metric(cell) else metric.replace("_", " ")
        scored = " at ".join(filter(None, (named, "" if weight is None else f"weight {weight:g}")))
    lacking = [*lacking_folders(first), *([recipe.needs] if recipe.needs and not variant else [])]
    needs = f"needs {' and '.join(lacking)}" if lacking else ""
    how = {"config": first, "obstacle": needs, "differs": tuple(differs), "scored": scored, "on_path": on_path}
    return how, configs


def lacking_folders(config: Config) -> list[str]:
    """Settings for the folders of images, points or features that a config lacks: mini.root=FOLDER."""
    if isinstance(config, EvaluateConfig) and config.lacks_features:
        return ["features_root=FOLDER"]
    data = (config.benchmark, config.target) if isinstance(config, EvaluateConfig) else (config.dataset,)
    return [f"{choice.name}.root=FOLDER" for choice in data if choice.options.get("root", "") is None]


def _on(wanted: Settings, benchmark: str, data: str) -> Settings:
    """The settings of a cell on another benchmark, or on another data set with its own weights."""
    if "method" in wanted:
        chosen = {group: wanted[key] for group, key in ((data, "dataset"), ("network", "network")) if key in wanted}
        own = {key for group, name in chosen.items() for key in groups.option(group, name).options}
        kept = {key: text for key, text in wanted.items() if key not in own and key != WEIGHT}
        return kept | {"dataset": benchmark} | ({"network": SMALL_CLUSTERING} if "network" in wanted else {})
    kept = {
        key: text for key, text in wanted.items() if key not in ("target", "training", "trainer.precision", "crop_pct")
    }
    return kept | {"benchmark": benchmark, "backbone": SMALL}


def _of_data(settings: Sequence[str], group: str, name: str, chosen: str) -> tuple[str, ...]:
    """The settings for the cells of a benchmark or data set: for those of mini, `mini.root=X` is `benchmark.root=X`;
    for others it is dropped."""
    known, kept = groups.names(group) if settings else (), []
    for setting in settings:
        first, dot, rest = setting.partition("=")[0].partition(".")
        if not dot or first not in known:
            kept.append(setting)
        elif first == chosen:
            kept.append(f"{name}.{rest}={setting.partition('=')[2]}")
    return tuple(kept)
