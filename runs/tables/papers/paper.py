"""A paper's table, with the config that fills each of its cells.

What is printed is in `runs/published/`; how a cell is run here is in `configs/table/`, see `runs.tables.papers.recipe`.
`thesis/4.4@omniglot` is the table on another benchmark, with a small network, and `thesis/2.2@digits` on another data
set. Cells that become equal are merged.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clustering.foundation.errors import InputError, unknown
from runs.config import groups
from runs.config.configs import EvaluateConfig, parse
from runs.stages.lineage import weights_name
from runs.tables.judging import judge
from runs.tables.keys import cell_key, differences, settings_of
from runs.tables.papers.published import (
    PublishedColumn,
    PublishedRow,
    PublishedTable,
    Value,
    causes,
    errata,
    published_table,
)
from runs.tables.papers.recipe import WEIGHT, Recipe, Settings, recipe_of
from runs.tables.table import Cell, Column, Config, OnPath, Row, Table

SMALL = "conv4"  # the network of a table on another benchmark
SMALL_CLUSTERING = "small_cnn"  # the network of a table of clusterings on another data set, if the paper's has one


def judged(table: Table) -> Table:
    """The table with the verdict of each cell that the paper prints, or that was run."""
    printed = published_table(table.name.partition("@")[0])
    recipe = recipe_of(printed.name)
    by_metric = {recipe.metric(column): column for column in printed.columns}  # if columns were renamed
    by_column = {(column.name, recipe.metric(column)): column for column in printed.columns}
    cells = {}
    for (row, column), cell in table.cells.items():
        tolerance = recipe.tolerated(by_column.get((column.name, column.metric), by_metric[column.metric]))
        cells[row, column] = dataclasses.replace(cell, verdict=judge(cell, column, printed, tolerance))
    return dataclasses.replace(table, cells=cells if "@" in table.name else _with_causes(cells, printed, recipe))


def _with_causes(
    cells: Mapping[tuple[Row, Column], Cell], printed: PublishedTable, recipe: Recipe
) -> dict[tuple[Row, Column], Cell]:
    """The cells with the causes of their differences, where these are known."""
    rows = {(row.group, row.name): row for row in printed.rows}
    columns = {(column.group, column.name, recipe.metric(column)): column for column in printed.columns}
    own = [cause for cause in causes().values() if any(place.table == printed.name for place in cause.where)]
    found = dict(cells)
    for (row, column), cell in cells.items():
        if cell.verdict and cell.verdict.status in ("above", "below"):
            place = rows[row.group, row.name], columns[column.group, column.name, column.metric]
            cause = next((cause for cause in own if cause.holds(printed.name, *place)), None)
            found[row, column] = dataclasses.replace(cell, verdict=dataclasses.replace(cell.verdict, cause=cause))
    return found


def paper_table(name: str, settings: Sequence[str] = (), schema: type[Config] | None = None) -> Table:
    """The table, without results.

    Args:
        name: such as "thesis/4.1" or "thesis/4.1@omniglot".
        settings: `key=value`, which override the paper's; `mini.root=FOLDER` for the cells of one benchmark.
        schema: class of the configs; None: that of the paper's recipe.

    Raises:
        InputError: unknown table or benchmark, or a setting that fits no cell.
    """
    name, at, variant = name.partition("@")
    printed = published_table(name)
    recipe = recipe_of(name)
    if at and variant not in groups.names(recipe.data):
        raise unknown("dataset" if recipe.clusters else "benchmark", variant, groups.names(recipe.data))
    parsed = _Parsed(schema or recipe.schema)
    places = {
        (row, column): _place(printed, recipe, i, j, variant, settings, parsed)
        for i, row in enumerate(printed.rows)
        for j, column in enumerate(printed.columns)
        if (i, j) in printed.values or (i, j) in printed.missing
    }
    refused = [place.refusal for place in places.values() if place.refusal]
    if refused and not any(place.configs for place in places.values()):
        raise refused[0]
    shown = {place: made for place, made in places.items() if made.configs or (made.cell.published and not variant)}
    rows, columns = _headings(shown, recipe, variant)
    cells: dict[tuple[Row, Column], Cell] = {}
    for (row, column), place in shown.items():
        cells.setdefault((rows[row], columns[column]), place.cell)  # the first of cells that a variant makes equal
    configs = {key: config for place in shown.values() for key, config in place.keys.items()}
    elsewhere = f", on {variant}{_network(configs.values())}" if variant else ""
    about = f"{printed.name}{elsewhere}: {printed.caption.rstrip('.')}"
    cited = () if variant else tuple(errata()[mark] for mark in printed.errata)
    full = f"{name}@{variant}" if variant else name
    printed_columns = (columns[column] for column in printed.columns if column in columns)
    order = tuple(dict.fromkeys(rows.values())), tuple(dict.fromkeys(printed_columns))
    return Table(full, about, *order, cells, tuple(configs.values()), errata=cited)


def _network(configs: Iterable[Config]) -> str:
    """The network of few-shot configs on another benchmark, in words."""
    few_shot = [config for config in configs if isinstance(config, EvaluateConfig)]
    weights = next((weights_name(config) for config in few_shot if config.given), "")
    return f" with {weights or SMALL}" if few_shot else ""


def _headings(
    places: "Mapping[tuple[PublishedRow, PublishedColumn], _Place]", recipe: Recipe, variant: str
) -> tuple[dict[PublishedRow, Row], dict[PublishedColumn, Column]]:
    """The rows and columns that are shown.

    On another benchmark, rows or columns of one name share a heading if their cells have become equal, else they keep
    their groups.
    """
    by_row: dict[PublishedRow, set[Any]] = {}
    by_column: dict[PublishedColumn, set[Any]] = {}
    for (row, column), place in places.items():
        by_row.setdefault(row, set()).update((recipe.metric(column), key) for key in place.keys)
        by_column.setdefault(column, set()).update(place.keys)
    renamed = variant if recipe.clusters else ""  # headings named after a data set get the name of this one
    rows = {}
    for row, configs in by_row.items():
        same = all(configs == other for r, other in by_row.items() if r.name == row.name)
        moved = bool(renamed) and recipe.of_data(row, recipe.rows)
        name, note = (renamed, "") if moved else (row.name, row.note)  # notes are about the paper's data
        rows[row] = Row(name, "" if variant and same else row.group, row.kind or "", note)
    columns = {}
    for column, configs in by_column.items():
        same = all(configs == other for c, other in by_column.items() if c.name == column.name)
        group = f"{variant} {'' if same else column.group}".strip() if variant else column.group
        if renamed and recipe.of_data(column, recipe.columns):
            apart = recipe.columns.get(column.group, {})  # a group may decide more than the data set
            name, group = renamed, column.group if apart and "dataset" not in apart else ""
        else:
            name = column.name
        columns[column] = Column(name, group, recipe.metric(column), column.unit, column.better)
    return rows, columns


@dataclass(frozen=True)
class _Place:
    """A cell, with its config for every seed, or the error of a setting that was typed."""

    cell: Cell
    configs: tuple[Config, ...] = ()
    refusal: InputError | None = None

    @functools.cached_property
    def keys(self) -> dict[str, Config]:
        """The configs by their settings."""
        return {" ".join(config.arguments()): config for config in self.configs}


def _place(
    printed: PublishedTable,
    recipe: Recipe,
    i: int,
    j: int,
    variant: str,
    settings: Sequence[str],
    parsed: "_Parsed",
) -> _Place:
    row, column, value = printed.rows[i], printed.columns[j], printed.values.get((i, j))
    wanted = recipe.settings(row, column, elsewhere=bool(variant))
    if not variant and (why := recipe.cannot.get(row.name, {}).get(column.name)):
        return _Place(Cell(None, why, published=value))
    if "strategy" not in wanted and "method" not in wanted:
        return _Place(Cell(None, _no_method(value), published=value))
    asked = _on(wanted, variant, recipe.data) if variant else wanted
    key = "dataset" if recipe.clusters else "benchmark"
    typed = [text for text in map(_of_data(recipe.data, key, asked.get(key, "")), settings) if text]
    plain, configs = parsed((), asked), parsed(tuple(typed), asked)
    if isinstance(configs, InputError):
        if isinstance(plain, InputError):  # not because of what was typed
            reason = str(plain).partition(";")[0].replace(f"experiment {printed.name}: ", "")
            return _Place(Cell(None, reason, published=value))
        return _Place(Cell(None, str(configs), published=value), refusal=configs)
    if len(set(map(cell_key, configs))) > 1:
        several = InputError(
            f"{printed.name}: a cell takes one value of each key but the seed; make a table of your own "
            "(configs/experiment) to compare several"
        )
        return _Place(Cell(None, str(several), published=value), refusal=several)
    differs = () if variant else recipe.differing(row, column)
    differs += tuple(f"{key}={text}, not {wanted[key]}" for key, text in asked.items() if wanted.get(key, text) != text)
    if isinstance(plain, InputError):  # the paper's own config cannot be made here
        pairs = (setting.partition("=")[::2] for setting in typed)
        differs += tuple(f"{key}={text}" for key, text in pairs if asked.get(key) != text)
    else:
        differs += differences(settings_of(configs[0]), settings_of(plain[0]))
    on_path = None if variant else recipe.on_path(row, column, configs[0])
    scored = _in_words(on_path, recipe.metric(column)) if on_path else recipe.scoring(row, column)
    needs = _needs(configs[0], "" if variant else recipe.needs)
    cell = Cell(configs[0], needs, published=value, differs=differs, scored=scored, on_path=on_path)
    return _Place(cell, tuple(configs))


def _in_words(on_path: OnPath, metric: str) -> str:
    """The printed point on a path in words, as far as it differs from the column."""
    named = "" if on_path.metric == metric else on_path.metric.replace("_", " ")
    at = "" if on_path.weight is None else f"weight {on_path.weight:g}"
    return " at ".join(filter(None, (named, at)))


class _Parsed:
    """Parses settings into configs, each once: on another benchmark most cells of a table are equal."""

    def __init__(self, schema: type[Config]) -> None:
        self._schema = schema
        self._known: dict[tuple[Any, ...], Sequence[Config] | InputError] = {}

    def __call__(self, typed: tuple[str, ...], under: Settings) -> Sequence[Config] | InputError:
        key = (typed, *under.items())
        if key not in self._known:
            try:
                self._known[key] = parse(self._schema, typed, under)
            except InputError as error:
                self._known[key] = error
        return self._known[key]


def _no_method(value: Value | None) -> str:
    if value is not None and value.kind == "quoted":
        return "quoted from another paper; its method is not among those of transduce"
    return "its method or data are not among those of transduce"


def lacking_folders(config: Config) -> list[str]:
    """Settings for the folders of images, points or features that a config lacks: mini.root=FOLDER."""
    if isinstance(config, EvaluateConfig) and config.lacks_features:
        return ["features_root=FOLDER"]
    data = (config.benchmark, config.target) if isinstance(config, EvaluateConfig) else (config.dataset,)
    return [
        f"{choice.name}.root=FOLDER" for choice in data if "root" in choice.options and choice.options["root"] is None
    ]


def _needs(config: Config, besides: str) -> str:
    """What a config lacks before it can be run: folders, and what the recipe says."""
    lacking = [*lacking_folders(config), *filter(None, [besides])]
    return f"needs {' and '.join(lacking)}" if lacking else ""


def _on(wanted: Settings, benchmark: str, data: str) -> Settings:
    """The settings of a cell on another benchmark, or on another data set with its own weights."""
    if "method" in wanted:
        chosen = {group: wanted[key] for group, key in ((data, "dataset"), ("network", "network")) if key in wanted}
        own = {key for group, name in chosen.items() for key in groups.option(group, name).options}
        kept = {key: text for key, text in wanted.items() if key not in own and key != WEIGHT}
        return kept | {"dataset": benchmark} | ({"network": SMALL_CLUSTERING} if "network" in wanted else {})
    kept = {key: text for key, text in wanted.items() if key not in ("target", "training", "crop_pct")}
    return kept | {"benchmark": benchmark, "backbone": SMALL}


def _of_data(group: str, name: str, chosen: str) -> Any:
    """A function that translates settings for the cells of a benchmark or data set: for those of mini, `mini.root=X` is
    `benchmark.root=X`; for others it is dropped."""
    known = set(groups.names(group))

    def translate(setting: str) -> str:
        first, dot, rest = setting.partition("=")[0].partition(".")
        if not dot or first not in known:
            return setting
        return f"{name}.{rest}={setting.partition('=')[2]}" if first == chosen else ""

    return translate
