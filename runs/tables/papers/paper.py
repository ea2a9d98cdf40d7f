"""A paper's table, with the config that fills each of its cells.

What is printed is in `runs/published/`; how a cell is run here is in `configs/table/`, see `runs.tables.papers.recipe`.
`thesis/4.4@omniglot` is the table on another benchmark, with a small network, and `thesis/2.2@digits` on another data
set. Cells that become equal are merged.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clustering.foundation.errors import InputError, unknown
from runs.config import groups
from runs.config.configs import EvaluateConfig, parse
from runs.stages.lineage import weights_name
from runs.tables.judging import judge
from runs.tables.keys import Config, cell_key, differences, settings_of
from runs.tables.papers.published import PublishedColumn, PublishedRow, Value, causes, errata, published_table
from runs.tables.papers.recipe import WEIGHT, Recipe, Settings, recipe_of
from runs.tables.table import Cell, Column, Row, Table

SMALL = "conv4"  # the network of a table on another benchmark
SMALL_CLUSTERING = "small_cnn"  # the network of a table of clusterings on another data set, if the paper's has one
NO_METHOD = "its method or data are not among those of transduce"
QUOTED = "quoted from another paper; its method is not among those of transduce"
SEVERAL = InputError(
    "a cell takes one value of each key but the seed; make a table of your own (configs/experiment) to compare several"
)
Parse = Callable[[tuple[str, ...], tuple[tuple[str, str], ...]], "Sequence[Config] | InputError"]


def judged(table: Table) -> Table:
    """The table with the verdict of each cell, and the cause of its difference, if it is known."""
    printed = published_table(table.name.partition("@")[0])
    cells = {}
    for (row, column), cell in table.cells.items():
        verdict = judge(cell, column, printed, cell.tolerance)
        if verdict.status in ("above", "below"):
            verdict = dataclasses.replace(verdict, cause=cell.cause)
        cells[row, column] = dataclasses.replace(cell, verdict=verdict)
    return dataclasses.replace(table, cells=cells)


def paper_table(name: str, settings: Sequence[str] = (), schema: type[Config] | None = None) -> Table:
    """The table, without results.

    Args:
        name: such as "thesis/4.1" or "thesis/4.1@omniglot".
        settings: `key=value`, which override the paper's; `mini.root=FOLDER` for the cells of one benchmark.
        schema: class of the configs; None: that of the paper's recipe.

    Raises:
        InputError: unknown table or benchmark, or a setting that fits no cell.
    """
    full, (name, at, variant) = name, name.partition("@")
    printed, recipe = published_table(name), recipe_of(name)
    if at and variant not in groups.names(recipe.data):
        raise unknown("dataset" if recipe.clusters else "benchmark", variant, groups.names(recipe.data))

    @functools.cache  # on another benchmark most cells of a table are equal
    def parsed(typed: tuple[str, ...], under: tuple[tuple[str, str], ...]) -> Sequence[Config] | InputError:
        try:
            return parse(schema or recipe.schema, typed, dict(under))
        except InputError as error:
            return error

    known = [] if variant else [one for one in causes().values() if name in {place.table for place in one.where}]
    refused: list[InputError] = []
    shown: dict[tuple[PublishedRow, PublishedColumn], tuple[Cell, Mapping[str, Config]]] = {}
    for i, row in enumerate(printed.rows):
        for j, column in enumerate(printed.columns):
            if (i, j) in printed.values or (i, j) in printed.missing:
                value = printed.values.get((i, j))
                cell, found = _cell(recipe, row, column, value, variant, settings, parsed)
                cause = next((one for one in known if one.holds(name, row, column)), None)
                cell = dataclasses.replace(cell, tolerance=recipe.tolerated(column), cause=cause)
                refused += [found] if isinstance(found, InputError) else []
                configs = {} if isinstance(found, InputError) else {" ".join(one.arguments()): one for one in found}
                if configs or (cell.published and not variant):
                    shown[row, column] = cell, configs
    every = {key: config for _, configs in shown.values() for key, config in configs.items()}
    if refused and not every:
        raise refused[0]
    rows, columns = _headings({place: configs for place, (_, configs) in shown.items()}, recipe, variant)
    cells: dict[tuple[Row, Column], Cell] = {}
    for (row, column), (cell, _) in shown.items():
        cells.setdefault((rows[row], columns[column]), cell)  # the first of cells that a variant makes equal
    about = f"{name}{f', on {variant}' if variant else ''}"
    if few_shot := [config for config in every.values() if variant and isinstance(config, EvaluateConfig)]:
        about += f" with {next((weights_name(config) for config in few_shot if config.given), SMALL)}"
    cited = () if variant else tuple(errata()[mark] for mark in printed.errata)
    heads = tuple(dict.fromkeys(columns[column] for column in printed.columns if column in columns))
    about = f"{about}: {printed.caption.rstrip('.')}"
    return Table(full, about, tuple(dict.fromkeys(rows.values())), heads, cells, tuple(every.values()), errata=cited)


def _headings(
    places: Mapping[tuple[PublishedRow, PublishedColumn], Mapping[str, Config]], recipe: Recipe, variant: str
) -> tuple[dict[PublishedRow, Row], dict[PublishedColumn, Column]]:
    """The rows and columns that are shown.

    On another benchmark, rows or columns of one name share a heading if their cells have become equal, else they keep
    their groups.
    """
    by_row: dict[PublishedRow, set[Any]] = {}
    by_column: dict[PublishedColumn, set[Any]] = {}
    for (row, column), configs in places.items():
        by_row.setdefault(row, set()).update((recipe.metric(column), key) for key in configs)
        by_column.setdefault(column, set()).update(configs)
    renamed = variant if recipe.clusters else ""  # headings named after a data set get the name of this one
    rows, columns = {}, {}
    for row, own in by_row.items():
        same = all(own == other for r, other in by_row.items() if r.name == row.name)
        moved = bool(renamed) and recipe.of_data(row, recipe.rows)
        name, note = (renamed, "") if moved else (row.name, row.note)  # notes are about the paper's data
        rows[row] = Row(name, "" if variant and same else row.group, row.kind or "", note)
    for column, own in by_column.items():
        same = all(own == other for c, other in by_column.items() if c.name == column.name)
        name, group = column.name, column.group
        if renamed and recipe.of_data(column, recipe.columns):
            apart = recipe.columns.get(group, {})  # a group may decide more than the data set
            name, group = renamed, group if apart and "dataset" not in apart else ""
        elif variant:
            group = f"{variant} {'' if same else group}".strip()
        columns[column] = Column(name, group, recipe.metric(column), column.unit, column.better)
    return rows, columns


def _cell(
    recipe: Recipe,
    row: PublishedRow,
    column: PublishedColumn,
    value: Value | None,
    variant: str,
    settings: Sequence[str],
    parsed: Parse,
) -> "tuple[Cell, Sequence[Config] | InputError]":
    """A cell, with its config for every seed, or the error of a setting that was typed."""
    wanted = recipe.settings(row, column, elsewhere=bool(variant))
    if not variant and (why := recipe.cannot.get(row.name, {}).get(column.name)):
        return Cell(None, why, published=value), ()
    if "strategy" not in wanted and "method" not in wanted:
        return Cell(None, QUOTED if value and value.kind == "quoted" else NO_METHOD, published=value), ()
    asked = _on(wanted, variant, recipe.data) if variant else wanted
    chosen = asked.get("dataset" if recipe.clusters else "benchmark", "")
    typed = _of_data(settings, recipe.data, "dataset" if recipe.clusters else "benchmark", chosen)
    plain, configs = (parsed(given, tuple(asked.items())) for given in ((), typed))
    if isinstance(configs, InputError):
        if isinstance(plain, InputError):  # not because of what was typed
            return Cell(None, str(plain).partition(";")[0], published=value), ()
        return Cell(None, str(configs), published=value), configs
    if len(configs) > 1 and len(set(map(cell_key, configs))) > 1:
        return Cell(None, str(SEVERAL), published=value), SEVERAL
    differs = () if variant else recipe.differing(row, column)
    differs += tuple(f"{key}={text}, not {wanted[key]}" for key, text in asked.items() if wanted.get(key, text) != text)
    if isinstance(plain, InputError):  # the paper's own config cannot be made here
        pairs = (setting.partition("=")[::2] for setting in typed)
        differs += tuple(f"{key}={text}" for key, text in pairs if asked.get(key) != text)
    elif configs is not plain:
        differs += differences(settings_of(configs[0]), settings_of(plain[0]))
    on_path = None if variant else recipe.on_path(row, column, configs[0])
    scored = recipe.scoring(row, column)
    if on_path:
        named = "" if on_path.metric == recipe.metric(column) else on_path.metric.replace("_", " ")
        scored = " at ".join(filter(None, (named, "" if on_path.weight is None else f"weight {on_path.weight:g}")))
    lacking = [*lacking_folders(configs[0]), *([recipe.needs] if recipe.needs and not variant else [])]
    needs = f"needs {' and '.join(lacking)}" if lacking else ""
    return Cell(configs[0], needs, published=value, differs=differs, scored=scored, on_path=on_path), configs


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
    known, kept = groups.names(group), []
    for setting in settings:
        first, dot, rest = setting.partition("=")[0].partition(".")
        if not dot or first not in known:
            kept.append(setting)
        elif first == chosen:
            kept.append(f"{name}.{rest}={setting.partition('=')[2]}")
    return tuple(kept)
