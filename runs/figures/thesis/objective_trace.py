"""The objective of one task, iteration by iteration, on the features of each network (thesis, Figure 4.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig
from runs.figures.drawing import Drawing, plot_names
from runs.figures.style import COLUMN, new_figure, series, styled
from runs.figures.thesis.tuned_weight import NETWORKS
from runs.stages.lineage import short
from runs.stages.pipeline import recorded_evaluation
from runs.stages.results import Result, in_common

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = 0  # the first task of the seed


@styled
def trace_figure(results: Sequence[Result]) -> "Figure":
    """A curve for each result: R at the start and after each iteration, until the task stopped.

    Raises:
        InputError: a strategy has no objective.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(COLUMN, 2.4)
    names = plot_names([result.config for result in results])
    for i, (result, name) in enumerate(zip(results, names, strict=True)):
        trace = _trace(result)[:, TASK]
        trace = trace[~np.isnan(trace)]
        axes.plot(np.arange(len(trace)), trace, label=name, **series(i))
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective R of one task")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper right")
    return figure


def trace_caption(results: Sequence[Result]) -> str:
    """What is drawn."""
    strategies = ", ".join(
        dict.fromkeys(f"{short(r.config.strategy)} at λ = {r.config.strategy.options.get('weight')}" for r in results)
    )
    benchmarks = ", ".join(dict.fromkeys(short(result.config.benchmark) for result in results))
    return (
        f"The objective of {strategies} at the start and after each iteration, for the first task on {benchmarks} "
        f"({in_common(results)})."
    )


def _trace(result: Result) -> NDArray[np.floating[Any]]:
    """(steps, tasks) objective, NaN after a task has stopped."""
    if result.trace is None:
        raise InputError(
            f"run {result.run_id}: {short(result.config.strategy)} has no objective to draw; "
            "give one that has, such as strategy=laplacianshot"
        )
    return result.trace


DRAWING = Drawing(
    schema=EvaluateConfig,
    settings={"benchmark": "mini", "strategy": "laplacianshot", "weight": "1.0", "shot": "5", "tasks": "256"},
    networks=NETWORKS,
    read=recorded_evaluation,
    draw=trace_figure,
    caption=trace_caption,
)
