"""What a step of a tuning found: the accuracy of every value on the same tasks, and which one is best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from runs.overrides import spell
from runs.results import Result
from runs.tuning_protocol import Step


class Difference(NamedTuple):
    """A mean over tasks with the half-width of its 95 % interval, fractions."""

    mean: float
    ci95: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves 0 out."""
        return abs(self.mean) > self.ci95


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
        """How much better than another trial on the same tasks: the mean of the differences task by task."""
        gains = self.result.accuracies - other.result.accuracies
        return Difference(float(gains.mean()), 1.96 * float(gains.std()) / math.sqrt(len(gains)))


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
    def gain(self) -> Difference | None:
        """The chosen values against the strategy's own."""
        return self.chosen.against(self.default) if self.default else None

    @property
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
            "best": dict(self.best.values),
            "default": None if self.default is None else dict(self.default.values),
            "gain": None if gain is None else gain.mean,
            "gain_ci95": None if gain is None else gain.ci95,
            "lost": self.lost.mean,
            "lost_ci95": self.lost.ci95,
        }


def best_of(trials: Sequence[Trial]) -> Trial:
    """The trial of the highest mean accuracy, the first of equals."""
    return max(trials, key=lambda trial: trial.result.accuracy)
