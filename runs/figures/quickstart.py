"""The figures of `transduce quickstart`: accuracy by strategy, and the falling objective of one batch of tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runs.figures.style import COLOURS, MARKERS, PAGE, new_figure, save_for_print, styled
from runs.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.cache import Store
    from runs.stages.results import Result


def quickstart_figures(table: Table, results: "Sequence[Result]", store: "Store", name: str) -> list[Path]:
    """Draw the accuracies of a table, and the objective at each step of a slow strategy.

    Returns:
        The paths of the files, without their endings.
    """
    pictures = {"accuracy": (accuracy_figure(table), table.title)}
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
def accuracy_figure(table: Table) -> "Figure":
    """Dots with intervals: a row for each strategy, a colour and marker for each column of the table."""
    figure, axes = new_figure(PAGE, 0.9 + 0.34 * len(table.rows))
    for j, column in enumerate(table.columns):
        cells = [(i, table.cells[row, column]) for i, row in enumerate(table.rows)]
        filled = [(i, cell) for i, cell in cells if cell.results]
        axes.errorbar(
            [100 * cell.value for _, cell in filled],
            [i for i, _ in filled],
            xerr=[100 * cell.half_width for _, cell in filled],
            fmt=MARKERS[j % len(MARKERS)],
            color=COLOURS[j % len(COLOURS)],
            label=str(column),
            capsize=3,
        )
        for i, cell in filled:
            axes.annotate(
                f"{100 * cell.value:.1f}", (100 * cell.value, i), (0, 5), textcoords="offset points", ha="center"
            )
    axes.set_yticks(range(len(table.rows)), [str(row) for row in table.rows])
    axes.set_ylim(len(table.rows) - 0.5, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel("accuracy (%), 95 % interval")
    axes.set_title(table.title.split(";")[0])
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="best")
    return figure


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
