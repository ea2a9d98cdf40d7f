"""What is planned: the stages of a command in the order of execution, and which of them are in the cache."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

ORDER = ("checkpoint", "import", "features", "tuning", "evaluation", "clustering", "fair")


@dataclass(frozen=True)
class PlannedStage:
    """One stage of a plan.

    Attributes:
        stage: one of `ORDER`; "import" is of given weights.
        name: name of the stage in messages.
        key: key of its result.
        state: "cached": will be reused; "interrupted": will be resumed.
        runs: number of MLflow runs that it will create.
    """

    stage: str
    name: str
    key: str
    state: Literal["cached", "interrupted", "to do"]
    runs: int = 0

    @property
    def is_cached(self) -> bool:
        return self.state == "cached"


@dataclass(frozen=True)
class Plan:
    """Stages in the order of execution. `str` returns a line for each, and a summary."""

    steps: tuple[PlannedStage, ...]

    @classmethod
    def of(cls, steps: Iterable[PlannedStage]) -> "Plan":
        """Return the plan of these stages, each once."""
        return cls(tuple(sorted(dict.fromkeys(steps), key=lambda step: ORDER.index(step.stage))))

    @property
    def runs(self) -> int:
        """Number of MLflow runs that will be created."""
        return sum(step.runs for step in self.steps)

    @property
    def summary(self) -> str:
        stages, cached = len(self.steps), sum(step.is_cached for step in self.steps)
        return f"{stages:,} stage{_s(stages)}, {cached:,} cached; {self.runs:,} new run{_s(self.runs)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary for JSON."""
        return {"runs": self.runs, "steps": [vars(step) for step in self.steps]}

    def __str__(self) -> str:
        width = max((len(step.name) for step in self.steps), default=0)
        lines = [f"{step.stage:<10}  {step.name:<{width}}  {step.key}  {step.state}" for step in self.steps]
        return "\n".join([*lines, self.summary])


def _s(count: int) -> str:
    return "" if count == 1 else "s"
