"""The table of an experiment: strategies by kinds of tasks, or methods of clustering by their scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from runs.config.cluster import NONE
from runs.config.configs import ClusterConfig, EvaluateConfig
from runs.config.groups import SAME
from runs.stages.lineage import short, short_name, weights_name
from runs.tables.table import Cell, Column, Row, Table

NO_CLASSES = ("predictions",)
"""Data sets whose points have no true classes."""


def table_of(name: str, configs: Sequence[EvaluateConfig]) -> Table:
    """The table for the configs of an experiment, without results.

    Columns are the kinds of tasks. Rows are strategies, with the other keys that differ between the configs, except the
    seed. Several files of features make groups of rows.
    """
    cells: dict[tuple[Row, Column], Cell] = {}
    several = len({config.features for config in configs}) > 1
    apart = ("seed", "sampler", "tasks", "features") if several else ("seed", "sampler")
    for config, row, column in zip(configs, row_names(configs, apart), column_names(configs), strict=True):
        group = weights_name(config) if several else ""
        # Configs at the same place differ only in their seed.
        needs = "needs features_root=FOLDER" if config.lacks_features else ""
        cells.setdefault((Row(row, group, kind_of(config)), Column(column)), Cell(config, needs))
    return Table.of(name, _about(configs), cells, configs=tuple(configs))


def clusterings_table(name: str, configs: Sequence[ClusterConfig]) -> Table:
    """The table for the configs of an experiment of clusterings, without results.

    Columns are scores, for each data set. Rows are methods, in groups with the same known labels, with the other keys
    that differ between the configs of a group, except the seed.
    """
    cells: dict[tuple[Row, Column], Cell] = {}
    several = len({config.dataset.name for config in configs}) > 1
    apart = ("seed", "dataset") if several else ("seed",)
    by_labels: dict[str | None, list[ClusterConfig]] = {}
    for config in configs:
        by_labels.setdefault(config.labels, []).append(config)
    for labels, alike in by_labels.items():
        group = ("no labels" if alike[0].asked_labels() is None else f"{labels} labels") if len(by_labels) > 1 else ""
        for config, row in zip(alike, row_names(alike, apart), strict=True):
            for column in _scores(config, config.dataset.name if several else ""):
                cells.setdefault((Row(row, group), column), Cell(config))
    return Table.of(name, _about_clusterings(configs), cells, configs=tuple(configs))


def _scores(config: ClusterConfig, group: str) -> list[Column]:
    """The columns of a clustering."""
    time = Column("time of a start", group, "seconds_optimise", "s", "lower")
    if config.dataset.plugin in NO_CLASSES:
        return [Column("steps", group, "iterations_mean", "", "lower"), time]
    known = config.asked_labels() is not None
    scores = [Column("accuracy", group) if known else Column("ACC", group, "acc_hungarian")]
    if config.fits > 1:
        scores.append(Column("mean ACC of the starts", group, "acc_hungarian_mean"))
    return [*scores, Column("NMI", group, "nmi"), time]


def _about_clusterings(configs: Sequence[ClusterConfig]) -> str:
    """What the cells of clusterings have in common."""
    same = _same([config.shown() for config in configs])
    network, labels, starts = (same.get(name, "null") for name in ("network", "labels", "starts"))
    parts = [
        short_name(same.get("dataset", "")),
        f"network {short_name(network)}" if network not in ("null", NONE) else "",
        f"{labels} labels" if labels != "null" else "",
        f"{starts} starts, of which the one with the lowest objective counts" if starts not in ("null", "1") else "",
    ]
    return ", ".join(filter(None, parts))


def _same(flats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys that have one value in all configs."""
    return {key: value for key, value in flats[0].items() if all(flat.get(key) == value for flat in flats)}


def kind_of(config: EvaluateConfig) -> str:
    """Whether the strategy is inductive or transductive, and whether it assumes balanced classes."""
    strategy = config.strategy.kind
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


def _about(configs: Sequence[EvaluateConfig]) -> str:
    """What the cells have in common. Keys that differ are in the names of rows."""
    same = _same([config.flat() for config in configs])
    uneven = " on average" if any(config.sampler.plugin == "dirichlet" for config in configs) else ""
    images = ("benchmark", "backbone")
    parts = [
        "/".join(short_name(same[key]) for key in images if {*images} <= same.keys()),
        f"on {short_name(same['target'])}" if same.get("target", SAME) != SAME else "",
        "base mean of the target" if same.get("base_mean") == "target" else "",
        f"weights {weights_name(configs[0])}" if same.get("checkpoint") or same.get("pretrained") else "",
        f"features of {weights_name(configs[0])}" if same.get("features") else "",
        f"{same['sampler.way']}-way" if "sampler.way" in same else "",
        f"{same['sampler.query']} queries a class{uneven}" if "sampler.query" in same else "",
        short_name(same["sampler"]) if same.get("sampler", "balanced") != "balanced" else "",
        f"{same['split']} classes" if "split" in same else "",
    ]
    return ", ".join(filter(None, parts))
