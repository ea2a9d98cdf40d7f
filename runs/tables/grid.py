"""The table of an experiment: strategies by kinds of tasks."""

from collections.abc import Sequence

from runs.config.configs import EvaluateConfig
from runs.config.groups import SAME
from runs.stages.lineage import short, short_name, weights_name
from runs.tables.table import Cell, Column, Row, Table


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
    rows, columns = (tuple(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
    return Table(name, _about(configs), rows, columns, cells, tuple(configs))  # type: ignore[arg-type]


def kind_of(config: EvaluateConfig) -> str:
    """Whether the strategy is inductive or transductive, and whether it assumes balanced classes."""
    strategy = config.strategy.kind
    if not strategy.transductive:
        return "inductive"
    return "transductive, balanced" if strategy.assumes_balance else "transductive"


def row_names(configs: Sequence[EvaluateConfig], apart: Sequence[str] = ("seed", "sampler")) -> list[str]:
    """Name of the row of each config: the strategy, and the keys that differ between configs of that strategy.

    Keys and groups in `apart` are left out.
    """
    flats = [config.shown() for config in configs]
    names = []
    for flat in flats:
        alike = [other for other in flats if other["strategy"] == flat["strategy"]]
        varying = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in flat.items()
            if key.partition(".")[0] not in apart
            and value != "null"
            and len({other[key] for other in alike if key in other} - {"tuned"}) > 1
        ]
        names.append(" ".join([short_name(flat["strategy"]), *varying]))
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
    flats = [config.flat() for config in configs]
    same = {key: value for key, value in flats[0].items() if all(flat.get(key) == value for flat in flats)}
    uneven = " on average" if any(config.sampler.plugin == "dirichlet" for config in configs) else ""
    parts = [
        f"{short_name(same['benchmark'])}/{short_name(same['backbone'])}"
        if "benchmark" in same and "backbone" in same
        else "",
        f"on {short_name(same['target'])}" if same.get("target", SAME) != SAME else "",
        "base mean of the target" if same.get("base_mean") == "target" else "",
        f"weights {weights_name(configs[0])}" if same.get("checkpoint") or same.get("pretrained") else "",
        f"features of {weights_name(configs[0])}" if same.get("features") else "",
        f"{same['sampler.way']}-way" if "sampler.way" in same else "",
        f"{same['sampler.query']} queries a class{uneven}" if "sampler.query" in same else "",
        short_name(same["sampler"]) if same.get("sampler", "balanced") != "balanced" else "",
        f"{same['split']} classes" if "split" in same else "",
    ]
    return ", ".join(part for part in parts if part)
