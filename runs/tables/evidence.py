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
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from fsl.evaluation.scores import Evaluation
from runs.cache import raised
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.config.groups import names
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import revisions_of
from runs.tables.claims import findings_of
from runs.tables.claims.claim import Read
from runs.tables.claims.few_shot import gain
from runs.tables.judging import judged
from runs.tables.keys import Config, cell_key, features_here, settings_of
from runs.tables.shipped import shipped_results
from runs.tables.table import Cell, SeedResult, Table

if TYPE_CHECKING:
    from runs.track import Tracker

NAMED = 3  # runs named of those that a cell leaves out for one reason, the newest ones
STAGES = {  # by class of configs: the prefix of experiments, the stage of runs, and the key of their data
    EvaluateConfig: ("evaluate/", "evaluation", "benchmark"),
    ClusterConfig: ("cluster/", "clustering", "dataset"),
    FairConfig: ("fair/", "fair", "dataset"),
}
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
    claimed = table.is_paper or table.name.partition("@")[0] in names("experiment")
    findings = findings_of(table, record.files) if claimed else []
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
        runs: list[RunRow] = []
        for kind, (prefix, stage, data) in STAGES.items():
            known = {_data_of(cell.config).name for cell in table.cells if cell.config and type(cell.config) is kind}
            runs += read_runs(tracker, prefix, tags={"stage": [stage], data: sorted(known)}) if known else []
        return cls(runs, tracker)

    def filled(self, table: Table) -> Table:
        """The table with these runs in its cells, and with notes on the runs left out."""
        # Features that are not there count by the names of their files, so that runs elsewhere are found.
        wanted = [
            (i, cell_key(cell.config, features_here(cell.config)), _settings(cell.config, DATA, within=True))
            for i, cell in enumerate(table.cells if len(self._runs) else ())
            if cell.config
        ]
        found = pd.DataFrame(wanted, columns=["place", "cell", "of"]).merge(self._runs, on="cell")
        found = found.sort_values("start", ascending=False, kind="stable")
        newest = found[found["data"] != ""].drop_duplicates("of").set_index("of")["data"]
        found["on_newest"] = found["data"] == found["of"].map(newest).fillna("")
        notes, cells = dict.fromkeys(table.notes), list(table.cells)
        for place, runs in found.groupby("place"):
            i, candidates = int(str(place)), zip(runs["run"], runs["on_newest"], strict=True)
            results = self._results(cells[i], candidates, set(map(str, table.seeds)), notes)
            cells[i] = dataclasses.replace(cells[i], results=results)
        return dataclasses.replace(table, cells=tuple(cells), notes=tuple(notes))

    def _results(
        self, cell: Cell, runs: Iterable[tuple[RunRow, bool]], seeds: set[str], notes: dict[str, None]
    ) -> tuple[SeedResult, ...]:
        """One result a seed, of its newest run; the runs are newest first, each with whether its data are those of the
        newest run. Adds notes on runs that are left out, and on tuned values."""
        assert cell.config
        few_shot, revisions = cell.few_shot, raised(revisions_of(cell.config))
        where = f"{cell.row_name}, {cell.column_name if few_shot else _data_of(cell.config).name}"
        chosen: dict[int, SeedResult] = {}
        aside = defaultdict(list)
        for run, on_newest in runs:
            seed = run.tags.get("seed", "")
            if seeds and seed not in seeds:
                continue
            value, as_printed = self._values(cell, run)
            if run.tags.get("revisions", "") != revisions:
                aside["the code has changed since, or a file it names; run it again"].append(run.run_id)
            elif not (seed.isdecimal() and len(seed) < 20 and abs(value) < sys.float_info.max):
                # Python refuses numbers of many digits, which any run may have; the largest float is MLflow's infinity
                aside[f"without a seed or {cell.metric}"].append(run.run_id)
            elif not on_newest:
                aside["on other images or points than the newest run"].append(run.run_id)
            elif int(seed) in chosen:
                aside[f"{chosen[int(seed)].run_id} is newer (seed {seed})"].append(run.run_id)
            elif few_shot and cell.scored and cell.scored not in run.metrics:
                aside[f"without {cell.scored}"].append(run.run_id)
            else:
                width, tasks = _metric(run, f"{cell.metric}_ci95"), _metric(run, "tasks")
                count = 0 if math.isnan(tasks) else int(tasks)
                place = run.run_id, run.artifact_uri
                chosen[int(seed)] = SeedResult(int(seed), value, width, count, *place, as_printed)
                if few_shot and few_shot.tuned:
                    values = (f"{name}={run.params.get(f'strategy.{name}')}" for name in few_shot.strategy.grids)
                    tuned = f"tuned by {few_shot.tuning} (seed {seed}, run {run.tags.get('tuning_run')})"
                    notes[f"{where}: {' '.join(values)}, {tuned}"] = None
        for reason, ids in aside.items():
            more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
            notes[f"{where}: run{'s' if ids[1:] else ''} {' '.join(ids[:NAMED])}{more} left out, {reason}"] = None
        return tuple(chosen[seed] for seed in sorted(chosen))

    def _values(self, cell: Cell, run: RunRow) -> tuple[float, float]:
        """The metric of a run for a cell, and the metric that the paper printed; NaN where there is none.

        On a path of weights, the first is at the smallest weight that reaches the least error, the second at the
        printed weight.
        """
        if not cell.fair:
            return run.metrics.get(cell.metric, math.nan), _metric(run, cell.scored)
        path = self._file(cell, run.run_id, run.artifact_uri)
        if path is None:
            return math.nan, math.nan
        weight, metric = cell.on_path or (None, "")
        steps = [path.chosen]  # of a rival, whose only weight is NaN
        if weight is not None:
            steps = [step for step, one in enumerate(path.weights) if math.isclose(one, weight)]
        as_printed = path.metrics(steps[0]).get(metric, math.nan) if steps else math.nan
        return path.metrics(path.chosen).get(cell.metric, math.nan), as_printed

    def files(self, cell: Cell) -> dict[int, Any]:
        """By seed, what the runs of a cell have saved: scores task by task, trials of a clustering, or the path of a
        fair one; without those whose file is damaged."""
        found = {one.seed: self._file(cell, one.run_id, one.artifacts, one.value) for one in cell.results}
        return {seed: content for seed, content in found.items() if content is not None}

    def _file(self, cell: Cell, run_id: str, artifacts: str, value: float = math.nan) -> Any:
        """The content of the file of a run, read once; None with a message if it is missing or damaged."""
        from runs.stages.clustering.results import TRIALS, Trials
        from runs.stages.fair.results import PATH, TradeOff
        from runs.stages.results import PER_TASK

        if run_id not in self._files:
            name, form = (
                (PER_TASK, Evaluation) if cell.few_shot else (PATH, TradeOff) if cell.fair else (TRIALS, Trials)
            )
            try:
                content: Any = self._tracker.read(run_id, name, form.load, artifacts)
                if isinstance(content, Evaluation) and not math.isclose(content.accuracy, value, rel_tol=1e-6):
                    raise ValueError("changed")
                self._files[run_id] = content
            except ValueError as error:
                self._files[run_id] = None
                lost = "no claim is checked on it, and of a path of weights no cell is filled"
                self._tracker.say(f"{name} of run {run_id} is no longer whole ({error}): {lost}")
        return self._files[run_id]


