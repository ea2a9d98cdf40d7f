"""Figures of few-shot classification (thesis, Figures 4.1 and 4.2), and of strategies with class names."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.figures.lines import lines_figure
from runs.figures.style import COLOURS, COLUMN, PAGE, count_steps, new_figure, new_grid, series, styled
from runs.stages.lineage import short, weights_name
from runs.stages.results import Result, in_common
from runs.stages.tuning import Tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIELD = "weight"
TASK = 0  # the first task of the seed


def plot_names(configs: Sequence[EvaluateConfig | TuneConfig]) -> list[str]:
    """Names of the plots of configs: the network, or the file of its weights, and what else differs between them."""
    parts = [
        (short(one.strategy), short(one.benchmark), weights_name(one) or short(one.backbone), f"seed {one.seed}")
        for one in configs
    ]
    kept = [i for i in range(4) if i == 2 or len({part[i] for part in parts}) > 1]
    return [", ".join(part[i] for i in kept) for part in parts]


def places(configs: Sequence[TuneConfig]) -> list[tuple[str, str]]:
    """Row and column of the plot of each config: its shots and its network.

    Raises:
        InputError: two configs have the same plot, or one varies more than the weight.
    """
    known: list[tuple[str, str]] = []
    for config, column in zip(configs, plot_names(configs), strict=True):
        varied = tuple(steps_of(config.tuning, config.strategy)[-1].grids) if config.strategy.grids else ()
        if varied != (FIELD,):
            raise InputError(
                f"the figure shows accuracy against the {FIELD}, and tuning={config.tuning} varies "
                f"{', '.join(varied) or 'nothing'} of {short(config.strategy)} last; give a protocol whose last step "
                f"varies {FIELD} alone"
            )
        options = config.sampler.options
        place = (f"{options['shot']}-shot" if "shot" in options else short(config.sampler), column)
        if place in known:
            raise InputError(f"two curves for the plot of {', '.join(place)}; give one value where there are several")
        known.append(place)
    return known


def weight_curves(tunings: Sequence[Tuning]) -> pd.DataFrame:
    """Accuracies by weight as a tidy frame: row and column of the plot, classes, weight, the accuracy in % with the
    half width of its 95 % interval, and the chosen weight."""
    rows = []
    for tuning, (row, column) in zip(tunings, places([tuning.config for tuning in tunings]), strict=True):
        assert tuning.novel is not None
        last = tuning.curves[-1]
        where = {"row": row, "column": column, "chosen": last.chosen.values[FIELD]}
        for classes, curve in ((last.step.split, last), ("novel", tuning.novel)):
            for trial in curve.trials:
                numbers = {"accuracy": 100 * trial.result.accuracy, "half_width": 100 * trial.result.ci95}
                rows.append(where | {"classes": f"{classes} classes", "weight": trial.values[FIELD]} | numbers)
    return pd.DataFrame(rows)


@styled
def tuned_weight(tunings: Sequence[Tuning]) -> "tuple[Figure, dict[str, str]]":
    """A row for each number of shots, a column for each network: both curves, and the chosen weight."""
    frame = weight_curves(tunings)
    rows = sorted(frame["row"].unique(), key=lambda row: (len(row), row))  # 1-shot, 5-shot, 10-shot
    columns = list(frame["column"].unique())
    figure, grid = new_grid(len(rows), len(columns), COLUMN if len(columns) == 1 else PAGE, 0.5 + 1.75 * len(rows))
    drawn = {}
    for (row, column), panel in frame.groupby(["row", "column"], sort=False):
        axes = drawn[row, column] = grid[rows.index(row)][columns.index(column)]
        for i, (name, curve) in enumerate(panel.groupby("classes", sort=False)):
            low, high = (curve["accuracy"] + side * curve["half_width"] for side in (-1, 1))
            axes.plot(curve["weight"], curve["accuracy"], label=name, **series(i))
            axes.fill_between(curve["weight"], low, high, color=COLOURS[i], alpha=0.15, linewidth=0)
        axes.axvline(panel["chosen"].iloc[0], color="#555555", linewidth=0.8, linestyle=":", label="chosen")
        axes.grid(axis="y", alpha=0.3)
    for i, j in np.ndindex(len(rows), len(columns)):
        axes = grid[i][j]
        if (rows[i], columns[j]) not in drawn:
            axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)
            axes.set(xticks=[], yticks=[])
        if i == 0:
            axes.set_title(columns[j])
        if i == len(rows) - 1:
            axes.set_xlabel("weight λ")
        if j == 0:
            axes.set_ylabel(f"{rows[i]} accuracy (%)")
    handles, labels = next(iter(drawn.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    last = [tuning.curves[-1] for tuning in tunings]
    curves = [curve for tuning in tunings for curve in (tuning.curves[-1], tuning.novel) if curve]
    return figure, {
        "strategies": each(short(tuning.config.strategy) for tuning in tunings),
        "benchmarks": each(short(tuning.config.benchmark) for tuning in tunings),
        "chosen_on": " and ".join(sorted({f"{curve.step.tasks:,} of {curve.step.split} classes" for curve in last})),
        "novel": " and ".join(sorted({f"{tuning.config.novel_tasks:,}" for tuning in tunings})),
        "in_common": in_common([trial.result for curve in curves for trial in curve.trials]),
    }


def each(names: Iterable[str]) -> str:
    """Names, each once, as a list in a sentence."""
    return ", ".join(dict.fromkeys(names))


@styled
def objective_trace(results: Sequence[Result]) -> "tuple[Figure, dict[str, str]]":
    """A curve for each result: R at the start and after each iteration, until the first task stopped."""
    figure, axes = new_figure(COLUMN, 2.4)
    names = plot_names([result.config for result in results])
    for i, (result, name) in enumerate(zip(results, names, strict=True)):
        if result.trace is None:
            raise InputError(
                f"run {result.run_id}: {short(result.config.strategy)} has no objective to draw; "
                "give one that has, such as strategy=laplacianshot"
            )
        trace = result.trace[:, TASK]
        axes.plot(trace[~np.isnan(trace)], label=name, **series(i))
    axes.set_ylabel("objective R of one task")
    count_steps(axes, "iteration")
    axes.legend(loc="upper right")
    return figure, {
        "strategies": each(
            f"{short(r.config.strategy)} at λ = {r.config.strategy.options.get('weight')}" for r in results
        ),
        "benchmarks": each(short(result.config.benchmark) for result in results),
        "in_common": in_common(results),
    }


def regimes(results: Sequence[Result]) -> "tuple[Figure, dict[str, str]]":
    """A panel for each strategy, a line for each file of features, with 95 % intervals over tasks or, for one task,
    over its queries."""
    names = list(dict.fromkeys(_regime(result.config) for result in results))
    frame = pd.concat(
        pd.DataFrame({"value": 100 * result.by_unit}).assign(
            quantity="accuracy (%)",
            panel=short(result.config.strategy).replace("_", " "),
            line=weights_name(result.config),
            x=names.index(_regime(result.config)),
        )
        for result in results
    )
    figure = lines_figure(frame, "classes present", bars="interval", ticks=names)
    lowest = min(axes.get_ylim()[0] for axes in figure.axes if axes.axison)
    for axes in figure.axes:
        axes.set_ylim(lowest, 101)
    counts = sorted({len(result.accuracies) for result in results})
    tasks = f"{counts[-1]} tasks" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} tasks"
    return figure, {"tasks": tasks}


def _regime(config: EvaluateConfig) -> str:
    """The classes present, for an axis: "1-4", "all" and, for all pictures at once, "set"."""
    options = config.sampler.options
    if "classes_min" not in options:
        return "set"
    least, most = options["classes_min"], options["classes_max"]
    return "all" if most in (None, least) else f"{least}-{most}"
