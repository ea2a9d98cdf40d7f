"""The eigengap of the dissimilarities along the training without labels (XSDC, Jones, Roulet and Harchaoui, Figure
13), of the runs of Figure 12."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLUMN, PAGE, new_row, series, styled
from runs.figures.xsdc.curves import WITHOUT_LABELS, WITHOUT_LABELS_ELSEWHERE, assignment
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Gaps = Mapping[float, Mapping[str, NDArray[np.float64]]]
"""(seeds, steps) eigengaps, by penalty and name of the method."""


def gaps(results: Sequence[Clustered]) -> Gaps:
    """Return the eigengaps of the runs of all seeds, by ascending penalty.

    Raises:
        InputError: a run has none, or the runs of a method have different numbers of steps.
    """
    found: dict[float, dict[str, list[NDArray[np.float64]]]] = {}
    for result in sorted(results, key=lambda result: float(result.config.method.options["penalty"])):
        values = result.trials.eigengaps
        if values is None:
            raise InputError(f"run {result.run_id} records no eigengaps; give method=xsdc with starts=1")
        panel = found.setdefault(float(result.config.method.options["penalty"]), {})
        panel.setdefault(assignment(result.config), []).append(values)
    if any(len(set(map(len, runs))) > 1 for panel in found.values() for runs in panel.values()):
        raise InputError("the runs of one curve have different numbers of steps; give one value of steps")
    return {penalty: {name: np.stack(runs) for name, runs in panel.items()} for penalty, panel in found.items()}


@styled
def eigengaps_figure(panels: Gaps) -> "Figure":
    """Draw a plot for each penalty: geometric means over seeds, and bands of one standard deviation of the logarithms.

    A gap of 0 is left out.
    """
    figure, plots = new_row(len(panels), COLUMN if len(panels) == 1 else PAGE, 2.4)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    drawn = {}
    for axes, (penalty, panel) in zip(plots, panels.items(), strict=True):
        for name, values in panel.items():
            steps, logs = np.arange(1, values.shape[1] + 1), np.log(np.where(values > 0, values, np.nan))
            mean, deviation = logs.mean(axis=0), logs.std(axis=0, ddof=1) if len(logs) > 1 else 0.0
            look = series(names.index(name)) | {"markevery": max(1, values.shape[1] // 6)}
            (drawn[name],) = axes.plot(steps, np.exp(mean), label=name, **look)
            band = np.exp(mean - deviation), np.exp(mean + deviation)
            axes.fill_between(steps, *band, color=look["color"], alpha=0.2, linewidth=0)
        power = np.log2(penalty)
        axes.set_title(f"penalty $2^{{{power:.0f}}}$" if power == round(power) else f"penalty {penalty:g}")
        axes.set_xlabel("step")
        axes.set_yscale("log")
        axes.grid(axis="y", alpha=0.3)
    plots[0].set_ylabel("eigengap")
    figure.legend(
        list(drawn.values()), list(drawn), loc="outside upper center", ncols=len(drawn) if len(plots) > 1 else 1
    )
    return figure


def caption(results: Sequence[Clustered]) -> str:
    """Return a caption with the gaps at the last step."""
    panels = gaps(results)
    seeds = either(len(values) for panel in panels.values() for values in panel.values())
    ends = "; ".join(
        f"at {penalty:.2g}: " + ", ".join(f"{name} {_mean(values[:, -1]):.1e}" for name, values in panel.items())
        for penalty, panel in panels.items()
    )
    return (
        "Gap between the eigenvalues K and K + 1 of the dissimilarities A of a batch, along the training without "
        "labels, for three ways to find the matrix M. The gap is about proportional to a small penalty, so only "
        f"curves of one penalty are compared. Geometric means and standard deviations over {seeds} seeds. "
        f"Last step, {ends}."
    )


def _mean(values: NDArray[np.float64]) -> float:
    """Return the geometric mean; 0 if a value is 0."""
    return float(np.exp(np.log(values).mean())) if (values > 0).all() else 0.0


DRAWING = Drawing(
    schema=ClusterConfig,
    settings={},
    networks=(WITHOUT_LABELS,),
    elsewhere=lambda name: {**WITHOUT_LABELS_ELSEWHERE, **on_dataset(name)},
    read=recorded_clustering,
    draw=lambda results: eigengaps_figure(gaps(results)),
    caption=caption,
)
