"""Figures of fair clustering (thesis, Figures 3.1 to 3.3)."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane
from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig
from runs.figures.clusterings import matched
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, COLUMN, LINES, MARKERS, PAGE, new_grid, new_row, series, styled
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import points_of
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TITLES: Mapping[str, str] = {
    "fair_kmeans": "Fair K-means",
    "fair_kmedian": "Fair K-median",
    "fair_ncut": "Fair Ncut",
    "synthetic": "Synthetic",
    "synthetic_unequal": "Synthetic-unequal",
    "adult_thesis": "Adult",
    "bank_thesis": "Bank",
}
"""Names of the methods and data sets in the thesis."""


def method_title(config: FairConfig) -> str:
    """The name of a method in the thesis."""
    name = short(config.method)
    return TITLES.get(name, name)


def data_title(config: FairConfig) -> str:
    """The name of a data set in the thesis."""
    name = short(config.dataset)
    return TITLES.get(name, name)


def of_paths(results: Iterable[FairResult]) -> str:
    """Data sets, K and seeds of results, for a caption."""
    results = list(results)
    seeds = either(result.config.seed for result in results)
    sizes = dict.fromkeys(f"{data_title(result.config)} K = {result.n_clusters}" for result in results)
    return f"{', '.join(sizes)}; seed {seeds}"


ERROR = 5  # its colour, marker and line: far from the objective's


@styled
def trade_off_figure(results: Sequence[FairResult]) -> "Figure":
    """A row for each method and a column for each data set: the objective of the labels (left axis) and their fairness
    error (right axis) against the weight."""
    rows = list(dict.fromkeys(method_title(result.config) for result in results))
    columns = list(dict.fromkeys(data_title(result.config) for result in results))
    figure, grid = new_grid(len(rows), len(columns), PAGE if len(columns) > 1 else COLUMN, 1.9 * len(rows) + 0.3)
    used: set[tuple[int, int]] = set()
    lines: dict[str, Line2D] = {}
    for result in results:
        place = rows.index(method_title(result.config)), columns.index(data_title(result.config))
        axes = grid[place[0]][place[1]]
        if place in used:
            raise InputError("the figure has one path for each method and data set; give one value of each other key")
        used.add(place)
        errors = axes.twinx()
        errors.spines["right"].set_visible(True)
        lines = {"objective F": _draw(axes, result, 0), "fairness error": _draw(errors, result, 1)}
        axes.set_title(f"{method_title(result.config)}, {data_title(result.config)}")
        if place[0] == len(rows) - 1:
            axes.set_xlabel("weight λ")
        if place[1] == 0:
            axes.set_ylabel("objective F", color=COLOURS[0])
        if place[1] == len(columns) - 1:
            errors.set_ylabel("fairness error", color=COLOURS[ERROR])
    for i, j in np.ndindex(len(rows), len(columns)):
        if (i, j) not in used:
            grid[i][j].set_axis_off()
    figure.legend(list(lines.values()), list(lines), loc="outside upper center", ncols=2)
    return figure


def _draw(axes: "Axes", result: FairResult, which: int) -> "Line2D":
    """Draw the objective (`which` 0) or the error (1) of a path."""
    path, i = result.found, (0, ERROR)[which]
    values = (path.objective, path.fairness_error)[which]
    look: dict[str, Any] = {
        "color": COLOURS[i],
        "marker": MARKERS[i],
        "linestyle": LINES[i],
        "markersize": 3,
        "clip_on": False,
    }
    (line,) = axes.plot(path.weights, values, **look)
    positive = path.weights[path.weights > 0]
    if len(positive):
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.7)  # 0 has a place, too
        axes.set_xlim(left=0)
    axes.tick_params(axis="y", colors=COLOURS[i])
    axes.minorticks_off()
    if which and values.max() > 100 * max(values.min(), 1e-12):
        axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
        axes.set_ylim(0, 1.5 * values.max())
    return line


def fair_trade_off_caption(results: Sequence[FairResult]) -> str:
    """What is drawn."""
    return (
        "Objective F of the labels about their own prototypes (circles, left axis) and their fairness error, the sum "
        f"over clusters of KL(U || P) (crosses, right axis), against the weight of fairness ({of_paths(results)})."
    )


def fair_trade_off_check(configs: Sequence[FairConfig]) -> None:
    """Check that the methods have a weight.

    Raises:
        InputError: one has none.
    """
    for config in configs:
        if not hasattr(config.method.kind, "path"):
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


TRADE_OFF = Drawing(
    schema=FairConfig, check=fair_trade_off_check, draw=trade_off_figure, caption=fair_trade_off_caption
)


@styled
def convergence_figure(results: Sequence[FairResult]) -> "Figure":
    """A plot for each result: E after each update at the largest weight of its path.

    Raises:
        InputError: a method records no objective.
    """
    from matplotlib.ticker import MaxNLocator

    figure, plots = new_row(len(results), PAGE if len(results) > 1 else COLUMN, 2.2)
    for i, (axes, result) in enumerate(zip(plots, results, strict=True)):
        E = trace(result)
        steps = np.arange(1, len(E) + 1)
        axes.plot(steps, E, **{**series(i), "markersize": 3}, markevery=max(1, len(E) // 25))
        if E[0] > 20 * E[-1] > 0:
            axes.set_yscale("log")
        axes.set_title(f"{method_title(result.config)}, λ = {result.found.weights[-1]:g}")
        axes.set_xlabel("update")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", alpha=0.3)
    plots[0].set_ylabel("objective E")
    return figure


def trace(result: FairResult) -> NDArray[np.float64]:
    """(updates,) E at the largest weight of a path.

    Raises:
        InputError: the method records no objective.
    """
    path = result.found
    last = len(path.weights) - 1
    at = (path.history_step == last) & (path.history_weight == path.weights[last])
    if not at.any():
        raise InputError(f"run {result.run_id}: {method_title(result.config)} records no objective")
    E: NDArray[np.float64] = path.history_objective[at]
    return E


def fair_convergence_caption(results: Sequence[FairResult]) -> str:
    """What is drawn."""
    return (
        "E, the clustering objective plus the weighted fairness term, after each pass of moves (of the cut: each "
        "update of the assignments), at the largest weight of the path, which starts "
        f"where the weight before it ended ({of_paths(results)})."
    )


CONVERGENCE = Drawing(
    schema=FairConfig, check=fair_trade_off_check, draw=convergence_figure, caption=fair_convergence_caption
)

ACROSS = 5  # plots in a row at most, the first of the groups
SHAPES = ("o", "^", "s", "D", "v", "P", "X")  # of groups


class Points(NamedTuple):
    """The points of a data set, before rows are scaled.

    Attributes:
        plane: (N, 2) points, or their coordinates in the principal plane.
        groups: (N,) index of the group of each point.
        names: names of the groups.
    """

    plane: NDArray[Any]
    groups: NDArray[np.integer]
    names: NDArray[Any]


def points(config: FairConfig) -> Points:
    """The points of a config's data set."""
    data = points_of(_unscaled(config))
    names, groups = np.unique(next(iter(data.sensitive.values())), return_inverse=True)
    plane = data.values if data.values.shape[1] == 2 else principal_plane(data.values)[0]
    return Points(np.asarray(plane), groups, names)


