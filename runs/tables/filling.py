"""Fill the cells of a table with runs of the record: a merge of two frames on the cell key (`runs.tables.keys`).

A run fills a cell if every setting that can change its result is that of the cell's config, and so are the revisions of
the classes that computed it. The seed may be any where none is asked for. Of several runs of one seed the newest
counts, and all cells on the same data have those of the newest run.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from runs.cache import raised
from runs.config.configs import FairConfig
from runs.record.query import RunRow, read_runs
from runs.stages.lineage import revisions_of
from runs.tables.keys import settings_of, wanted_key
from runs.tables.table import Cell, Column, Row, SeedResult, Table

if TYPE_CHECKING:
    from fsl.evaluation.scores import Evaluation
    from runs.stages.clustering.results import Trials
    from runs.stages.fair.results import TradeOff
    from runs.track import Tracker

NAMED = 3  # runs named of those that a cell leaves out for one reason, the newest ones
EXPERIMENTS = {"evaluation": "evaluate/", "clustering": "cluster/", "fair": "fair/"}  # their prefixes, by stage
DATA = ("benchmark", "target", "features", "prompt", "dataset")  # groups of settings that decide the data of a config


class Record:
    """Finished runs of the record, as a frame with a row for each run and cell that it may fill.

    Args:
        runs: newest first.
        tracker: their record.
    """

    def __init__(self, runs: Iterable[RunRow], tracker: "Tracker") -> None:
        self._tracker = tracker
        self._files: dict[str, Any] = {}
        rows = [(key, run.params.get("seed", ""), _data(run), run) for run in runs for key in _cells(run)]
        self._runs = pd.DataFrame(rows, columns=["cell", "seed", "data", "run"])

    @classmethod
    def of(cls, table: Table, tracker: "Tracker") -> "Record":
        """The runs of the benchmarks and data sets that a table is about."""
        names: dict[str, set[str]] = {}
        for config in (cell.config for cell in table.cells.values() if cell.config):
            names.setdefault(_stage(config), set()).add(_of_data(config).name)
        runs: list[RunRow] = []
        for stage, known in names.items() if tracker.exists() else ():
            data = "benchmark" if stage == "evaluation" else "dataset"
            runs += read_runs(tracker, EXPERIMENTS[stage], tags={"stage": [stage], data: sorted(known)})
        return cls(runs, tracker)

    def filled(self, table: Table) -> Table:
        """The table with these runs in its cells, and with notes on the runs left out."""
        places = [place for place, cell in table.cells.items() if cell.config]
        configs = [table.cells[place].config for place in places]
        if not configs or self._runs.empty:
            return table
        wanted = pd.DataFrame(
            {
                "place": range(len(places)),
                "cell": [wanted_key(config) for config in configs if config],
                "of": [_settings_of_data(config) for config in configs if config],
            }
        )
        found = wanted.merge(self._runs, on="cell")
        found["start"] = [run.start for run in found["run"]]
        found = found.sort_values("start", ascending=False, kind="stable")
        newest = found[found["data"] != ""].drop_duplicates("of").set_index("of")["data"]
        found["newest"] = found["of"].map(newest).fillna("")
        if table.seeds:
            found = found[found["seed"].isin(map(str, table.seeds))]
        notes, cells = list(table.notes), dict(table.cells)
        for i, candidates in found.groupby("place"):
            place = places[int(str(i))]
            results = self._by_seed(place, cells[place], candidates, notes.append)
            cells[place] = dataclasses.replace(cells[place], results=results)
        return dataclasses.replace(table, cells=cells, notes=tuple(dict.fromkeys(notes)))

    def _by_seed(
        self, place: tuple[Row, Column], cell: Cell, candidates: pd.DataFrame, say: Callable[[str], None]
    ) -> tuple[SeedResult, ...]:
        """One result a seed, of its newest run; candidates are newest first."""
        assert cell.config
        config, metric, revisions = cell.config, place[1].metric, raised(revisions_of(cell.config))
        where = f"{place[0]}, {place[1] if cell.few_shot else _of_data(config).name}"
        chosen: dict[int, SeedResult] = {}
        aside: dict[str, list[str]] = {}  # by reason
        for seed, data, newest, run in candidates[["seed", "data", "newest", "run"]].itertuples(index=False):
            found = self._values(cell, metric, run)
            if run.tags.get("revisions", "") != revisions:
                why = "the code has changed since, or a file it names; run it again"
            elif not is_seed(seed) or not abs(found[0]) < sys.float_info.max:  # MLflow's infinity
                why = f"without a seed or {metric}"
            elif data != newest:
                why = "on other images or points than the newest run"
            elif int(seed) in chosen:
                why = f"{chosen[int(seed)].run_id} is newer (seed {seed})"
            elif cell.few_shot and cell.scored and cell.scored not in run.metrics:
                why = f"without {cell.scored}"
            else:
                width, tasks = (_finite(run.metrics.get(name, math.nan)) for name in (f"{metric}_ci95", "tasks"))
                count = 0 if math.isnan(tasks) else int(tasks)
                result = SeedResult(int(seed), found[0], width, count, run.run_id, run.artifact_uri, found[1])
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
        path, on_path = self.trade_off(run.run_id, run.artifact_uri), cell.on_path
        if path is None:
            return math.nan, math.nan
        value = path.metrics(path.chosen).get(metric, math.nan)
        if on_path is None:
            return value, math.nan
        steps = [path.chosen]  # of a rival, whose only weight is NaN
        if on_path.weight is not None:
            steps = [step for step, weight in enumerate(path.weights) if math.isclose(weight, on_path.weight)]
        return value, path.metrics(steps[0]).get(on_path.metric, math.nan) if steps else math.nan

    def scores(self, cell: Cell) -> "dict[int, Evaluation]":
        """The evaluations of a cell's runs, task by task, by seed; without those whose file is damaged."""
        from runs.stages.results import PER_TASK, recorded_evaluation

        read = partial(recorded_evaluation, self._tracker)
        found = {r.seed: self._read(PER_TASK, read, r.run_id, r.value, r.artifacts) for r in cell.results}
        return {seed: scores for seed, scores in found.items() if scores is not None}

    def trials(self, result: SeedResult) -> "Trials | None":
        """The trials of a clustering; None where the file is damaged."""
        from runs.stages.clustering.results import TRIALS, Trials

        found: Trials | None = self._read(
            TRIALS, self._tracker.read, result.run_id, TRIALS, Trials.load, result.artifacts
        )
        return found

    def trade_off(self, run_id: str, artifacts: str) -> "TradeOff | None":
        """The path of a fair clustering; None where the file is damaged."""
        from runs.stages.fair.results import PATH, TradeOff

        found: TradeOff | None = self._read(PATH, self._tracker.read, run_id, PATH, TradeOff.load, artifacts)
        return found

    def _read(self, file: str, read: Callable[..., Any], run_id: str, *arguments: Any) -> Any:
        """The content of the file of a run, read once; None with a message if it is missing or damaged."""
        if run_id not in self._files:
            try:
                self._files[run_id] = read(run_id, *arguments)
            except ValueError as error:
                self._files[run_id] = None
                lost = "no claim is checked on it, and of a path of weights no cell is filled"
                self._tracker.say(f"{file} of run {run_id} is no longer whole ({error}): {lost}")
        return self._files[run_id]


def _cells(run: RunRow) -> list[str]:
    """The keys of the cells that a run may fill: its tag `cell`."""
    return run.tags.get("cell", "").split()


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
