"""The cost of fairness: objective against fairness error along weights, for all methods, with the Pareto front."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from runs.config.configs import FairConfig
from runs.config.overrides import spell
from runs.figures.clustered import method_titles
from runs.figures.drawing import Drawing
from runs.figures.style import PAGE, new_grid, series, styled
from runs.stages.fair.results import FairResult
from runs.stages.fair.series import Series, fronts, series_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OBJECTIVES = {"kmeans": "K-means objective", "kmedian": "K-median objective", "ncut": "normalised cut"}
LINEAR = 1e-3
"""Errors below this are drawn on a linear scale, which includes 0."""

_BESIDE = 3
"""Plots in a row."""


@styled
def trade_off_figure(all_series: Sequence[Series]) -> "Figure":
    """A plot for each objective: a line along the weights of each method (a mark for one without weights), a circle at
    the chosen weight, and the Pareto front in grey."""
    keys = list(dict.fromkeys(one.comparable for one in all_series))
    titles = method_titles([one.first.config for one in all_series])
    on_front = fronts(all_series)
    columns = min(_BESIDE, len(keys))
    height = math.ceil(len(keys) / columns)
    figure, plots = new_grid(height, columns, PAGE, 2.9 * height)
    for axes, key in zip(chain.from_iterable(plots), keys, strict=False):
        own = [position for position, one in enumerate(all_series) if one.comparable == key]
        _front(axes, [(all_series[position], on_front[position]) for position in own])
        for position in own:
            _line(axes, all_series[position], titles[position], position)
        first = all_series[own[0]].first
        axes.set_yscale("symlog", linthresh=LINEAR)
        axes.set_ylim(bottom=-LINEAR / 4)
        axes.set_xlabel(f"{OBJECTIVES.get(first.kind, first.kind)}, K = {first.n_clusters}")
        axes.set_title(_rows(first, all_series))
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="best")
    for axes in list(chain.from_iterable(plots))[len(keys) :]:
        axes.set_axis_off()
    for row in plots:
        row[0].set_ylabel("fairness error")
    return figure


def _rows(one: FairResult, all_series: Sequence[Series]) -> str:
    """Options of the data set that differ between plots."""
    others = [other.first.config.dataset.options for other in all_series]
    options = one.config.dataset.options
    return spell({name: value for name, value in options.items() if any(other.get(name) != value for other in others)})


def _line(axes: "Axes", one: Series, title: str, position: int) -> None:
    objective, error = one.mean("objective"), one.mean("fairness_error")
    look = series(position)
    if len(one.weights) == 1:  # hollow, so that marks below it are seen
        look |= {"linestyle": "", "markerfacecolor": "none", "markersize": 6}
    axes.plot(objective, error, label=title, **look)
    faint: dict[str, Any] = look | {"linestyle": "", "alpha": 0.25}
    for result in one.results if len(one.results) > 1 else ():
        axes.plot(result.found.objective, result.found.fairness_error, **faint)
    if len(one.weights) > 1 and one.chosen is not None:
        ring: dict[str, Any] = {"color": look["color"], "markerfacecolor": "none", "marker": "o", "markersize": 9}
        axes.plot(objective[one.chosen], error[one.chosen], linestyle="", **ring)


def _front(axes: "Axes", own: Sequence[tuple[Series, set[int]]]) -> None:
    points = sorted(
        (one.mean("objective")[step], one.mean("fairness_error")[step]) for one, steps in own for step in steps
    )
    if len(own) > 1 and points:
        axes.plot(*zip(*points, strict=True), color="0.85", linewidth=4, drawstyle="steps-post", label="Pareto front")


def draw(results: Sequence[FairResult]) -> "Figure":
    """Draw all results on a data set."""
    return trade_off_figure(series_of(results))


def caption(results: Sequence[FairResult]) -> str:
    """What is drawn, and over how many seeds."""
    seeds = max(len(one.results) for one in series_of(results))
    over = f", mean over {seeds} seeds" if seeds > 1 else ""
    return (
        f"Objective and fairness error (sum over clusters of KL(target || proportions)) of fair clusterings of "
        f"{short(results[0].config.dataset)}{over}; a circle marks the smallest weight that reaches the least error."
    )


DRAWING = Drawing(schema=FairConfig, draw=draw, caption=caption)