def _unscaled(config: FairConfig) -> FairConfig:
    """The config with the points in their own units, if the data set can give them."""
    options = config.dataset.options
    if "preprocess" not in options:
        return config
    return config.replace(dataset=dataclasses.replace(config.dataset, options={**options, "preprocess": None}))


@styled
def partitions_figure(results: Sequence[FairResult]) -> "Figure":
    """A row for each data set: its groups, then its clusters at each weight. Colours: clusters; shapes: groups."""
    steps = [_shown(len(result.found.weights)) for result in results]
    across = 1 + max(len(some) for some in steps)
    figure, grid = new_grid(len(results), across, PAGE, 1.85 * len(results) + 0.2)
    for row, result, some in zip(grid, results, steps, strict=True):
        path, known, first = result.found, points(result.config), None
        _scatter(row[0], known, known.groups + 2)
        row[0].set_title(f"{data_title(result.config)}:\n{len(known.names)} groups")
        for axes, step in zip(row[1:], some, strict=False):
            labels = path.labels[step].astype(np.int64)
            first = labels if first is None else first
            _scatter(axes, known, matched(labels, first))
            values = f"error {path.fairness_error[step]:.2g}\nleast balance {path.balance_min[step]:.2f}"
            axes.set_title(f"λ = {path.weights[step]:g}\n{values}")
        for axes in row[: 1 + len(some)]:
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="0.8")
        for axes in row[1 + len(some) :]:
            axes.set_axis_off()
    return figure


def _shown(count: int) -> list[int]:
    """Indices of the weights that are drawn: all of a short path, else some at equal distances."""
    return sorted({round(step) for step in np.linspace(0, count - 1, min(count, ACROSS - 1))})


def _scatter(axes: Any, one: Points, colours: NDArray[np.integer]) -> None:
    for group in range(len(one.names)):
        of = one.groups == group
        axes.scatter(
            one.plane[of, 0],
            one.plane[of, 1],
            s=max(0.6, min(6, 8000 / len(one.plane))),
            c=[COLOURS[colour % len(COLOURS)] for colour in colours[of]],
            marker=SHAPES[group % len(SHAPES)],
            linewidths=0,
            rasterized=True,
        )


def fair_partitions_caption(results: Sequence[FairResult]) -> str:
    """What is drawn."""
    methods = ", ".join(dict.fromkeys(method_title(result.config) for result in results))
    return (
        f"Left: the groups; then the clusters of {methods} as the weight λ of fairness grows, with the fairness error, "
        f"the sum over clusters of KL(U || P), and the least balance of a cluster ({of_paths(results)}). Shapes are "
        "groups, colours are clusters. The method sees rows divided by their length, that is, angles."
    )


def of_points(configs: Sequence[FairConfig]) -> None:
    """Check that the methods have a weight, and that each row of plots has one path.

    Raises:
        InputError: they have none, or several paths.
    """
    fair_trade_off_check(configs)
    names = [config.dataset.name for config in configs]
    if len(set(names)) < len(names):
        raise InputError("the figure has one path for each data set; give one value of each other key")


PARTITIONS = Drawing(schema=FairConfig, check=of_points, draw=partitions_figure, caption=fair_partitions_caption)
