"""The table of an experiment: strategies by kinds of tasks, or methods of clustering by their scores."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runs.config.cluster import NONE
from runs.config.compose import accepts
from runs.config.configs import ClusterConfig, EvaluateConfig, parse
from runs.config.groups import SAME, names
from runs.stages.lineage import short, short_name, weights_name
from runs.tables.table import Cell, Table

NO_CLASSES = ("predictions",)
"""Data sets whose points have no true classes."""
ABOUT = ("target", "base_mean", "weights", "sampler", "sampler.way", "sampler.query", "split", "labels")
"""Settings that the title of a table names."""
USUAL = ("null", NONE, SAME, "balanced", "source")
"""Values of these that go without saying."""


def experiment_table(name: str, settings: Sequence[str]) -> Table:
    """The table of an experiment, which may be a YAML file, without results."""
    known = name if name in names("experiment") else Path(name).stem
    typed = [f"experiment={name}", *settings]
    if accepts(ClusterConfig, name) and not accepts(EvaluateConfig, name):
        return clusterings_table(known, parse(ClusterConfig, typed))
    return table_of(known, parse(EvaluateConfig, typed))


def table_of(name: str, configs: Sequence[EvaluateConfig]) -> Table:
    """The table for the configs of an experiment, without results.

    Columns are the kinds of tasks. Rows are strategies, with the other keys that differ between the configs, except the
    seed. Several files of features make groups of rows.
    """
    several = len({config.features for config in configs}) > 1
    apart = ("seed", "sampler", "tasks", "features") if several else ("seed", "sampler")
    cells = [  # configs at the same place differ only in their seed
        Cell(
            row=row,
            row_group=weights_name(config) if several else "",
            row_kind=kind_of(config),
            column=column,
            config=config,
            obstacle="needs features_root=FOLDER" if config.lacks_features else "",
        )
        for config, row, column in zip(configs, row_names(configs, apart), column_names(configs), strict=True)
    ]
    return Table(name, _about(configs), tuple(cells), configs=tuple(configs))


def clusterings_table(name: str, configs: Sequence[ClusterConfig]) -> Table:
    """The table for the configs of an experiment of clusterings, without results.

    Columns are scores, for each data set. Rows are methods, in groups with the same known labels, with the other keys
    that differ between the configs of a group, except the seed.
    """
    cells = []
    several = len({config.dataset.name for config in configs}) > 1
    apart = ("seed", "dataset") if several else ("seed",)
    by_labels: dict[str | None, list[ClusterConfig]] = {}
    for config in configs:
        by_labels.setdefault(config.labels, []).append(config)
    for labels, alike in by_labels.items():
        group = ("no labels" if alike[0].asked_labels() is None else f"{labels} labels") if len(by_labels) > 1 else ""
        for config, row in zip(alike, row_names(alike, apart), strict=True):
            of_data = config.dataset.name if several else ""
            cells += [replace(cell, row=row, row_group=group, column_group=of_data) for cell in _scores(config)]
    return Table(name, _about(configs), tuple(cells), configs=tuple(configs))


def _scores(config: ClusterConfig) -> list[Cell]:
    """A cell for each score of a clustering, in a row without a name."""
    time = Cell(row="", column="time of a start", metric="seconds_optimise", unit="s", better="lower", config=config)
    if config.dataset.plugin in NO_CLASSES:
        return [replace(time, column="steps", metric="iterations_mean", unit=""), time]
    known = config.asked_labels() is not None
    scores = {"accuracy": "accuracy"} if known else {"ACC": "acc_hungarian"}
    scores |= {"mean ACC of the starts": "acc_hungarian_mean"} if config.fits > 1 else {}
    scores["NMI"] = "nmi"
    return [*(Cell(row="", column=name, metric=metric, config=config) for name, metric in scores.items()), time]


def _about(configs: Sequence[EvaluateConfig] | Sequence[ClusterConfig]) -> str:
    """What the cells have in common: the data and the network by name, then settings. Keys that differ are in the names
    of rows."""
    first, flats = configs[0].shown(), [config.shown() for config in configs]
    same = {key: text for key, text in first.items() if all(flat.get(key) == text for flat in flats)}
    same = {key: text for key, text in same.items() if text not in USUAL}
    if isinstance(configs[0], EvaluateConfig) and {"checkpoint", "pretrained", "features"} & same.keys():
        same["weights"] = weights_name(configs[0])
    named = [short_name(same[key]) for key in ("benchmark", "backbone", "dataset", "network") if key in same]
    settings = [f"{key.rpartition('.')[2]}={short_name(same[key])}" for key in ABOUT if key in same]
    starts = same.get("starts", "1")
    best = [] if starts == "1" else [f"{starts} starts, of which the one with the lowest objective counts"]
    return ", ".join([*named, *settings, *best])


def kind_of(config: EvaluateConfig) -> str:
    """Whether the strategy is inductive or transductive, and whether it assumes balanced classes."""
    strategy = config.strategy.kind if config.strategy.grids else config.strategy.build()
    if not strategy.transductive:
        return "inductive"
    return "transductive, balanced" if strategy.assumes_balance else "transductive"


def row_names(
    configs: Sequence[EvaluateConfig] | Sequence[ClusterConfig], apart: Sequence[str] = ("seed", "sampler")
) -> list[str]:
    """Name of the row of each config: its strategy or method, and the keys that differ between configs of that one.

    Keys and groups in `apart` are left out.
    """
    flats = [config.shown() for config in configs]
    group = "strategy" if "strategy" in flats[0] else "method"
    names = []
    for flat in flats:
        alike = [other for other in flats if other[group] == flat[group]]
        varying = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in flat.items()
            if key.partition(".")[0] not in apart
            and value != "null"
            and len({other[key] for other in alike if key in other} - {"tuned"}) > 1
        ]
        names.append(" ".join([short_name(flat[group]), *varying]))
    return names


def column_names(configs: Sequence[EvaluateConfig]) -> list[str]:
    """Name of the column of each config: its shots, its sampler where there are several, and the options that differ
    between configs of that sampler."""
    samplers = [config.sampler for config in configs]
    names = []
    for sampler in samplers:
        alike = [other.options for other in samplers if other.name == sampler.name]
        parts = [f"{sampler.options['shot']}-shot"] if "shot" in sampler.options else []
        if not parts or (len(alike) < len(samplers) and sampler.name != "balanced"):
            parts.append(short(sampler))
        parts += [
            f"{key}={value}"
            for key, value in sampler.options.items()
            if key != "shot" and len({other[key] for other in alike}) > 1
        ]
        names.append(" ".join(parts))
    return names
