"""Tables with their evidence: runs of the record, shipped results, verdicts, the best cells, and claims.

The runs are a frame that is merged with the cells on the cell key (`runs.tables.keys`). A run fills a cell if every
setting that can change its result is that of the cell's config, and so are the revisions of the classes that computed
it. The seed may be any where none is asked for. Of several runs of one seed the newest counts, and all cells on the
same data have those of the newest run.
"""

import dataclasses
import math
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from runs.cache import raised
from runs.config.configs import FairConfig
from runs.config.groups import names
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import revisions_of
from runs.tables.claims import findings_of
from runs.tables.claims.claim import Read
from runs.tables.claims.few_shot import gain
from runs.tables.judging import judged
from runs.tables.keys import cell_key, features_here, settings_of
from runs.tables.shipped import shipped_results
from runs.tables.table import Cell, SeedResult, Table

if TYPE_CHECKING:
    from runs.track import Tracker

NAMED = 3  # runs named of those that a cell leaves out for one reason, the newest ones
EXPERIMENTS = {"evaluation": "evaluate/", "clustering": "cluster/", "fair": "fair/"}  # their prefixes, by stage
DATA = ("benchmark", "target", "features", "prompt", "dataset")  # groups of settings that decide the data of a config
METHOD = ("strategy", "tuning", "backbone", "training", "checkpoint")
"""Groups of settings in which cells that are compared task by task may differ."""


def look_up(table: Table, tracker: "Tracker", record: "Record | None" = None) -> Table:
    """The table with its runs in the record, their verdicts, and the claims checked on them.

    A paper's table also has the shipped results: a claim that the user's runs do not decide gets their finding. Claims
    are about papers' tables and the project's experiments, not about an experiment of the user.

    Args:
        record: the runs, if they were read before.
    """
    record = record or Record.of(table, tracker)
    table = with_best(record.filled(table), record.files)
    findings = []
    if table.is_paper or table.name.partition("@")[0] in names("experiment"):
        findings = findings_of(table, record.files)
    ours = shipped_results() if table.compares and not table.seeds else None
    if ours is not None:
        table, settled = ours.filled(table)
        decided = {(one.claim, one.setting) for one in findings if one.status != "not run"}
        settled = [one for one in settled if (one.claim, one.setting) not in decided]
        claims = {one.claim for one in settled}
        findings = [one for one in findings if one.status != "not run" or one.claim not in claims] + settled
    return dataclasses.replace(judged(table) if table.is_paper else table, findings=tuple(findings))


