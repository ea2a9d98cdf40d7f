"""Eigengaps and maps of learned features of XSDC (Jones, Roulet and Harchaoui, Figures 4, 7 and 13)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import by_seed
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLOURS, COLUMN, PAGE, new_grid, new_row, series, styled
from runs.figures.xsdc_curves import assignment
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

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


def eigengaps_caption(results: Sequence[Clustered]) -> str:
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


EIGENGAPS = Drawing(
    schema=ClusterConfig, draw=lambda results: eigengaps_figure(gaps(results)), caption=eigengaps_caption
)


def title(config: ClusterConfig) -> str:
    """Name of the stage at which a training ends."""
    options = config.method.options
    first, steps = options["supervised_steps"] if config.asked_labels() else 0, options["steps"]
    if not steps:
        return f"{first} supervised steps" if first else "untrained"
    return f"then {steps} steps on all" if first else f"{steps} steps"


@styled
def maps_figure(results: Sequence[Clustered]) -> "Figure":
    """Draw a row of maps for each data set and seed, in the order of the stages. A point is the number of its class.

    Raises:
        InputError: a run has no map, or the classes are unknown.
    """
    rows: dict[tuple[str, int], list[Clustered]] = {}
    for result in sorted(results, key=lambda result: _stage(result.config)):
        rows.setdefault((short(result.config.dataset), result.config.seed), []).append(result)
    across = max(map(len, rows.values()))
    figure, grid = new_grid(len(rows), across, PAGE, 0.2 + len(rows) * (PAGE / max(across, 3) + 0.25))
    for line, row in zip(grid, rows.values(), strict=True):
        for axes in line[len(row) :]:
            axes.set_axis_off()
        for axes, result in zip(line, row, strict=False):
            points, classes = result.trials.feature_map, result.trials.mapped_classes
            if points is None or classes is None:
                raise InputError(
                    f"run {result.run_id} has no map of points with classes; give map_points=2000, and data that "
                    "have classes"
                )
            for k in sorted(set(classes.tolist())):
                of = points[classes == k]
                colour = COLOURS[k % len(COLOURS)]
                axes.scatter(of[:, 0], of[:, 1], s=9, c=colour, marker=f"${k}$", linewidths=0, rasterized=True)
            axes.set_title(f"{title(result.config)}\naccuracy {100 * by_seed(result)[result.config.seed]:.1f} %")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="0.8")
    return figure


def _stage(config: ClusterConfig) -> tuple[int, int]:
    options = config.method.options
    return int(options["supervised_steps"]), int(options["steps"])


def _drawing(about: str) -> Drawing:
    """A figure of the stages of trainings; `about`: what it shows, for the caption."""

    def caption(results: Sequence[Clustered]) -> str:
        counts = either(len(found) for result in results if (found := result.trials.feature_map) is not None)
        return f"{about} t-SNE maps of the features of {counts} points of which nothing is known, as class numbers."

    return Drawing(schema=ClusterConfig, draw=maps_figure, caption=caption)


STAGES = _drawing("Learned features at stages of the training with 50 labels.")
CONSTRAINED = _drawing(
    "Learned features at stages of the training with 50 labels, where it is also known of half the points whether "
    "their class is one of two. The map is of the other half."
)
