"""The decrease of the objective in a run, as a picture on the page of its method."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runs.figures.descent import above_the_end
from runs.figures.style import COLOURS, new_figure, save, styled
from runs.record.query import RunRow
from runs.stages.results import PER_TASK, recorded_evaluation
from runs.track import Tracker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOOR = 1e-6  # lower bound of the values on the logarithmic axis
TRIED = 3  # maximum number of runs of a method whose files are opened to find a trace


def convergence(runs: Sequence[RunRow], tracker: Tracker) -> tuple[str, RunRow | None, str]:
    """The picture of the newest run with a trace as SVG, that run, and what is wrong if files are missing or damaged.

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
            return "", None, ""  # all runs of a method have a trace, or none has
        with tempfile.TemporaryDirectory() as folder:
            return save(_drawn(trace), Path(folder) / "curve.svg").read_text(encoding="utf-8"), run, ""
    return "", None, trouble


@styled
def _drawn(trace: NDArray[np.floating]) -> "Figure":
    """Median over tasks and 0.9 quantile of the objective above its last value, of a trace (steps, tasks)."""
    above = np.maximum(above_the_end(trace), FLOOR)
    figure, axes = new_figure(4.5, 2.4)
    median, high = np.median(above, axis=1), np.quantile(above, 0.9, axis=1)
    axes.fill_between(np.arange(len(above)), median, high, color=COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(median, color=COLOURS[0])
    axes.set(yscale="log", xlabel="step", ylabel="objective above its end")
    return figure
