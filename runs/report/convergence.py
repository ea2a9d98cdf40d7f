"""The decrease of the objective in a run, as a drawing embedded in its page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runs.figures.descent import above_the_end
from runs.record.query import RunRow
from runs.stages.results import PER_TASK, recorded_evaluation
from runs.track import Tracker

FLOOR = 1e-6  # lower bound of the values on the logarithmic axis
TRIED = 3  # maximum number of runs of a method whose files are opened to find a trace
WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 40  # margins of the plot, for its axes


@dataclass(frozen=True)
class Convergence:
    """The difference between the objective of a run's tasks and its last value, by step.

    Attributes:
        steps: the steps shown, counted from 0.
        median: median over tasks, at each step.
        high: 0.9 quantile over tasks, at each step.
        tasks: number of tasks that have not stopped yet, at each step.
    """

    run: RunRow
    steps: tuple[int, ...]
    median: tuple[float, ...]
    high: tuple[float, ...]
    tasks: tuple[int, ...]

    def line(self, values: Sequence[float]) -> str:
        """Return the points of a curve, as in the attribute `points` of SVG."""
        return self._points(zip(self.steps, values, strict=True))

    @property
    def area(self) -> str:
        """The outline of the area between the median and the upper curve, as points of SVG."""
        back = zip(reversed(self.steps), reversed(self.median), strict=True)
        return f"{self.line(self.high)} {self._points(back)}"

    def _points(self, places: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(step):.1f},{self.y(value):.1f}" for step, value in places)

    def x(self, step: float) -> float:
        """The horizontal position of a step."""
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(self.steps[-1], 1)

    def y(self, value: float) -> float:
        """The vertical position of a value on the logarithmic axis."""
        low, high = self.decades[0], self.decades[-1]
        share = (np.log10(max(value, FLOOR)) - low) / max(high - low, 1)
        return float(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share))

    @property
    def decades(self) -> range:
        """The powers of ten on the axis."""
        top = max(*self.high, *self.median, 10 * FLOOR)
        return range(round(np.log10(FLOOR)), int(np.ceil(np.log10(top))) + 1)

    @property
    def ticks(self) -> list[int]:
        """The steps labelled on the axis, about six."""
        last = self.steps[-1]
        apart = next(unit for unit in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if last / unit <= 7)
        return list(range(0, last + 1, apart))


def convergence(runs: Sequence[RunRow], tracker: Tracker) -> tuple[Convergence | None, str]:
    """The convergence of the newest run with a trace, or None and an error message if files are missing or damaged.

    Args:
        runs: finished evaluations of a method, newest first; only the first few are read.
    """
    trouble = ""
    for run in runs[:TRIED]:
        try:
            accuracy = run.metrics.get("accuracy", math.nan)
            trace = recorded_evaluation(tracker, run.run_id, accuracy, run.artifact_uri).trace
        except ValueError as error:
            trouble = f"{PER_TASK} of run {run.run_id} is {error}"
            continue
        if trace is None:
            return None, ""  # all runs of a method have a trace, or none has
        return _drawn(run, trace), ""
    return None, trouble


def _drawn(run: RunRow, trace: NDArray[np.floating]) -> Convergence:
    moving, above = ~np.isnan(trace), above_the_end(trace)
    steps = np.unique(np.linspace(0, len(trace) - 1, num=min(len(trace), 60)).round().astype(int))
    return Convergence(
        run,
        tuple(steps.tolist()),
        tuple(np.median(above[steps], axis=1).tolist()),
        tuple(np.quantile(above[steps], 0.9, axis=1).tolist()),
        tuple(moving[steps].sum(axis=1).tolist()),
    )
