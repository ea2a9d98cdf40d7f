"""Fill the cells of a table with runs of the record.

A run fills a cell if every key that can change its result agrees with the config of the cell, and so do the revisions
of the classes that computed it. The seed may be any where none is asked for. Tags only pre-filter. Of several such runs
of one seed the newest counts.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cache import raised
from runs.config.base import PLACES, top_level
from runs.config.configs import EvaluateConfig
from runs.config.groups import SAME
from runs.config.overrides import values
from runs.config.schemas import CROSSING, TASKS
from runs.record.query import RunRow, Tags, read_runs
from runs.record.run_folders import RunFolders
from runs.stages.given_features import given_fingerprint
from runs.stages.lineage import revisions_of
from runs.tables.clusterings import STAGES, Clusterings, is_seed
from runs.tables.run_files import RunFiles
from runs.tables.table import Cell, Column, Near, Row, SeedResult, Table

if TYPE_CHECKING:
    from runs.track import Tracker

NEAR = 3  # keys in which a run may differ and still be near
NAMED = 3  # runs named of those that a cell leaves out for one reason, the newest ones


def filled(table: Table, tracker: "Tracker") -> Table:
    """The table with the finished runs of the record in its cells. Reads the runs of its benchmarks once."""
    return Record.of(table, tracker).filled(table)


class Record:
    """Finished runs of the record, indexed by their configs.

    Args:
        runs: newest first.
        tracker: their record.

    Attributes:
        files: the files of its runs.
    """

    def __init__(self, runs: Iterable[RunRow], tracker: RunFolders) -> None:
        self._clusterings, self.files = Clusterings(), RunFiles(tracker)
        self._by_keys: dict[str, list[RunRow]] = {}
        self._alike: dict[tuple[str, ...], list[tuple[Mapping[str, str], RunRow]]] = {}
        for run in runs:
            if run.tags.get("stage") in STAGES:
                self._clusterings.add(run)
                continue
            for keys in _of_run(run):
                for series in _in_series(keys, run.params.get("seed", "")):
                    self._by_keys.setdefault(_signature(series), []).append(run)
                self._alike.setdefault(_kind(keys), []).append((keys, run))

    @classmethod
    def of(cls, table: Table, tracker: "Tracker") -> "Record":
        """The runs of the benchmarks that a table is about."""
        benchmarks = {cell.few_shot.benchmark.name for cell in table.cells.values() if cell.few_shot}
        clustered = [cell.clustering or cell.fair for cell in table.cells.values()]
        datasets = {config.dataset.name for config in clustered if config}
        runs: list[RunRow] = []
        if benchmarks:
            tags = {"stage": ["evaluation"], "benchmark": sorted(benchmarks)}
            runs += _existing(tracker, "evaluate/", tags=tags)
        if datasets:
            for stage, begin in STAGES.items():
                runs += _existing(tracker, begin, tags={"stage": [stage], "dataset": sorted(datasets)})
        return cls(runs, tracker)

    def filled(self, table: Table) -> Table:
        """The table with these runs in its cells, and with notes on the runs left out."""
        notes: list[str] = list(table.notes)
        keys = {place: result_keys(cell.few_shot) for place, cell in table.cells.items() if cell.few_shot}
        runs = {place: self._by_keys.get(_signature(of_cell), []) for place, of_cell in keys.items()}
        images = _newest_images(keys, runs)
        cells = dict(table.cells)
        asked = [str(seed) for seed in table.seeds]
        for place, of_cell in keys.items():
            row, column = place
            known = [run for run in runs[place] if not asked or run.params.get("seed") in asked]
            on = images[_data(of_cell)]
            where, say = f"{row}, {column}", notes.append
            results = _one_by_seed(cells[place], known, on, column.metric, where, say)
            near = None if results else self._near(of_cell, column.metric)
            cells[place] = dataclasses.replace(_with(cells[place], results), near=near)
        for place, cell in table.cells.items():
            clustered = cell.clustering or cell.fair
            if clustered:
                row, column = place
                where = f"{row.name}, {clustered.dataset.name}"  # the cells of one run have one note
                values = functools.partial(self._values, cell, column.metric)
                results = self._clusterings.results(clustered, values, asked, where, notes)
                cells[place] = _with(cell, results)
        return dataclasses.replace(table, cells=cells, notes=tuple(dict.fromkeys(notes)))

    def _values(self, cell: Cell, metric: str, run: RunRow) -> tuple[float, float]:
        """The metric of a clustering for a cell, and the metric that the paper printed; NaN where there is none.

        On a path of weights, the first is at the smallest weight that reaches the least error, the second at the
        printed weight.
        """
        if not cell.fair:
            return run.metrics.get(metric, math.nan), run.metrics.get(cell.scored, math.nan)
        path, on_path = self.files.trade_off(run.run_id, run.artifact_uri), cell.on_path
        if path is None:
            return math.nan, math.nan
        value = path.metrics(path.chosen).get(metric, math.nan)
        if on_path is None:
            return value, math.nan
        steps = [path.chosen]  # of a rival, whose only weight is NaN
        if on_path.weight is not None:
            steps = [step for step, weight in enumerate(path.weights) if math.isclose(weight, on_path.weight)]
        printed = path.metrics(steps[0]).get(on_path.metric, math.nan) if steps else math.nan
        return value, printed

    def _near(self, keys: Mapping[str, str], metric: str) -> Near | None:
        """The run of the same method, data and network that differs in the fewest keys; the newest of several."""
        best: tuple[int, Near] | None = None
        for of_run, run in self._alike.get(_kind(keys), []):
            differs = differences(of_run, keys)
            if 0 < len(differs) <= NEAR and metric in _numbers(run) and (best is None or len(differs) < best[0]):
                best = len(differs), Near(differs, run.metrics[metric], run.run_id)
        return best[1] if best else None


def _existing(tracker: "Tracker", prefix: str, *, tags: Tags) -> list[RunRow]:
    return read_runs(tracker, prefix, tags=tags) if tracker.exists() else []


def differences(other: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Where two configs differ, as in "tasks=1000, not 10000". Of a group that differs only the name is given, and of
    weights that were given in the place of a training only their fingerprint."""
    keys = sorted(key for key in other.keys() | wanted.keys() if other.get(key) != wanted.get(key))
    whole = {key.removesuffix(".name") for key in keys if "." not in key or key.endswith(".name")}
    whole |= {"training"} if "checkpoint" in keys else set()
    spelt = []
    for key in keys:
        name = key.removesuffix(".name")
        if name == key and key.partition(".")[0] in whole and "." in key:
            continue
        spelt.append(f"{name}={other.get(key, 'null')}, not {wanted.get(key, 'null')}")
    return tuple(dict.fromkeys(spelt))


