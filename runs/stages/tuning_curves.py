"""The result of one tuning step: the accuracy of every value on the same tasks, and the best value."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fsl.evaluation.paired import Difference, Paired
from runs.config.overrides import is_number, spell
from runs.config.tuning_protocol import TuningStep
from runs.stages.results import Result


@dataclass(frozen=True, eq=False)
class Trial:
    """One combination of values by field of the strategy, with its evaluation."""

    values: Mapping[str, Any]
    result: Result

    def __str__(self) -> str:
        return spell(self.values)

    def against(self, other: "Trial") -> Difference:
        """Return the paired difference of accuracy from another trial on the same tasks."""
        return Paired([np.stack([self.result.by_unit, other.result.by_unit], axis=1)]).difference(0, 1)


@dataclass(frozen=True, eq=False)
class Curve:
    """All trials of a step, in the order of its grids.

    Attributes:
        step: the step of the protocol.
        trials: one trial per combination of values, on the same tasks.
        chosen: the chosen trial; on tasks of novel classes, the trial of the values chosen before.
        default: the trial of the strategy's default values; None if they were not tried.
    """

    step: TuningStep
    trials: tuple[Trial, ...]
    chosen: Trial
    default: Trial | None

    @classmethod
    def of(
        cls,
        step: TuningStep,
        trials: tuple[Trial, ...],
        chosen: Mapping[str, Any] | None,
        default: Mapping[str, Any] = MappingProxyType({}),
    ) -> "Curve":
        """Return the curve with these chosen values (None: the best trial's) and default values."""
        by_values = {tuple(trial.values.values()): trial for trial in trials}
        best = max(trials, key=lambda trial: trial.result.accuracy)
        own = by_values.get(tuple(default.get(field) for field in step.grids))
        return cls(step, trials, by_values[tuple(chosen[field] for field in step.grids)] if chosen else best, own)

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
        """Difference of the chosen values from the default values; None if these were not tried."""
        return self.chosen.against(self.default) if self.default else None

    @property
    def lost(self) -> Difference:
        """Difference of the best values from the chosen values."""
        return self.best.against(self.chosen)

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as a dictionary for JSON; accuracies are fractions."""
        gain, result = self.gain, self.chosen.result
        return {
            "split": result.config.split,
            "tasks": len(result.accuracies),
            "trials": [
                {
                    "values": dict(trial.values),
                    "accuracy": trial.result.accuracy,
                    "accuracy_ci95": trial.result.ci95,
                    "key": trial.result.key,
                }
                for trial in self.trials
            ],
            "chosen": dict(self.chosen.values),
            "at_the_end": self.at_the_end,
            "best": dict(self.best.values),
            "default": None if self.default is None else dict(self.default.values),
            "gain": None if gain is None else {"mean": gain.mean, "low": gain.low, "high": gain.high},
            "lost": {"mean": self.lost.mean, "low": self.lost.low, "high": self.lost.high},
        }
