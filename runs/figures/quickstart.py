"""The figures of `transduce quickstart`: accuracy by strategy, and the falling objective of one batch of tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from runs.figures.intervals import intervals_figure
from runs.figures.style import COLOURS, PAGE, new_figure, save_for_print, styled
from runs.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.cache import Store
    from runs.stages.results import Result

FLOOR = 1e-6  # the lowest value of the logarithmic axis


def quickstart_figures(table: Table, results: "Sequence[Result]", store: "Store", name: str) -> list[Path]:
    """Draw the accuracies of a table, and the objective at each step of a slow strategy.

    Returns:
        The paths of the files, without their endings.
    """
    cells = [
        {
            "row": cell.row_name,
            "series": cell.column_name,
            "mean": 100 * cell.value,
            "half_width": 100 * cell.half_width,
        }
        for cell in table.ordered
        if cell.results
    ]
    frame = pd.DataFrame(cells).assign(outer=np.nan, filled=True)
    frame["low"], frame["high"] = frame["mean"] - frame["half_width"], frame["mean"] + frame["half_width"]
    figure = intervals_figure(frame, "accuracy (%), 95 % interval", table.title.split(";")[0])
    pictures = {"accuracy": (figure, table.title)}
    traced = [(result.config.strategy.name, result.trace) for result in results if result.trace is not None]
    if traced:
        # Prefer the first strategy of which most tasks have not converged after five steps.
        slow = [(name, trace) for name, trace in traced if len(trace) > 5 and np.isnan(trace[5]).mean() < 0.5]
        strategy, trace = (slow or traced)[0]
        pictures["descent"] = (descent_figure(trace, strategy), f"objective of {strategy} at each step")
    for kind, (figure, caption) in pictures.items():
        save_for_print(figure, store.figures, f"{name}-{kind}", title=f"{name}: {kind}", about=caption)
    return [store.figures / f"{name}-{kind}" for kind in pictures]


@styled
def descent_figure(trace: NDArray[np.floating[Any]], strategy: str) -> "Figure":
    """The objective of each task above its last value, which it keeps after it has stopped, by step.

    Args:
        trace: (steps, tasks) objective at the start and after each step, NaN after a task has stopped.
        strategy: name of the strategy, for the title.
    """
    kept = pd.DataFrame(trace).ffill()
    above = kept - kept.iloc[-1]
    figure, axes = new_figure(PAGE, 3.0)
    axes.plot(above.clip(lower=FLOOR), color=COLOURS[0], alpha=0.15, linewidth=0.8)
    median = above.median(axis=1).clip(lower=FLOOR)
    axes.plot(median, color=COLOURS[5], linewidth=1.8, marker="o", label="median task")
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel(f"R(step) - R(end), at least {FLOOR:g}")
    axes.set_title(f"{strategy}: the objective of {trace.shape[1]} tasks falls until each stops")
    axes.set_xticks(range(0, len(trace), max(1, len(trace) // 12)))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