def _with(cell: Cell, results: Sequence[SeedResult]) -> Cell:
    """The cell with its results."""
    return dataclasses.replace(cell, results=tuple(results))


def _one_by_seed(
    cell: Cell,
    runs: Sequence[RunRow],
    images: tuple[str, str],
    metric: str,
    where: str,
    say: Callable[[str], None],
) -> tuple[SeedResult, ...]:
    """One result a seed; `runs` are newest first."""
    config = cell.few_shot
    assert config is not None
    chosen: dict[int, SeedResult] = {}
    aside: dict[str, list[str]] = {}  # by reason
    wanted = raised(revisions_of(config)) if runs else ""
    for run in runs:
        seed, tags, metrics = run.params.get("seed", ""), run.tags, _numbers(run)
        if not is_seed(seed):
            aside.setdefault("without a seed", []).append(run.run_id)
        elif _images(run) != images:
            aside.setdefault("on other images than the newest run", []).append(run.run_id)
        elif tags.get("revisions", "") != wanted:
            aside.setdefault("the code has changed since, or a file it names; evaluate again", []).append(run.run_id)
        elif int(seed) in chosen:
            aside.setdefault(f"{chosen[int(seed)].run_id} is newer (seed {seed})", []).append(run.run_id)
        elif metric not in metrics:
            aside.setdefault(f"without {metric}", []).append(run.run_id)
        elif cell.scored and cell.scored not in run.metrics:
            aside.setdefault(f"without {cell.scored}", []).append(run.run_id)
        else:
            width, scored = (metrics.get(name, math.nan) for name in (f"{metric}_ci95", cell.scored))
            tasks = int(metrics.get("tasks", 0))
            result = SeedResult(int(seed), metrics[metric], width, tasks, run.run_id, run.artifact_uri, scored)
            chosen[result.seed] = result
            if config.tuned:
                values = " ".join(f"{name}={run.params.get(f'strategy.{name}')}" for name in config.strategy.grids)
                say(f"{where}: {values}, tuned by {config.tuning} (seed {seed}, run {tags.get('tuning_run')})")
    for reason, ids in aside.items():
        more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
        say(f"{where}: run{'s' if ids[1:] else ''} {' '.join(ids[:NAMED])}{more} left out, {reason}")
    return tuple(chosen[seed] for seed in sorted(chosen))


def _numbers(run: RunRow) -> dict[str, float]:
    """The metrics of a run that are finite; the largest float is what MLflow makes of infinity."""
    return {name: value for name, value in run.metrics.items() if abs(value) < sys.float_info.max}


