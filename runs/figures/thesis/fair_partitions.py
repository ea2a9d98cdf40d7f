"""Clusters of fair K-means as the fairness weight grows (thesis, Figure 3.3)."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.profiles import principal_plane
from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig
from runs.figures.drawing import Drawing
from runs.figures.style import COLOURS, PAGE, new_grid, styled
from runs.figures.thesis.fair_drawn import data_title, method_title, of_paths
from runs.figures.thesis.fair_trade_off import check
from runs.figures.thesis.partitions import matched
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import points_of, recorded_fair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def caption(results: Sequence[FairResult]) -> str:
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
    check(configs)
    names = [config.dataset.name for config in configs]
    if len(set(names)) < len(names):
        raise InputError("the figure has one path for each data set; give one value of each other key")


DRAWING = Drawing(
    schema=FairConfig,
    settings={"method": "fair_kmeans", "fairness_weight": "[0, 10, 60, 5000]"},
    networks=({"dataset": "synthetic"}, {"dataset": "synthetic_unequal"}),
    elsewhere=lambda name: {"dataset": name, "fairness_weight": "null"},
    check=of_points,
    read=recorded_fair,
    draw=partitions_figure,
    caption=caption,
)
