"""The discrete objective that methods reach, against the weight of the Laplacian (thesis, Figure 2.2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import Drawn, drawn, method_titles, on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, COLUMN, PAGE, new_grid, series, styled
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Mapping[float, NDArray[np.floating]]  # values of all starts, by weight


@styled
def energy_figure(panels: Mapping[str, Mapping[str, Curve]], accuracies: Mapping[str, Mapping[str, Curve]]) -> "Figure":
    """A column for each data set: E against the weight and, where classes are known, the accuracy below. Lines are
    means over starts; bands are ranges from the lowest to the highest.

    Args:
        panels: E by data set, by method.
        accuracies: accuracies in [0, 1], likewise; empty where no classes are known.
    """
    down = 2 if any(accuracies.values()) else 1
    figure, grid = new_grid(down, len(panels), COLUMN if len(panels) == 1 else PAGE, 0.4 + 1.9 * down)
    for column, (name, curves) in enumerate(panels.items()):
        _draw(grid[0][column], curves, 1)
        grid[0][column].set_title(name)
        if down == 2:
            _draw(grid[1][column], accuracies.get(name, {}), 100)
        grid[-1][column].set_xlabel("weight λ")
    grid[0][0].set_ylabel("discrete objective E")
    if down == 2:
        grid[1][0].set_ylabel("accuracy (%)")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _draw(axes: "Axes", curves: Mapping[str, Curve], unit: float) -> None:
    for i, (name, curve) in enumerate(curves.items()):
        weights = sorted(curve)
        reached = [unit * np.asarray(curve[weight]) for weight in weights]
        axes.plot(weights, [one.mean() for one in reached], label=name, **series(i))
        low, high = [one.min() for one in reached], [one.max() for one in reached]
        axes.fill_between(weights, low, high, color=COLOURS[i % len(COLOURS)], alpha=0.15, linewidth=0)
    axes.grid(axis="y", alpha=0.3)


def draw(results: Sequence[Drawn]) -> "Figure":
    """A column for each data set, a line for each method."""
    return energy_figure(_curves(results, "objective"), _curves(results, "acc_hungarian"))


def caption(results: Sequence[Drawn]) -> str:
    """What is drawn, and over how many starts."""
    starts = either(result.config.fits for result in results)
    return (
        "The discrete objective E of eq. 2.4, which counts each arc in both directions with the weight λ, for the "
        f"labels and prototypes of each method: mean over {starts} starts, the same for all methods, and the range "
        "from the lowest to the highest. Below: accuracy under the best match of clusters and classes."
    )


def check(configs: Sequence[ClusterConfig]) -> None:
    """Check that the methods have a weight.

    Raises:
        InputError: one has none.
    """
    for config in configs:
        if "weight" not in config.method.options:
            raise InputError(f"method {config.method.name} has no weight for the figure to vary; leave it out")


def _curves(results: Sequence[Drawn], score: str) -> dict[str, dict[str, dict[float, NDArray[np.floating]]]]:
    """Values of a score of all starts, by data set, method and weight."""
    panels: dict[str, dict[str, dict[float, NDArray[np.floating]]]] = {}
    titles = method_titles([result.config for result in results], leave_out=["weight"])
    for result, title in zip(results, titles, strict=True):
        trials = result.clustered.trials
        values = trials.objective if score == "objective" else trials.scores.get(score)
        if values is not None:
            curves = panels.setdefault(short(result.config.dataset), {}).setdefault(title, {})
            curves[float(result.config.method.options["weight"])] = values[trials.given]
    return panels


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={
        "method": "slk_mean_shift,lk",
        "weight": "0.1,0.25,0.5,1.0,1.5,2.0,3.0,4.0",
        "starts": "5",
        "selection": "null",
    },
    networks=({"dataset": "mnist_small", "normalize": "l2"},),
    elsewhere=on_dataset,
    check=check,
    read=drawn,
    draw=draw,
    caption=caption,
)
