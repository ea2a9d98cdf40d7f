"""Accuracy against the values tried by tuning (Figure 4.1 of the thesis)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from runs.config.overrides import is_number, spell, write
from runs.figures.style import COLOURS, COLUMN, new_row, series, styled
from runs.stages.curves import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled
def tuning_figure(curves: Sequence[Curve], title: str, novel: Curve | None = None) -> "Figure":
    """A plot for each step: mean accuracy with its 95 % band over tasks, the chosen value marked.

    Args:
        curves: curves of the steps, in order.
        title: title of the figure.
        novel: the values of the last step on tasks of novel classes, evaluated after the choice.
    """
    figure, plots = new_row(len(curves), COLUMN * len(curves), 2.8)
    held: dict[str, Any] = {}
    for axes, curve in zip(plots, curves, strict=True):
        places = _places(axes, curve)
        draw_curve(axes, places, curve, f"{curve.step.split} classes, {_tasks(curve)}", 0)
        if novel is not None and curve is curves[-1]:
            draw_curve(axes, places, novel, f"novel classes, after the choice, {_tasks(novel)}", 1)
        chosen = places[curve.trials.index(curve.chosen)]
        axes.axvline(chosen, color=COLOURS[6], linewidth=1, linestyle=":", label=f"chosen: {curve.chosen}")
        axes.set_ylabel("accuracy (%), 95 % interval")
        others = {**held, **curve.step.at}
        axes.set_title(f"at {spell(others)}" if others else "")
        held |= curve.chosen.values
        axes.grid(axis="y", alpha=0.3)
        axes.legend()
    figure.suptitle(title)
    return figure


def _tasks(curve: Curve) -> str:
    return f"{len(curve.chosen.result.accuracies):,} tasks"


def _places(axes: "Axes", curve: Curve) -> list[float]:
    """Position of each trial on the x axis: its value if one number was varied, else its index."""
    values = [trial.values for trial in curve.trials]
    fields = list(curve.step.grids)
    numbers = [value[fields[0]] for value in values]
    axes.set_xlabel(", ".join(fields))
    if len(fields) == 1 and all(is_number(number) for number in numbers):
        return [float(number) for number in numbers]
    places = [float(i) for i in range(len(values))]
    names = [", ".join(write(value) for value in trial.values()) for trial in values]
    axes.set_xticks(places, names, rotation=45, ha="right")
    return places


def draw_curve(axes: "Axes", places: Sequence[float], curve: Curve, label: str, i: int) -> None:
    """Draw the i-th curve: mean accuracies in %, with their 95 % intervals as a band."""
    means = np.array([100 * trial.result.accuracy for trial in curve.trials])
    widths = np.array([100 * trial.result.ci95 for trial in curve.trials])
    axes.plot(places, means, label=label, **series(i))
    axes.fill_between(places, means - widths, means + widths, color=COLOURS[i], alpha=0.15, linewidth=0)
