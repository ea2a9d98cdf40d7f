"""How far the modes move from one update to the next (thesis, Figure 2.3)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import datasets, method_titles, on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLUMN, PAGE, new_row, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def movements_figure(panels: Mapping[str, NDArray[np.floating]]) -> "Figure":
    """Draw a plot for each method, with a line for each cluster.

    Args:
        panels: (updates, K) Euclidean distance that each mode moves in each update, by title of the plot.
    """
    from matplotlib.ticker import MaxNLocator

    figure, plots = new_row(len(panels), COLUMN if len(panels) == 1 else PAGE, 2.4)
    for axes, (title, movements) in zip(plots, panels.items(), strict=True):
        steps = np.arange(1, len(movements) + 1)
        for k in range(movements.shape[1]):
            axes.plot(steps, movements[:, k], **{**series(k), "markersize": 3, "linewidth": 0.9})
        axes.set_title(title)
        axes.set_xlabel("update of the modes")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", alpha=0.3)
    plots[0].set_ylabel("distance to the next place")
    return figure


def draw(results: Sequence[Clustered]) -> "Figure":
    """Draw a plot for each clustering.

    Raises:
        InputError: a method records no movements of modes.
    """
    return movements_figure(dict(zip(_titles(results), map(_movements, results), strict=True)))


def caption(results: Sequence[Clustered]) -> str:
    """Return a caption with the number of starts."""
    configs = [result.config for result in results]
    starts = either(config.fits for config in configs)
    return (
        "Euclidean distance from each cluster's mode to its place after the next update, a line for each cluster of "
        f"{datasets(configs)}; the best of {starts} starts by the method's own criterion."
    )


def _titles(results: Sequence[Clustered]) -> list[str]:
    configs = [result.config for result in results]
    names = method_titles(configs)
    several = len({short(config.dataset) for config in configs}) > 1
    return [
        f"{name}, {short(config.dataset)}" if several else name for name, config in zip(names, configs, strict=True)
    ]


def _movements(result: Clustered) -> NDArray[np.floating]:
    movements = result.trials.mode_movements
    if movements is None:
        raise InputError(
            f"{short(result.config.method)} records no movements of modes; give method=slk_byproduct,slk_mean_shift"
        )
    return movements


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={"method": "slk_byproduct_as_published,slk_mean_shift_as_published", "selection": "null"},
    networks=({"dataset": "mnist_gan"},),
    elsewhere=on_dataset,
    read=recorded_clustering,
    draw=draw,
    caption=caption,
)
