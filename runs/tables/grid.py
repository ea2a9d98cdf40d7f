"""A grid of configs read back from the record: strategies by kinds of tasks, mean over seeds.

Nothing is evaluated here. A run fills a cell only if every key that can change its result agrees with the cell's
config, the seed aside; tags only pre-filter.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsl.scores import half_width_over_seeds
from runs.config import CROSSING, PLACES, TASKS, EvaluateConfig, top_level
from runs.groups import SAME
from runs.lineage import Lineage, short, short_name, weights_name

if TYPE_CHECKING:
    from runs.tracking import Tracker


@dataclass(frozen=True)
class SeedResult:
    """What one tracked run says: the accuracy and its interval are fractions."""

    seed: int
    accuracy: float
    ci95: float
    tasks: int
    run_id: str


@dataclass(frozen=True)
class Cell:
    """One cell: its config (with some seed) and the runs that fill it, one for each seed; none if it was not run."""

    config: EvaluateConfig
    results: tuple[SeedResult, ...] = ()

    @property
    def accuracy(self) -> float:
        """Mean over seeds, a fraction; NaN where there is no run."""
        return sum(r.accuracy for r in self.results) / len(self.results) if self.results else math.nan

    @property
    def ci95(self) -> float:
        """Half-width of the 95 % interval: over seeds (Student's t) where there are several, else over tasks, or
        the queries of the only one."""
        if len(self.results) == 1:
            return self.results[0].ci95
        return half_width_over_seeds([result.accuracy for result in self.results])

    @property
    def tasks(self) -> int:
        """Tasks over all seeds."""
        return sum(r.tasks for r in self.results)


@dataclass(frozen=True)
class Table:
    """Cells by row and column.

    Attributes:
        name: the experiment's name, or of its file without its ending.
        title: what all cells have in common.
        rows: names of the strategies, in the order of the experiment.
        columns: such as "1-shot" and "1-shot dirichlet".
        cells: (row, column) -> cell.
        kinds: what the strategy of each row declares: inductive, transductive, or transductive and for balanced
            queries.
        notes: what the reader should know: runs left aside and why.
    """

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    kinds: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> list[Cell]:
        """Cells without a run."""
        return [cell for cell in self.cells.values() if not cell.results]


def read_table(name: str, configs: Sequence[EvaluateConfig], tracker: "Tracker") -> Table:
    """The table of an experiment's configs, filled from the finished runs of the record.

    Columns are what the samplers draw. Rows are strategies, with the other keys besides the seed that differ between
    the configs.
    """
    runs = []
    for benchmark in dict.fromkeys(short(config.benchmark) for config in configs):
        runs += tracker.search(f"evaluate/{benchmark}", "tags.stage = 'evaluation'")
    by_keys: dict[str, list[Any]] = {}
    for run in runs:  # newest first
        weights = {"checkpoint": run.data.tags.get("weights") or None}  # by content, wherever the file lies
        by_keys.setdefault(_signature(run.data.params | weights), []).append(run)
    cells: dict[tuple[str, str], Cell] = {}
    notes: list[str] = []
    rows, columns = row_names(configs), column_names(configs)
    for config, row, column in zip(configs, rows, columns, strict=True):
        place = (row, column)
        if place not in cells:  # else it differs by seed only
            weights = {"checkpoint": config.result_keys().get("checkpoint")}
            found = by_keys.get(_signature(config.settled({}).flat() | weights), [])
            cells[place] = Cell(config, _one_by_seed(config, found, f"{row}, {column}", notes.append))
    return Table(
        name,
        _title(configs, cells),
        tuple(dict.fromkeys(rows)),
        tuple(dict.fromkeys(column for _, column in cells)),
        cells,
        {row: _kind(config) for config, row in zip(configs, rows, strict=True)},
        tuple(dict.fromkeys(notes)),
    )


def _kind(config: EvaluateConfig) -> str:
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


def _one_by_seed(
    config: EvaluateConfig, runs: Sequence[Any], cell: str, say: Callable[[str], None]
) -> tuple[SeedResult, ...]:
    """One result a seed; `runs` are newest first. A run counts only if this code would compute the same again: its
    identity covers the keys, the images, the checkpoint's recipe and the code."""
    chosen: dict[int, SeedResult] = {}
    images = _images(runs[0].data.tags) if runs else ("", "")
    for run in runs:
        seed, tags, run_id = int(run.data.params["seed"]), run.data.tags, run.info.run_id
        if _images(tags) != images:
            say(f"{cell}: run {run_id} left aside, it was on other images than the newest run")
        elif tags.get("identity") != _identity(dataclasses.replace(config, seed=seed), images):
            say(f"{cell}: run {run_id} left aside, the code has changed since; evaluate again")
        elif seed in chosen:
            say(f"{cell}: run {run_id} left aside, {chosen[seed].run_id} is newer (seed {seed})")
        else:
            m = run.data.metrics
            chosen[seed] = SeedResult(seed, m["accuracy"], m["accuracy_ci95"], int(m["tasks"]), run_id)
            if config.tuned:
                values = " ".join(f"{name}={run.data.params[f'strategy.{name}']}" for name in config.strategy.grids)
                say(f"{cell}: {values}, tuned by {config.tuning} (seed {seed}, run {tags.get('tuning_run')})")
    return tuple(chosen[seed] for seed in sorted(chosen))


def _signature(keys: Mapping[str, Any]) -> str:
    """What a config's flat keys, or a run's parameters, say about the result, less the seed. A preset counts by its
    values, as it does in identities."""
    presets = ("strategy", "sampler", "target")
    if keys.get("target", SAME) == SAME:
        keys = {name: value for name, value in keys.items() if name.partition(".")[0] not in CROSSING}
    ignored = {"seed", "training", *presets} | {f.name for f in top_level(EvaluateConfig) if f.metadata["execution"]}
    kept = {n: str(v) for n, v in keys.items() if n not in ignored and n.partition(".")[2] not in PLACES}
    # A run holds the chosen value, and beside it what tuning chose from; a config holds the latter alone.
    grids = [name for name in kept if name.startswith("tuning.")]
    kept |= {f"strategy.{name.removeprefix('tuning.')}": kept.pop(name) for name in grids}
    kept |= {f"{group}.name": str(keys.get(f"{group}.name", keys.get(group))) for group in presets}
    if kept["tasks"] == str(None):
        kept["tasks"] = str(TASKS)
    return "\n".join(f"{name}={kept[name]}" for name in sorted(kept) if kept[name] != str(None))


def _images(tags: Mapping[str, str]) -> tuple[str, str]:
    """Fingerprints of the images that a run stands on: of its benchmark, and of its target or nothing."""
    return tags.get("data", ""), tags.get("target_data", "")


def _identity(config: EvaluateConfig, images: tuple[str, str]) -> str:
    return Lineage.on(config, *images).evaluation(config)


def _title(configs: Sequence[EvaluateConfig], cells: Mapping[tuple[str, str], Cell]) -> str:
    """What the cells have in common; what differs between them stands in the rows."""
    flats = [config.flat() for config in configs]
    same = {key: value for key, value in flats[0].items() if all(flat.get(key) == value for flat in flats)}
    counts = {result.tasks for cell in cells.values() for result in cell.results}
    counts = counts or {config.tasks for config in configs if config.tasks}
    parts = [
        f"{short_name(same['benchmark'])}/{short_name(same['backbone'])}"
        if "benchmark" in same and "backbone" in same
        else "",
        f"on {short_name(same['target'])}" if same.get("target", SAME) != SAME else "",
        "base mean of the target" if same.get("base_mean") == "target" else "",
        f"weights {weights_name(configs[0])}" if same.get("checkpoint") else "",
        f"{same['sampler.way']}-way" if "sampler.way" in same else "",
        f"{same['sampler.query']} queries a class" if "sampler.query" in same else "",
        short_name(same["sampler"]) if same.get("sampler", "balanced") != "balanced" else "",
        f"{same['split']} classes" if "split" in same else "",
        f"{min(counts):,} task{'s' if counts != {1} else ''} a seed" if len(counts) == 1 else "",
    ]
    seeds = max((len(cell.results) for cell in cells.values()), default=0)
    one_task = any(result.tasks == 1 for cell in cells.values() for result in cell.results)
    spread = "over seeds" if seeds > 1 else "over queries" if one_task else "over tasks"
    return f"{', '.join(part for part in parts if part)}; accuracy in %, 95 % interval {spread}"