class Record:
    """Finished runs of the record, as a frame with a row for each run and cell that it may fill.

    Args:
        runs: newest first.
        tracker: their record.
    """

    def __init__(self, runs: Iterable[RunRow], tracker: "Tracker") -> None:
        self._tracker = tracker
        self._files: dict[str, Any] = {}
        rows = [(key, _data(run), run.start, run) for run in runs for key in run.tags.get("cell", "").split()]
        self._runs = pd.DataFrame(rows, columns=["cell", "data", "start", "run"])

    @classmethod
    def of(cls, table: Table, tracker: "Tracker") -> "Record":
        """The runs of the benchmarks and data sets that a table is about."""
        known = defaultdict(set)
        for config in (cell.config for cell in table.cells if cell.config):
            known[_stage(config)].add(_of_data(config).name)
        runs: list[RunRow] = []
        for stage, of_stage in known.items() if tracker.exists() else ():
            data = "benchmark" if stage == "evaluation" else "dataset"
            runs += read_runs(tracker, EXPERIMENTS[stage], tags={"stage": [stage], data: sorted(of_stage)})
        return cls(runs, tracker)

    def filled(self, table: Table) -> Table:
        """The table with these runs in its cells, and with notes on the runs left out."""
        configs = {i: cell.config for i, cell in enumerate(table.cells) if cell.config}
        if not configs or self._runs.empty:
            return table
        wanted = pd.DataFrame(
            [
                # Features that are not there count by the names of their files, so that runs elsewhere are found.
                {"place": i, "cell": cell_key(config, features_here(config)), "of": _settings_of_data(config)}
                for i, config in configs.items()
            ]
        )
        found = wanted.merge(self._runs, on="cell").sort_values("start", ascending=False, kind="stable")
        newest = found[found["data"] != ""].drop_duplicates("of").set_index("of")["data"]
        found["on_newest"] = found["data"] == found["of"].map(newest).fillna("")
        notes, cells = dict.fromkeys(table.notes), list(table.cells)
        for i, candidates in found.groupby("place"):
            place = int(str(i))
            runs = list(zip(candidates["run"], candidates["on_newest"], strict=True))
            results, said = self._results(cells[place], runs, set(map(str, table.seeds)))
            cells[place] = dataclasses.replace(cells[place], results=results)
            notes |= dict.fromkeys(said)
        return dataclasses.replace(table, cells=tuple(cells), notes=tuple(notes))

    def _results(
        self, cell: Cell, runs: Iterable[tuple[RunRow, bool]], seeds: set[str]
    ) -> tuple[tuple[SeedResult, ...], list[str]]:
        """One result a seed, of its newest run, and notes; the runs are newest first, each with whether its data are
        those of the newest run."""
        assert cell.config
        config, revisions = cell.config, raised(revisions_of(cell.config))
        where = f"{cell.row_name}, {cell.column_name if cell.few_shot else _of_data(config).name}"
        chosen: dict[int, SeedResult] = {}
        aside, notes = defaultdict(list), []
        for run, on_newest in runs:
            seed = run.params.get("seed", "")
            if seeds and seed not in seeds:
                continue
            value, as_printed = self._values(cell, run)
            if run.tags.get("revisions", "") != revisions:
                aside["the code has changed since, or a file it names; run it again"].append(run.run_id)
            elif not is_seed(seed) or not abs(value) < sys.float_info.max:  # MLflow's infinity
                aside[f"without a seed or {cell.metric}"].append(run.run_id)
            elif not on_newest:
                aside["on other images or points than the newest run"].append(run.run_id)
            elif int(seed) in chosen:
                aside[f"{chosen[int(seed)].run_id} is newer (seed {seed})"].append(run.run_id)
            elif cell.few_shot and cell.scored and cell.scored not in run.metrics:
                aside[f"without {cell.scored}"].append(run.run_id)
            else:
                width, tasks = (_finite(run.metrics.get(name, math.nan)) for name in (f"{cell.metric}_ci95", "tasks"))
                count = 0 if math.isnan(tasks) else int(tasks)
                found = SeedResult(int(seed), value, width, count, run.run_id, run.artifact_uri, as_printed)
                chosen[found.seed] = found
                if cell.few_shot and cell.few_shot.tuned:
                    grids = cell.few_shot.strategy.grids
                    values = " ".join(f"{name}={run.params.get(f'strategy.{name}')}" for name in grids)
                    tuned = f"tuned by {cell.few_shot.tuning} (seed {seed}, run {run.tags.get('tuning_run')})"
                    notes.append(f"{where}: {values}, {tuned}")
        for reason, ids in aside.items():
            more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
            notes.append(f"{where}: run{'s' if ids[1:] else ''} {' '.join(ids[:NAMED])}{more} left out, {reason}")
        return tuple(chosen[seed] for seed in sorted(chosen)), notes

    def _values(self, cell: Cell, run: RunRow) -> tuple[float, float]:
        """The metric of a run for a cell, and the metric that the paper printed; NaN where there is none.

        On a path of weights, the first is at the smallest weight that reaches the least error, the second at the
        printed weight.
        """
        if not cell.fair:
            return run.metrics.get(cell.metric, math.nan), _finite(run.metrics.get(cell.scored, math.nan))
        path = self._file(cell, run.run_id, run.artifact_uri)
        if path is None:
            return math.nan, math.nan
        value = path.metrics(path.chosen).get(cell.metric, math.nan)
        if cell.on_path is None:
            return value, math.nan
        weight, metric = cell.on_path
        steps = [path.chosen]  # of a rival, whose only weight is NaN
        if weight is not None:
            steps = [step for step, one in enumerate(path.weights) if math.isclose(one, weight)]
        return value, path.metrics(steps[0]).get(metric, math.nan) if steps else math.nan

    def files(self, cell: Cell) -> dict[int, Any]:
        """By seed, what the runs of a cell have saved: scores task by task, trials of a clustering, or the path of a
        fair one; without those whose file is damaged."""
        found = {one.seed: self._file(cell, one.run_id, one.artifacts, one.value) for one in cell.results}
        return {seed: content for seed, content in found.items() if content is not None}

    def _file(self, cell: Cell, run_id: str, artifacts: str, value: float = math.nan) -> Any:
        """The content of the file of a run, read once; None with a message if it is missing or damaged."""
        from runs.stages.clustering.results import TRIALS, Trials
        from runs.stages.fair.results import PATH, TradeOff
        from runs.stages.results import PER_TASK, recorded_evaluation

        if run_id not in self._files:
            name, load = (PATH, TradeOff.load) if cell.fair else (TRIALS, Trials.load)
            try:
                if cell.few_shot:
                    name = PER_TASK
                    self._files[run_id] = recorded_evaluation(self._tracker, run_id, value, artifacts)
                else:
                    self._files[run_id] = self._tracker.read(run_id, name, load, artifacts)
            except ValueError as error:
                self._files[run_id] = None
                lost = "no claim is checked on it, and of a path of weights no cell is filled"
                self._tracker.say(f"{name} of run {run_id} is no longer whole ({error}): {lost}")
        return self._files[run_id]


