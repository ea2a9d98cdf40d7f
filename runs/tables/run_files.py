"""The files of the runs that fill cells: scores by task, trials of clusterings, paths of fair clusterings."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from runs.tables.table import Cell, SeedResult

if TYPE_CHECKING:
    from fsl.evaluation.scores import Evaluation
    from runs.stages.clustering.results import Trials
    from runs.stages.fair.results import TradeOff
    from runs.track import Tracker

UNCHECKED = "no claim is checked on it"


class RunFiles:
    """Reads the file of each run once. One that is missing or damaged is None, with a message.

    Args:
        tracker: the record of the runs.
    """

    def __init__(self, tracker: "Tracker") -> None:
        self._tracker = tracker
        self._known: dict[str, Any] = {}

    def scores(self, cell: Cell) -> "dict[int, Evaluation]":
        """Evaluation of a cell's runs, task by task, by seed."""
        from runs.stages.results import PER_TASK, recorded_evaluation

        recorded = partial(recorded_evaluation, self._tracker)
        read = {r.seed: self._read(PER_TASK, recorded, r.run_id, r.value, r.artifacts) for r in cell.results}
        return {seed: scores for seed, scores in read.items() if scores is not None}

    def trials(self, result: SeedResult) -> "Trials | None":
        """Trials of a clustering."""
        from runs.stages.clustering.results import TRIALS, Trials

        trials: Trials | None = self._read(
            TRIALS, self._tracker.read, result.run_id, TRIALS, Trials.load, result.artifacts
        )
        return trials

    def trade_off(self, run_id: str, artifacts: str) -> "TradeOff | None":
        """Path of a fair clustering."""
        from runs.stages.fair.results import PATH, TradeOff

        path: TradeOff | None = self._read(
            PATH, self._tracker.read, run_id, PATH, TradeOff.load, artifacts, lost="it fills no cell"
        )
        return path

    def _read(
        self, file: str, recorded: Callable[..., Any], run_id: str, *arguments: Any, lost: str = UNCHECKED
    ) -> Any:
        if run_id not in self._known:
            try:
                self._known[run_id] = recorded(run_id, *arguments)
            except ValueError as error:
                self._known[run_id] = None
                self._tracker.say(f"{file} of run {run_id} is no longer whole ({error}): {lost}")
        return self._known[run_id]
