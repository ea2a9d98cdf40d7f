"""Fill the cells of a table with runs of the record: a merge on the keys of `runs.tables.keys`.

A run fills a cell if every key that can change its result agrees with the config of the cell, and so do the revisions
of the classes that computed it. The seed may be any where none is asked for. Tags only pre-filter. Of several such runs
of one seed the newest counts.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from runs.cache import raised
from runs.config.configs import ClusterConfig, FairConfig
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import revisions_of
from runs.tables.keys import clustering_keys, has_features, keys_of_run, result_keys, selected_from, signature
from runs.tables.run_files import RunFiles
from runs.tables.table import Cell, Column, Row, SeedResult, Table

if TYPE_CHECKING:
    from runs.track import Tracker

NAMED = 3  # runs named of those that a cell leaves out for one reason, the newest ones
STAGES = {"clustering": "cluster/", "fair": "fair/"}
"""Stages of clusterings, with the prefixes of their experiments."""
DATA = ("benchmark", "target", "features", "prompt")
"""Keys that decide which images, or given features, a config uses."""
Place = tuple[Row, Column]


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

    def __init__(self, runs: Iterable[RunRow], tracker: "Tracker") -> None:
        self.files = RunFiles(tracker)
        self._by_keys: dict[str, list[RunRow]] = {}
        self._by_dataset: dict[tuple[str, str], list[RunRow]] = {}
        for run in runs:
            if run.tags.get("stage") in STAGES:
                self._by_dataset.setdefault((run.tags["stage"], run.tags.get("dataset", "")), []).append(run)
                continue
            for keys in keys_of_run(run):
                self._by_keys.setdefault(signature(keys), []).append(run)

    @classmethod
    def of(cls, table: Table, tracker: "Tracker") -> "Record":
        """The runs of the benchmarks that a table is about."""
        if not tracker.exists():
            return cls((), tracker)
        benchmarks = {cell.few_shot.benchmark.name for cell in table.cells.values() if cell.few_shot}
        clustered = [cell.clustering or cell.fair for cell in table.cells.values()]
        datasets = {config.dataset.name for config in clustered if config}
        runs: list[RunRow] = []
        if benchmarks:
            tags = {"stage": ["evaluation"], "benchmark": sorted(benchmarks)}
            runs += read_runs(tracker, "evaluate/", tags=tags)
        for stage, begin in STAGES.items() if datasets else ():
            runs += read_runs(tracker, begin, tags={"stage": [stage], "dataset": sorted(datasets)})
        return cls(runs, tracker)

    def filled(self, table: Table) -> Table:
        """The table with these runs in its cells, and with notes on the runs left out."""
        notes, cells, asked = list(table.notes), dict(table.cells), {str(seed) for seed in table.seeds}
        keys = {place: result_keys(cell.few_shot) for place, cell in cells.items() if cell.few_shot}
        data = {place: _data(of_cell) for place, of_cell in keys.items()}
        runs = {place: self._by_keys.get(signature(of_cell), []) for place, of_cell in keys.items()}
        images = _newest_images(data, runs)
        for place, cell in cells.items():
            if clustered := cell.clustering or cell.fair:
                runs[place] = self._clusterings(clustered)
        for (row, column), of_cell in runs.items():
            cell = cells[row, column]
            clustered = cell.clustering or cell.fair
            where = f"{row.name}, {clustered.dataset.name}" if clustered else f"{row}, {column}"
            known = [run for run in of_cell if not asked or run.params.get("seed") in asked]
            of_data = None if clustered else images.get(data[row, column], ("", ""))
            results = self._by_seed(cell, column.metric, known, of_data, where, notes.append)
            cells[row, column] = dataclasses.replace(cell, results=results)
        return dataclasses.replace(table, cells=cells, notes=tuple(dict.fromkeys(notes)))

    def _clusterings(self, config: ClusterConfig | FairConfig) -> list[RunRow]:
        """The clusterings with the keys of a config, newest first."""
        stage = "fair" if isinstance(config, FairConfig) else "clustering"
        alike = self._by_dataset.get((stage, config.dataset.name), [])
        keys = clustering_keys(config) if alike else {}
        return [run for run in alike if all(run.params.get(name) == value for name, value in keys.items())]

    def _by_seed(
        self,
        cell: Cell,
        metric: str,
        runs: Sequence[RunRow],
        data: tuple[str, str] | None,
        where: str,
        say: Callable[[str], None],
    ) -> tuple[SeedResult, ...]:
        """One result a seed, of its newest run; `runs` are newest first.

        Args:
            data: the fingerprints that count; None: those of the newest run.
        """
        if not runs or cell.config is None:
            return ()
        chosen: dict[int, SeedResult] = {}
        aside: dict[str, list[str]] = {}  # by reason
        wanted = raised(revisions_of(cell.config)), selected_from(cell.config)
        for run in runs:
            seed, revisions = run.params.get("seed", ""), run.tags.get("revisions", "")
            if not is_seed(seed):
                why = "without a seed"
            elif (revisions, run.tags.get("selected_from", "")) != wanted:
                why = "the code has changed since, or a file it names, or the selection; run it again"
            elif not abs((found := self._values(cell, metric, run))[0]) < sys.float_info.max:  # MLflow's infinity
                why = f"without {metric}"
            elif (data := data or _images(run)) != _images(run):
                why = "on other images or points than the newest run"
            elif int(seed) in chosen:
                why = f"{chosen[int(seed)].run_id} is newer (seed {seed})"
            elif cell.few_shot and cell.scored and cell.scored not in run.metrics:
                why = f"without {cell.scored}"
            else:
                width, tasks = (_finite(run.metrics.get(name, math.nan)) for name in (f"{metric}_ci95", "tasks"))
                tasks = 0 if math.isnan(tasks) else tasks
                result = SeedResult(int(seed), found[0], width, int(tasks), run.run_id, run.artifact_uri, found[1])
                chosen[result.seed] = result
                if cell.few_shot and cell.few_shot.tuned:
                    grids = cell.few_shot.strategy.grids
                    values = " ".join(f"{name}={run.params.get(f'strategy.{name}')}" for name in grids)
                    tuned = f"tuned by {cell.few_shot.tuning} (seed {seed}, run {run.tags.get('tuning_run')})"
                    say(f"{where}: {values}, {tuned}")
                continue
            aside.setdefault(why, []).append(run.run_id)
        for reason, ids in aside.items():
            more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
            say(f"{where}: run{'s' if ids[1:] else ''} {' '.join(ids[:NAMED])}{more} left out, {reason}")
        return tuple(chosen[seed] for seed in sorted(chosen))

    def _values(self, cell: Cell, metric: str, run: RunRow) -> tuple[float, float]:
        """The metric of a run for a cell, and the metric that the paper printed; NaN where there is none.

        On a path of weights, the first is at the smallest weight that reaches the least error, the second at the
        printed weight.
        """
        if not cell.fair:
            return run.metrics.get(metric, math.nan), _finite(run.metrics.get(cell.scored, math.nan))
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


def is_seed(text: str) -> bool:
    """Whether a parameter of a run is a seed. It may come from a stranger: Python refuses numbers of many digits."""
    return text.isdecimal() and len(text) < 20


def _finite(value: float) -> float:
    return value if abs(value) < sys.float_info.max else math.nan


def _newest_images(
    data: Mapping[Place, tuple[str, ...]], runs: Mapping[Place, Sequence[RunRow]]
) -> dict[tuple[str, ...], tuple[str, str]]:
    """Fingerprints of the images for all cells of one benchmark and target, so that they can be compared: those of the
    newest run."""
    newest: dict[tuple[str, ...], RunRow] = {}
    for place, of_cell in runs.items():
        for run in [run for run in of_cell if "data" in run.tags][:1]:
            if data[place] not in newest or run.start > newest[data[place]].start:
                newest[data[place]] = run
    return {of_cell: _images(run) for of_cell, run in newest.items()}


def _data(keys: Mapping[str, str]) -> tuple[str, ...]:
    """The keys that decide which images a cell uses."""
    return tuple(sorted(f"{key}={text}" for key, text in keys.items() if key.partition(".")[0] in DATA))


def _images(run: RunRow) -> tuple[str, str]:
    """Fingerprints of the data of a run, and of its target if it has one; or of given features."""
    if has_features(run):
        return run.tags.get("features", ""), ""
    return run.tags.get("data", ""), run.tags.get("target_data", "")
