"""The trials of one step of a tuning, as a curve of accuracy by value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fsl.evaluation.paired import Difference, Paired
from runs.config.overrides import is_number, spell
from runs.config.tuning_protocol import TuningStep
from runs.stages.results import Result


class Trial(NamedTuple):
    """One combination of values by field of the strategy, with its evaluation."""

    values: Mapping[str, Any]
    result: Result

    def __str__(self) -> str:
        return spell(self.values)


@dataclass(frozen=True, eq=False)
class Curve:
    """All trials of a step on the same tasks, in the order of its grids."""

    step: TuningStep  # the step of the protocol; for novel classes, the last one with their split
    trials: tuple[Trial, ...]  # one trial per combination of values
    chosen: Trial  # the chosen trial; on tasks of novel classes, the trial of the values chosen before
    default: Trial | None  # the trial of the strategy's default values; None if they were not tried

    @property
    def best(self) -> Trial:
        """The trial with the highest mean accuracy; the first one in case of ties."""
        return max(self.trials, key=lambda trial: trial.result.accuracy)

    @property
    def at_the_end(self) -> bool:
        """Whether a chosen number is the smallest or largest of its grid, so a better value may lie beyond it."""
        numbers = {field: grid for field, grid in self.step.grids.items() if all(map(is_number, grid))}
        return any(self.chosen.values[field] in (min(grid), max(grid)) for field, grid in numbers.items())

    @property
    def gain(self) -> Difference | None:
        """Paired difference of the chosen values from the default values; None if these were not tried."""
        return _difference(self.chosen, self.default) if self.default else None

    @property
    def lost(self) -> Difference:
        """Paired difference of the best values from the chosen values."""
        return _difference(self.best, self.chosen)

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as a dictionary for JSON; accuracies are fractions."""
        own, gain = self.chosen.result, self.gain
        trials = [(trial.values, trial.result) for trial in self.trials]
        return {
            "split": own.config.split,
            "tasks": len(own.accuracies),
            "trials": [
                {"values": dict(values), "accuracy": one.accuracy, "accuracy_ci95": one.ci95, "key": one.key}
                for values, one in trials
            ],
            "chosen": dict(self.chosen.values),
            "at_the_end": self.at_the_end,
            "best": dict(self.best.values),
            "default": dict(self.default.values) if self.default else None,
            "gain": interval(gain, "mean", "low", "high") if gain else None,
            "lost": interval(self.lost, "mean", "low", "high"),
        }


def _difference(first: Trial, second: Trial) -> Difference:
    return Paired([np.stack([first.result.by_unit, second.result.by_unit], axis=1)]).difference(0, 1)


def interval(difference: Difference, *names: str) -> dict[str, float]:
    return dict(zip(names, (difference.mean, difference.low, difference.high), strict=True))