def with_best(table: Table, read: Read) -> Table:
    """The table with `best` set for the cell of each column that is significantly better, task by task, than every
    other cell, if there is one."""
    best = [_best([cell for cell in table.cells if cell.column_key == column], read) for column in table.columns]
    return table.mapped(lambda cell: {"best": any(cell is one for one in best)})


def _best(column: list[Cell], read: Read) -> Cell | None:
    filled = [cell for cell in column if cell.results and cell.few_shot and cell.metric == "accuracy"]
    settings = [settings_of(cell.few_shot) for cell in filled if cell.few_shot]
    tasks = [{name: text for name, text in one.items() if name.partition(".")[0] not in METHOD} for one in settings]
    if len(filled) < 2 or any(other != tasks[0] for other in tasks):
        return None  # metrics other than the accuracy have no value for each task
    first = max(filled, key=lambda cell: cell.value)
    mine = read(first)
    gains = (gain(mine, read(cell)) for cell in filled if cell is not first)
    return first if all(difference is not None and difference.above() == "holds" for difference in gains) else None


def _data(run: RunRow) -> str:
    """Fingerprints of the data of a run, and of its target if it has one; or of given features."""
    if run.params.get("features", "None") != "None":
        return run.tags.get("features", "")
    return f"{run.tags.get('data', '')} {run.tags.get('target_data', '')}".strip()


def _stage(config: Any) -> str:
    return "fair" if isinstance(config, FairConfig) else "clustering" if hasattr(config, "dataset") else "evaluation"


def _of_data(config: Any) -> Any:
    """The benchmark or data set of a config."""
    return config.benchmark if _stage(config) == "evaluation" else config.dataset


def _settings_of_data(config: Any) -> str:
    """The settings that decide which images or points a config uses."""
    return str({name: text for name, text in settings_of(config).items() if name.partition(".")[0] in DATA})


def is_seed(text: str) -> bool:
    """Whether a parameter of a run is a seed. It may come from a stranger: Python refuses numbers of many digits."""
    return text.isdecimal() and len(text) < 20


def _finite(value: float) -> float:
    return value if abs(value) < sys.float_info.max else math.nan
