"""The falling objective of one batch of tasks."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runs.figures.style import COLOURS, PAGE, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def above_the_end(trace: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the (steps, tasks) objective less its last value, which a task that has stopped keeps."""
    last = np.where(np.isnan(trace), -1, np.arange(len(trace))[:, None]).max(axis=0)
    return np.where(np.isnan(trace), 0.0, trace - trace[last, np.arange(trace.shape[1])])


@styled
def descent_figure(trace: NDArray[np.floating[Any]], strategy: str) -> "Figure":
    """The objective of each task above its last value, by step.

    Args:
        trace: (steps, tasks) objective at the start and after each step, NaN after a task has stopped.
        strategy: name of the strategy, for the title.
    """
    above = above_the_end(trace)
    floor = 1e-6
    figure, axes = new_figure(PAGE, 3.0)
    axes.plot(np.maximum(above, floor), color=COLOURS[0], alpha=0.15, linewidth=0.8)
    axes.plot(
        np.maximum(np.median(above, axis=1), floor), color=COLOURS[5], linewidth=1.8, marker="o", label="median task"
    )
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel(f"R(step) - R(end), at least {floor:g}")
    axes.set_title(f"{strategy}: the objective of {trace.shape[1]} tasks falls until each stops")
    axes.set_xticks(range(0, len(trace), max(1, len(trace) // 12)))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