def _newest_images(
    keys: Mapping[tuple[Row, Column], Mapping[str, str]], runs: Mapping[tuple[Row, Column], Sequence[RunRow]]
) -> dict[tuple[str, ...], tuple[str, str]]:
    """Fingerprints of the images for all cells of one benchmark and target, so that they can be compared: those of the
    newest run."""
    newest: dict[tuple[str, ...], RunRow] = {}
    for place, of_cell in keys.items():
        for run in [run for run in runs[place] if "data" in run.tags][:1]:
            known = newest.get(_data(of_cell))
            if known is None or run.start > known.start:
                newest[_data(of_cell)] = run
    return {
        _data(of_cell): _images(newest[_data(of_cell)]) if _data(of_cell) in newest else ("", "")
        for of_cell in keys.values()
    }


def _data(kept: Mapping[str, str]) -> tuple[str, ...]:
    """Keys that decide which images, or given features, a config uses."""
    return tuple(sorted(f"{key}={text}" for key, text in kept.items() if key.partition(".")[0] in _DATA))


def _of_run(run: RunRow) -> list[dict[str, str]]:
    """The keys of a run; of given features twice, with their content and with the names of their files. An imported run
    whose features are not noted, or cannot be read, has none."""
    params = {**run.params, **_BY_CONTENT, "checkpoint": run.tags.get("weights") or None}
    if not _has_features(run):
        return [_kept({**params, "features": None})]
    if not run.tags.get("features"):
        return []
    try:
        (typed,) = values("features", run.params["features"])
    except ValueError:  # among them InputError
        return []
    files = typed.value if isinstance(typed.value, list) else [typed.value]
    return [_kept({**params, "features": one}) for one in (run.tags.get("features"), file_names(map(str, files)))]


def _has_features(run: RunRow) -> bool:
    return run.params.get("features", "None") != "None"


def result_keys(config: EvaluateConfig) -> dict[str, str]:
    """What can change the result of a config, less the seed: flat keys as text. A preset counts by its values, as it
    does in identities; files of weights and features by their content. Files of features that are not there count by
    their names, so that runs from another machine are found."""
    features = None
    if config.features is not None:
        files = config.feature_files
        features = file_names(files) if config.lacks_features else given_fingerprint(files, config.split, config.prompt)
    tuning = config.tuning if config.tuned else None
    known = {"tuning": tuning, "checkpoint": config.weights, "features": features}
    return _kept({**config.flat(), **_BY_CONTENT, **known})


def file_names(files: Iterable[str]) -> str:
    """The names of files of features without their folders."""
    return ",".join(Path(file).name for file in files)


def _in_series(keys: dict[str, str], seed: str) -> list[dict[str, str]]:
    """The keys of a run, for each series of seeds that it belongs to.

    A run whose tasks are drawn from its own seed belongs to two: one in which each seed has its own tasks, and one with
    this `task_seed`.
    """
    if keys.get("task_seed", seed) != seed:
        return [keys]
    return [{name: value for name, value in keys.items() if name != "task_seed"}, keys | {"task_seed": seed}]


_BY_CONTENT = {"checkpoint": None, "pretrained": None}  # weights count by content, not by file


@functools.cache
def _ignored() -> frozenset[str]:
    execution = {field.name for field in top_level(EvaluateConfig) if field.metadata["execution"]}
    return frozenset({"seed", "training", "audit", *execution})  # an audit does not change the result


_PRESETS = ("strategy", "sampler", "target")
_DATA = ("benchmark", "target", "features", "prompt")


def _kept(keys: Mapping[str, Any]) -> dict[str, str]:
    """The flat keys, of a config or of the parameters of a run, that can change the result."""
    here = keys.get("target", SAME) == SAME
    ignored = _ignored()
    kept: dict[str, str] = {}
    for name, value in keys.items():
        group, _, field = name.partition(".")
        if name in ignored or name in _PRESETS or field in PLACES or value is None or str(value) == "None":
            continue
        if here and group in CROSSING:
            continue
        kept[name] = str(value)
    # A run records the chosen value and the values tuning chose from; a config has only the latter.
    for name in [name for name in kept if name.startswith("tuning.")]:
        kept[f"strategy.{name.removeprefix('tuning.')}"] = kept.pop(name)
    for group in _PRESETS:
        if not (here and group in CROSSING):
            kept[f"{group}.name"] = str(keys.get(f"{group}.name", keys.get(group)))
    kept.setdefault("tasks", str(TASKS))
    return kept


def _signature(kept: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={kept[name]}" for name in sorted(kept))


def _kind(kept: Mapping[str, str]) -> tuple[str, ...]:
    """Keys that are equal for two runs of the same method, data, network and kind of tasks."""
    data = ("benchmark", "features", "prompt", "target.name", "backbone")
    names = ("strategy.name", *data, "sampler.name", "sampler.shot", "split")
    return tuple(kept.get(name, "") for name in names)


def _images(run: RunRow) -> tuple[str, str]:
    """Fingerprints of the images of a run: of its benchmark, and of its target if it has one; or of given features."""
    if _has_features(run):
        return run.tags.get("features", ""), ""
    return run.tags.get("data", ""), run.tags.get("target_data", "")
