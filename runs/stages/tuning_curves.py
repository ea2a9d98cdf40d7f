"""What a step of a tuning found: the accuracy of every value on the same tasks, and which one is best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fsl.evaluation.paired import Difference, Paired
from runs.config.overrides import is_number, spell
from runs.config.tuning_protocol import Step
from runs.stages.results import Result


@dataclass(frozen=True, eq=False)
class Trial:
    """Values that were tried, and how they did.

    Attributes:
        values: by field of the strategy.
        result: their evaluation.
    """

    values: Mapping[str, Any]
    result: Result

    def __str__(self) -> str:
        return spell(self.values)

    def against(self, other: "Trial") -> Difference:
        """How much better than another trial on the same tasks, task by task."""
        return Paired([np.stack([self.result.by_unit, other.result.by_unit], axis=1)]).difference(0, 1)


@dataclass(frozen=True, eq=False)
class Curve:
    """Every trial of a step, in the order of its grids.

    Attributes:
        step: what was tried.
        trials: one for each combination of values, on the same tasks.
        chosen: the one that was chosen; on tasks of novel classes, the one that had been chosen before.
        default: the trial of the strategy's own values; None where they were not tried.
    """

    step: Step
    trials: tuple[Trial, ...]
    chosen: Trial
    default: Trial | None

    @property
    def best(self) -> Trial:
        """The trial of the highest mean accuracy."""
        return best_of(self.trials)

    @property
    def at_the_end(self) -> bool:
        """Whether a chosen number is the smallest or largest tried, so that a better one may lie beyond."""
        chosen = self.chosen.values
        numbers = {field: grid for field, grid in self.step.grids.items() if all(map(is_number, grid))}
        return any(chosen[field] in (min(grid), max(grid)) for field, grid in numbers.items())

    @cached_property
    def gain(self) -> Difference | None:
        """The chosen values against the strategy's own."""
        return self.chosen.against(self.default) if self.default else None

    @cached_property
    def lost(self) -> Difference:
        """The best values against the chosen ones."""
        return self.best.against(self.chosen)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; accuracies are fractions."""
        gain, result = self.gain, self.chosen.result
        return {
            "split": result.config.split,
            "tasks": len(result.accuracies),
            "trials": [
                {
                    "values": dict(trial.values),
                    "accuracy": trial.result.accuracy,
                    "accuracy_ci95": trial.result.ci95,
                    "run": trial.result.run_id,
                }
                for trial in self.trials
            ],
            "chosen": dict(self.chosen.values),
            "at_the_end": self.at_the_end,
            "best": dict(self.best.values),
            "default": None if self.default is None else dict(self.default.values),
            "gain": None if gain is None else _spelt(gain),
            "lost": _spelt(self.lost),
        }


def _spelt(difference: Difference) -> dict[str, float]:
    """A mean with its 95 % interval."""
    return {"mean": difference.mean, "low": difference.low, "high": difference.high}


def best_of(trials: Sequence[Trial]) -> Trial:
    """The trial of the highest mean accuracy, the first of equals."""
    return max(trials, key=lambda trial: trial.result.accuracy)
