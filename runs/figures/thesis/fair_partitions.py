"""Clusters of fair K-means as the fairness weight grows (thesis, Figure 3.3)."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from runs.storage.locks import Say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from runs.record.tracking import Tracker

ACROSS = 5  # plots in a row at most, the first of the groups
SHAPES = ("o", "^", "s", "D", "v", "P", "X")  # of groups


@dataclass(frozen=True, eq=False)
class Drawn:
    """A recorded path with its points, before rows are scaled.

    Attributes:
        result: the recorded path.
        plane: (N, 2) points, or their coordinates in the principal plane.
        groups: (N,) index of the group of each point.
        names: names of the groups.
    """

    result: FairResult
    plane: NDArray[Any]
    groups: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def config(self) -> FairConfig:
        return self.result.config

    @property
    def run_id(self) -> str:
        return self.result.run_id


def drawn(config: FairConfig, tracker: "Tracker", say: Say) -> Drawn | None:
    """The recorded path of a config with its points; None if there is no complete one."""
    result = recorded_fair(config, tracker, say)
    if result is None:
        return None
    data = points_of(_unscaled(config))
    names, groups = np.unique(next(iter(data.sensitive.values())), return_inverse=True)
    plane = data.values if data.values.shape[1] == 2 else principal_plane(data.values)[0]
    return Drawn(result, np.asarray(plane), groups.astype(np.int64), tuple(map(str, names)))


def _unscaled(config: FairConfig) -> FairConfig:
    """The config with the points in their own units, if the data set can give them."""
    options = config.dataset.options
    if "preprocess" not in options:
        return config
    return config.replace(dataset=dataclasses.replace(config.dataset, options={**options, "preprocess": None}))


@styled
def partitions_figure(results: Sequence[Drawn]) -> "Figure":
    """A row for each data set: its groups, then its clusters at each weight. Colours: clusters; shapes: groups."""
    steps = [_shown(len(one.result.found.weights)) for one in results]
    across = 1 + max(len(some) for some in steps)
    figure, grid = new_grid(len(results), across, PAGE, 1.75 * len(results) + 0.2)
    for row, one, some in zip(grid, results, steps, strict=True):
        path, first = one.result.found, None
        _scatter(row[0], one, one.groups + 2)
        row[0].set_title(f"{data_title(one.config)}:\n{len(one.names)} groups")
        for axes, step in zip(row[1:], some, strict=False):
            labels = path.labels[step].astype(np.int64)
            first = labels if first is None else first
            _scatter(axes, one, matched(labels, first))
            axes.set_title(f"λ = {path.weights[step]:g}\nerror {path.fairness_error[step]:.2g}")
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


def _scatter(axes: Any, one: Drawn, colours: NDArray[np.integer]) -> None:
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


def caption(results: Sequence[Drawn]) -> str:
    """What is drawn, and the least balance at each weight."""
    balances = []
    for one in results:
        path = one.result.found
        least = ", ".join(f"{path.balance_min[step]:.2f}" for step in _shown(len(path.weights)))
        balances.append(f"{data_title(one.config)} {least}")
    methods = ", ".join(dict.fromkeys(method_title(one.config) for one in results))
    paths = of_paths([one.result for one in results])
    return (
        f"Left: the groups; then the clusters of {methods} as the weight λ of fairness grows, with the fairness error, "
        f"the sum over clusters of KL(U || P) ({paths}). Shapes are groups, colours are clusters. The method sees rows "
        f"divided by their length, that is, angles. Least balance: {'; '.join(balances)}."
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
    read=drawn,
    draw=partitions_figure,
    caption=caption,
)
