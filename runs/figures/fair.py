"""Figures of fair clustering: thesis, Figures 3.1 to 3.3, and the trade-off of all methods on a data set."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane
from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig
from runs.config.overrides import spell
from runs.figures.clusterings import matched
from runs.figures.style import COLOURS, COLUMN, PAGE, count_steps, new_grid, scatter, series, styled, without_numbers
from runs.figures.titles import either, method_titles, title
from runs.stages.fair.results import FairResult
from runs.stages.fair.series import Series, fronts, series_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

OBJECTIVES = {"kmeans": "K-means objective", "kmedian": "K-median objective", "ncut": "normalised cut"}
LINEAR = 1e-3  # errors below this are drawn on a linear scale, which includes 0
ERROR = 5  # colour, marker and line of the fairness error: far from the objective's
BESIDE = 3  # plots of objectives in a row
ACROSS = 5  # plots of partitions in a row, the first of the groups
SHAPES = ("o", "^", "s", "D", "v", "P", "X")  # of groups


def method_title(result: FairResult) -> str:
    """The name of the method in the thesis."""
    return title(short(result.config.method))


def data_title(result: FairResult) -> str:
    """The name of the data set in the thesis."""
    return title(short(result.config.dataset))


def words(results: Sequence[FairResult]) -> dict[str, str]:
    """The words of captions: methods, and the paths by data set, K and seed."""
    sizes = dict.fromkeys(f"{data_title(result)} K = {result.n_clusters}" for result in results)
    paths = f"{', '.join(sizes)}; seed {either(result.config.seed for result in results)}"
    return {"methods": ", ".join(dict.fromkeys(map(method_title, results))), "paths": paths}


def with_weights(configs: Sequence[FairConfig]) -> None:
    """Check that the methods have a weight."""
    for config in configs:
        if not hasattr(config.method.kind, "path"):
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


def one_path_each(configs: Sequence[FairConfig]) -> None:
    """Check that the methods have a weight, and that each row of plots has one path."""
    with_weights(configs)
    names = [config.dataset.name for config in configs]
    if len(set(names)) < len(names):
        raise InputError("the figure has one path for each data set; give one value of each other key")


@styled
def trade_off(results: Sequence[FairResult]) -> "tuple[Figure, dict[str, str]]":
    """A row for each method and a column for each data set: the objective of the labels (left axis) and their fairness
    error (right axis) against the weight."""
    rows = list(dict.fromkeys(map(method_title, results)))
    columns = list(dict.fromkeys(map(data_title, results)))
    paths = {(rows.index(method_title(one)), columns.index(data_title(one))): one for one in results}
    if len(paths) < len(results):
        raise InputError("the figure has one path for each method and data set; give one value of each other key")
    figure, grid = new_grid(len(rows), len(columns), PAGE if len(columns) > 1 else COLUMN, 1.9 * len(rows) + 0.3)
    lines: dict[str, Line2D] = {}
    for (i, j), result in paths.items():
        axes, path = grid[i][j], result.found
        errors = axes.twinx()
        errors.spines["right"].set_visible(True)
        lines = {
            "objective F": _path(axes, path.weights, path.objective, 0),
            "fairness error": _path(errors, path.weights, path.fairness_error, ERROR),
        }
        if path.fairness_error.max() > max(0.1, 100 * path.fairness_error.min()):
            errors.set_yscale("symlog", linthresh=0.01, linscale=0.5)
            errors.set_ylim(0, 1.5 * path.fairness_error.max())
        axes.set_title(f"{rows[i]}, {columns[j]}")
        if i == len(rows) - 1:
            axes.set_xlabel("weight λ")
        if j == 0:
            axes.set_ylabel("objective F", color=COLOURS[0])
        if j == len(columns) - 1:
            errors.set_ylabel("fairness error", color=COLOURS[ERROR])
    for i, j in set(np.ndindex(len(rows), len(columns))) - set(paths):
        grid[i][j].set_axis_off()
    figure.legend(list(lines.values()), list(lines), loc="outside upper center", ncols=2)
    return figure, words(results)


def _path(axes: "Axes", weights: NDArray[np.float64], values: NDArray[np.float64], i: int) -> "Line2D":
    """Draw values along weights, one of which may be 0, in the i-th colour."""
    (line,) = axes.plot(weights, values, **series(i) | {"markersize": 3}, clip_on=False)
    positive = weights[weights > 0]
    if len(positive):
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.7)
        axes.set_xlim(left=0)
    axes.tick_params(axis="y", colors=COLOURS[i])
    axes.minorticks_off()
    return line


@styled
def convergence(results: Sequence[FairResult]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each result: E after each update at the largest weight of its path."""
    figure, (plots,) = new_grid(1, len(results), PAGE if len(results) > 1 else COLUMN, 2.2)
    for i, (axes, result) in enumerate(zip(plots, results, strict=True)):
        path = result.found
        last = (path.history_step == len(path.weights) - 1) & (path.history_weight == path.weights[-1])
        E = path.history_objective[last]
        if not len(E):
            raise InputError(f"run {result.run_id}: {method_title(result)} records no objective")
        axes.plot(np.arange(1, len(E) + 1), E, **{**series(i), "markersize": 3}, markevery=max(1, len(E) // 25))
        if E[0] > 20 * E[-1] > 0:
            axes.set_yscale("log")
        axes.set_title(f"{method_title(result)}, λ = {path.weights[-1]:g}")
        count_steps(axes, "update")
    plots[0].set_ylabel("objective E")
    return figure, words(results)


def points(config: FairConfig) -> tuple[NDArray[Any], NDArray[np.integer], NDArray[Any]]:
    """The points of a config's data set in the plane, in their own units if the data set can give them.

    Returns:
        (N, 2) points, or their coordinates in the principal plane; (N,) index of the group of each; names of groups.
    """
    options = config.dataset.options
    if "preprocess" in options:  # before rows are scaled
        config = config.replace(dataset=dataclasses.replace(config.dataset, options={**options, "preprocess": None}))
    data = config.dataset.build().read()
    names, groups = np.unique(next(iter(data.sensitive.values())), return_inverse=True)
    plane = data.values if data.values.shape[1] == 2 else principal_plane(data.values)[0]
    return np.asarray(plane), groups, names


@styled
def partitions(results: Sequence[FairResult]) -> "tuple[Figure, dict[str, str]]":
    """A row for each data set: its groups, then its clusters at some weights. Colours: clusters; shapes: groups."""
    steps = []
    for result in results:  # all weights of a short path, else some at equal distances
        last = len(result.found.weights) - 1
        steps.append(np.unique(np.linspace(0, last, min(last + 1, ACROSS - 1)).round().astype(int)))
    figure, grid = new_grid(len(results), 1 + max(map(len, steps)), PAGE, 1.85 * len(results) + 0.2)
    for row, result, some in zip(grid, results, steps, strict=True):
        path, (plane, groups, names) = result.found, points(result.config)
        first = path.labels[some[0]].astype(np.int64)
        _scatter(row[0], plane, groups, groups + 2)
        row[0].set_title(f"{data_title(result)}:\n{len(names)} groups")
        for axes, step in zip(row[1:], some, strict=False):
            _scatter(axes, plane, groups, matched(path.labels[step].astype(np.int64), first))
            values = f"error {path.fairness_error[step]:.2g}\nleast balance {path.balance_min[step]:.2f}"
            axes.set_title(f"λ = {path.weights[step]:g}\n{values}")
        for axes in row[1 + len(some) :]:
            axes.set_axis_off()
    return figure, words(results)


def _scatter(axes: "Axes", plane: NDArray[Any], groups: NDArray[np.integer], colours: NDArray[np.integer]) -> None:
    area = max(0.6, min(6, 8000 / len(plane)))
    for group in range(groups.max() + 1):
        of = groups == group
        scatter(axes, plane[of], colours[of], marker=SHAPES[group % len(SHAPES)], area=area)
    without_numbers(axes)


@styled
def cost_of_fairness(results: Sequence[FairResult]) -> "tuple[Figure, str]":
    """A plot for each objective: a line along the weights of each method (a mark for one without weights), a circle at
    the chosen weight, and the Pareto front in grey."""
    all_series = series_of(results)
    keys = list(dict.fromkeys(one.comparable for one in all_series))
    titles, on_front = method_titles([one.first.config for one in all_series]), fronts(all_series)
    columns = min(BESIDE, len(keys))
    height = -(-len(keys) // columns)
    figure, grid = new_grid(height, columns, PAGE, 2.9 * height)
    plots = [axes for row in grid for axes in row]
    for axes, key in zip(plots, keys, strict=False):
        own = [position for position, one in enumerate(all_series) if one.comparable == key]
        front = [
            (all_series[position].mean("objective")[step], all_series[position].mean("fairness_error")[step])
            for position in own
            for step in on_front[position]
        ]
        if len(own) > 1 and front:
            look: dict[str, Any] = {"color": "0.85", "linewidth": 4, "drawstyle": "steps-post"}
            axes.plot(*zip(*sorted(front), strict=True), **look, label="Pareto front")
        for position in own:
            _line(axes, all_series[position], titles[position], series(position))
        first = all_series[own[0]].first
        axes.set_yscale("symlog", linthresh=LINEAR)
        axes.set_ylim(bottom=-LINEAR / 4)
        axes.set_xlabel(f"{OBJECTIVES.get(first.kind, first.kind)}, K = {first.n_clusters}")
        options, others = first.config.dataset.options, [one.first.config.dataset.options for one in all_series]
        varied = {name: value for name, value in options.items() if any(one.get(name) != value for one in others)}
        axes.set_title(spell(varied))
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="best")
    for axes in plots[len(keys) :]:
        axes.set_axis_off()
    for row in grid:
        row[0].set_ylabel("fairness error")
    seeds = max(len(one.results) for one in all_series)
    over = f", mean over {seeds} seeds" if seeds > 1 else ""
    return figure, (
        f"Objective and fairness error (sum over clusters of KL(target || proportions)) of fair clusterings of "
        f"{short(results[0].config.dataset)}{over}; a circle marks the smallest weight that reaches the least error."
    )


def _line(axes: "Axes", one: Series, name: str, look: dict[str, Any]) -> None:
    """Draw the means of a series along its weights, and the values of each seed in a faint colour."""
    objective, error = one.mean("objective"), one.mean("fairness_error")
    if len(one.weights) == 1:  # hollow, so that marks below it are seen
        look |= {"linestyle": "", "markerfacecolor": "none", "markersize": 6}
    axes.plot(objective, error, label=name, **look)
    faint: dict[str, Any] = look | {"linestyle": "", "alpha": 0.25}
    for result in one.results if len(one.results) > 1 else ():
        axes.plot(result.found.objective, result.found.fairness_error, **faint)
    if len(one.weights) > 1 and one.chosen is not None:
        ring: dict[str, Any] = {"color": look["color"], "markerfacecolor": "none", "marker": "o", "markersize": 9}
        axes.plot(objective[one.chosen], error[one.chosen], linestyle="", **ring)
