"""Objective and fairness error against the fairness weight (thesis, Figure 3.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig
from runs.figures.drawing import Drawing
from runs.figures.style import COLOURS, COLUMN, LINES, MARKERS, PAGE, new_grid, styled
from runs.figures.thesis.fair_drawn import data_title, method_title, of_paths
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import recorded_fair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

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


def caption(results: Sequence[FairResult]) -> str:
    """What is drawn."""
    return (
        "Objective F of the labels about their own prototypes (circles, left axis) and their fairness error, the sum "
        f"over clusters of KL(U || P) (crosses, right axis), against the weight of fairness ({of_paths(results)})."
    )


def check(configs: Sequence[FairConfig]) -> None:
    """Check that the methods have a weight.

    Raises:
        InputError: one has none.
    """
    for config in configs:
        if not hasattr(config.method.kind, "path"):
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


def on_dataset(name: str) -> dict[str, str]:
    """Settings that replace the paper's data sets."""
    return {"dataset": name, "method": "fair_ncut,fair_kmeans"}


_CUT = {"method": "fair_ncut", "n_neighbors": "20"}
_MEANS = {"method": "fair_kmeans"}
_LARGE = {"n_init": "1", "max_iter": "60"}  # 30,000 points and more
DRAWING = Drawing(
    schema=FairConfig,
    settings={},
    networks=(  # those of the cut are the runs of Table 3.3
        {**_CUT, "dataset": "synthetic_unequal", "fairness_weight": "[0, 0.1, 0.3, 1, 3, 10, 100]"},
        {**_CUT, **_LARGE, "dataset": "adult_thesis", "fairness_weight": "[0, 0.3, 1, 3, 10]"},
        {**_CUT, **_LARGE, "dataset": "bank_thesis", "fairness_weight": "[0, 0.3, 1, 3, 10]"},
        {**_MEANS, "dataset": "synthetic_unequal", "fairness_weight": "[0, 1, 3, 10, 30, 60, 200, 500, 5000]"},
        {**_MEANS, **_LARGE, "dataset": "adult_thesis", "fairness_weight": "[0, 1.0e-5, 1.0e-4, 1.0e-3, 0.01]"},
        {**_MEANS, **_LARGE, "dataset": "bank_thesis", "fairness_weight": "[0, 0.1, 1, 10, 100]"},
    ),
    elsewhere=on_dataset,
    check=check,
    read=recorded_fair,
    draw=trade_off_figure,
    caption=caption,
)
