"""Metrics of recorded fair clusterings for a cell: at the chosen weight, and at the weight that was printed."""

import math
from typing import TYPE_CHECKING

from runs.tables.table import OnPath, SeedResult

if TYPE_CHECKING:
    from runs.record.query import RunRow
    from runs.record.tracking import Tracker
    from runs.stages.fair.results import TradeOff


class Paths:
    """Reads the path of each run once, with a message if it is damaged."""

    def __init__(self, tracker: "Tracker") -> None:
        self._tracker = tracker
        self._known: dict[str, TradeOff | None] = {}

    def of(self, run_id: str, artifacts: str) -> "TradeOff | None":
        """The trade-off of a run; None if it is damaged."""
        from runs.stages.fair.results import PATH, recorded_trade_off

        if run_id not in self._known:
            try:
                self._known[run_id] = recorded_trade_off(self._tracker, run_id, artifacts)
            except ValueError as error:
                self._known[run_id] = None
                self._tracker.say(f"{PATH} of run {run_id} is no longer whole ({error}): it fills no cell")
        return self._known[run_id]

    def of_result(self, result: SeedResult) -> "TradeOff | None":
        """The trade-off of the run of a result."""
        return self.of(result.run_id, result.artifacts)

    def values(self, run: "RunRow", metric: str, on_path: OnPath | None) -> tuple[float, float]:
        """A metric at the smallest weight that reaches the least error, and the printed metric at its weight; NaN where
        the path has none."""
        path = self.of(run.run_id, run.artifact_uri)
        if path is None:
            return math.nan, math.nan
        value = path.metrics(path.chosen).get(metric, math.nan)
        if on_path is None:
            return value, math.nan
        step = path.chosen if on_path.weight is None else step_at(path, on_path.weight)
        return value, math.nan if step is None else path.metrics(step).get(on_path.metric, math.nan)


def step_at(path: "TradeOff", weight: float) -> int | None:
    """Index of a weight on a path; None if it is not on the path."""
    there = (step for step, other in enumerate(path.weights) if math.isclose(other, weight))
    return next(there, None)