def with_best(table: Table, read: Read) -> Table:
    """The table with `best` set for the cell of each column that is significantly better, task by task, than every
    other cell, if there is one."""
    filled = [cell for cell in table.cells if cell.results]
    best = [_best([cell for cell in filled if cell.column_key == column], read) for column in table.columns]
    return table.mapped(lambda cell: {"best": any(cell is one for one in best)}) if any(best) else table


def _best(column: list[Cell], read: Read) -> Cell | None:
    filled = [cell for cell in column if cell.few_shot and cell.metric == "accuracy"]
    tasks = {_settings(cell.config, METHOD, within=False) for cell in filled}
    if len(filled) < 2 or len(tasks) > 1:
        return None  # metrics other than the accuracy have no value for each task
    first = max(filled, key=lambda cell: cell.value)
    mine = read(first)
    gains = (gain(mine, read(cell)) for cell in filled if cell is not first)
    return first if all(difference is not None and difference.above() == "holds" for difference in gains) else None


def _data_of(config: Config) -> Any:
    """The benchmark or data set of a config."""
    return getattr(config, STAGES[type(config)][2])


def _data(run: RunRow) -> str:
    """Fingerprints of the data of a run, and of its target if it has one; or of given features."""
    if "features" in run.params:
        return run.tags.get("features", "")
    return f"{run.tags.get('data', '')} {run.tags.get('target_data', '')}".strip()


def _settings(config: Any, groups: Collection[str], *, within: bool) -> str:
    """The settings of a config within some groups, or outside of them."""
    kept = sorted(item for item in settings_of(config).items() if (item[0].partition(".")[0] in groups) == within)
    return str(kept)


def _metric(run: RunRow, name: str) -> float:
    """A metric of a run; NaN if it has none, or none that is finite."""
    value = run.metrics.get(name, math.nan)
    return value if abs(value) < sys.float_info.max else math.nan
