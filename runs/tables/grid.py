"""The table of an experiment: strategies by kinds of tasks."""

from collections.abc import Sequence

from runs.config.configs import EvaluateConfig
from runs.config.groups import SAME
from runs.stages.lineage import short, short_name, weights_name
from runs.tables.table import Cell, Column, Row, Table


def table_of(name: str, configs: Sequence[EvaluateConfig]) -> Table:
    """The table of an experiment's configs, empty.

    Columns are what the samplers draw. Rows are strategies, with the other keys besides the seed that differ between
    the configs.
    """
    cells: dict[tuple[Row, Column], Cell] = {}
    for config, row, column in zip(configs, row_names(configs), column_names(configs), strict=True):
        # Those of equal place differ by seed only.
        cells.setdefault((Row(row, kind=kind_of(config)), Column(column)), Cell(config))
    rows, columns = (tuple(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
    return Table(name, _about(configs), rows, columns, cells, tuple(configs))  # type: ignore[arg-type]


def kind_of(config: EvaluateConfig) -> str:
    """What the strategy declares of itself."""
    strategy = config.strategy.kind
    if not strategy.transductive:
        return "inductive"
    return "transductive, balanced" if strategy.assumes_balance else "transductive"


def row_names(configs: Sequence[EvaluateConfig], apart: Sequence[str] = ("seed", "sampler")) -> list[str]:
    """What each config's row is called: the strategy, and what else differs from other configs of that strategy, keys
    and groups in `apart` left out."""
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
    """What each config's column is called: its shots, its sampler where there are several, and what else differs
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
    """What the cells have in common; what differs between them stands in the rows."""
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
