"""What recorded fair clusterings have for a cell: where they are fairest, and at the weight that a print is held
against."""

import math
from typing import TYPE_CHECKING

from runs.tables.table import OnPath, SeedResult

if TYPE_CHECKING:
    from runs.record.query import RunRow
    from runs.record.tracking import Tracker
    from runs.stages.fair.results import TradeOff


class Paths:
    """Reads each run's path once; of one that is no longer whole it says so."""

    def __init__(self, tracker: "Tracker") -> None:
        self._tracker = tracker
        self._known: dict[str, TradeOff | None] = {}

    def of(self, run_id: str, artifacts: str) -> "TradeOff | None":
        """The trade-off of a run; None where it is not whole."""
        from runs.stages.fair.results import PATH, recorded_trade_off

        if run_id not in self._known:
            try:
                self._known[run_id] = recorded_trade_off(self._tracker, run_id, artifacts)
            except ValueError as error:
                self._known[run_id] = None
                self._tracker.say(f"{PATH} of run {run_id} is no longer whole ({error}): it fills no cell")
        return self._known[run_id]

    def of_result(self, result: SeedResult) -> "TradeOff | None":
        """Of the run that a cell's result is of."""
        return self.of(result.run_id, result.artifacts)

    def values(self, run: "RunRow", metric: str, on_path: OnPath | None) -> tuple[float, float]:
        """A metric at the smallest weight that reaches the least error, and what the print is of; NaN of what the path
        lacks."""
        found = self.of(run.run_id, run.artifact_uri)
        if found is None:
            return math.nan, math.nan
        value = found.metrics(found.chosen).get(metric, math.nan)
        if on_path is None:
            return value, math.nan
        step = found.chosen if on_path.weight is None else step_at(found, on_path.weight)
        return value, math.nan if step is None else found.metrics(step).get(on_path.metric, math.nan)


def step_at(found: "TradeOff", weight: float) -> int | None:
    """Which of the weights of a path one is; None where it is none of them."""
    there = (step for step, other in enumerate(found.weights) if math.isclose(other, weight))
    return next(there, None)
