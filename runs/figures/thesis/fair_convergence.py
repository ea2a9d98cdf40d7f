"""E of fair clustering by update, for three objectives (thesis, Figure 3.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import FairConfig
from runs.figures.drawing import Drawing
from runs.figures.style import COLUMN, PAGE, new_row, series, styled
from runs.figures.thesis.fair_drawn import method_title, of_paths
from runs.figures.thesis.fair_trade_off import check
from runs.stages.fair.results import FairResult
from runs.stages.fair.stage import recorded_fair

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def caption(results: Sequence[FairResult]) -> str:
    """What is drawn."""
    return (
        "E, the clustering objective of the assignments plus the weighted fairness term, after each update of "
        "prototypes and assignments (of the cut: of assignments), at the largest weight of the path, which starts "
        f"where the weight before it ended ({of_paths(results)})."
    )


DRAWING = Drawing(
    schema=FairConfig,
    settings={"dataset": "synthetic"},
    networks=(  # without smaller weights before, so that there is a way to go
        {"method": "fair_kmeans", "fairness_weight": "[60]", "rungs": "0"},
        {"method": "fair_ncut", "fairness_weight": "[10]", "rungs": "0"},
        {"method": "fair_kmedian", "fairness_weight": "[85]", "rungs": "0"},
    ),
    elsewhere=lambda name: {"dataset": name, "method": "fair_kmeans,fair_ncut,fair_kmedian"},
    check=check,
    read=recorded_fair,
    draw=convergence_figure,
    caption=caption,
)
