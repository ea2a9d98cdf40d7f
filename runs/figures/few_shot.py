"""Figures of few-shot classification (thesis, Figures 4.1 and 4.2), and of strategies with class names."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.figures.accuracy_along import Line, Quantity, lines_figure
from runs.figures.drawing import Drawing, plot_names
from runs.figures.style import COLOURS, COLUMN, PAGE, new_figure, new_grid, series, styled
from runs.stages.curves import Curve
from runs.stages.lineage import short, weights_name
from runs.stages.results import Result, in_common
from runs.stages.tuning import Tuning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIELD = "weight"


@styled
def weight_figure(tunings: Sequence[Tuning]) -> "Figure":
    """A row for each number of shots, a column for each network: both curves, and the chosen weight."""
    plots = _plots(tunings)
    rows = sorted({row for row, _ in plots}, key=lambda row: (len(row), row))  # 1-shot, 5-shot, 10-shot
    columns = list(dict.fromkeys(column for _, column in plots))
    width = COLUMN if len(columns) == 1 else PAGE
    figure, grid = new_grid(len(rows), len(columns), width, 0.5 + 1.75 * len(rows))
    drawn = {place: grid[rows.index(place[0])][columns.index(place[1])] for place in plots}
    for (row, column), axes in drawn.items():
        tuning = plots[row, column]
        assert tuning.novel is not None
        for i, curve in enumerate((tuning.curves[-1], tuning.novel)):
            name = f"{tuning.curves[-1].step.split if i == 0 else 'novel'} classes"
            _draw_curve(axes, [trial.values[FIELD] for trial in curve.trials], curve, name, i)
        chosen = tuning.curves[-1].chosen.values[FIELD]
        axes.axvline(chosen, color="#555555", linewidth=0.8, linestyle=":", label="chosen")
        axes.grid(axis="y", alpha=0.3)
    for row, line in zip(rows, grid, strict=True):
        next(axes for axes in line if axes in drawn.values()).set_ylabel(f"{row} accuracy (%)")
    for column, *pile in zip(columns, *grid, strict=True):
        pile[0].set_title(column)
        next(axes for axes in reversed(pile) if axes in drawn.values()).set_xlabel("weight λ")
    for axes in [axes for line in grid for axes in line if axes not in drawn.values()]:
        axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
    handles, labels = next(iter(drawn.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _draw_curve(axes: "Axes", places: Sequence[float], curve: Curve, label: str, i: int) -> None:
    """Draw the i-th curve: mean accuracies in %, with their 95 % intervals as a band."""
    means = np.array([100 * trial.result.accuracy for trial in curve.trials])
    widths = np.array([100 * trial.result.ci95 for trial in curve.trials])
    axes.plot(places, means, label=label, **series(i))
    axes.fill_between(places, means - widths, means + widths, color=COLOURS[i], alpha=0.15, linewidth=0)


def weight_caption(tunings: Sequence[Tuning]) -> str:
    """What is drawn, and on how many tasks."""
    curves = [curve for tuning in tunings for curve in (tuning.curves[-1], tuning.novel) if curve]
    strategies, benchmarks = (
        ", ".join(dict.fromkeys(short(choice) for choice in choices))
        for choices in ([t.config.strategy for t in tunings], [t.config.benchmark for t in tunings])
    )
    chosen_on = " and ".join(
        sorted({f"{t.curves[-1].step.tasks:,} of {t.curves[-1].step.split} classes" for t in tunings})
    )
    novel = " and ".join(sorted({f"{t.config.novel_tasks:,}" for t in tunings}))
    return (
        f"Mean accuracy of {strategies} on {benchmarks} against the weight λ of the neighbour graph, with 95 % "
        f"intervals over tasks; all weights of a curve are on the same tasks: {chosen_on}, where the marked weight was "
        f"chosen, and {novel} of novel classes, evaluated after the choice "
        f"({in_common([trial.result for curve in curves for trial in curve.trials])})."
    )


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


def _plots(tunings: Sequence[Tuning]) -> dict[tuple[str, str], Tuning]:
    """Tunings by row and column of their plot."""
    return dict(zip(places([tuning.config for tuning in tunings]), tunings, strict=True))


TUNED_WEIGHT = Drawing(schema=TuneConfig, check=places, draw=weight_figure, caption=weight_caption)

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


OBJECTIVE_TRACE = Drawing(schema=EvaluateConfig, draw=trace_figure, caption=trace_caption)

ACROSS = 4  # panels side by side


def regimes_figure(results: Sequence[Result]) -> "Figure":
    """A panel for each strategy, a line for each file of features, with 95 % intervals over tasks or, for one task,
    over its queries."""
    names = list(dict.fromkeys(_regime(result.config) for result in results))
    panels: dict[str, dict[str, Line]] = {}
    for result in results:
        lines = panels.setdefault(short(result.config.strategy).replace("_", " "), {})
        line = lines.setdefault(weights_name(result.config), {})
        line.setdefault(names.index(_regime(result.config)), {}).update(enumerate(result.by_unit.tolist()))
    quantity, titles = Quantity("accuracy (%)", lambda _: {}, 100.0), list(panels)
    rows = [(quantity, {t: panels[t] for t in titles[i : i + ACROSS]}) for i in range(0, len(titles), ACROSS)]
    figure = lines_figure(rows, "classes present", bars="interval", ticks=names)
    lowest = min(axes.get_ylim()[0] for axes in figure.axes if axes.axison)
    for axes in figure.axes:
        axes.set_ylim(lowest, 101)
    return figure


def regimes_caption(results: Sequence[Result]) -> str:
    """What is drawn, and what the intervals are over."""
    counts = sorted({len(result.accuracies) for result in results})
    tasks = f"{counts[-1]} tasks" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} tasks"
    return (
        "Accuracy of strategies with class names by the number of classes that the queries are from; every class is "
        f"named. Mean over {tasks} with 95 % intervals, of a single task over its queries."
    )


def _regime(config: EvaluateConfig) -> str:
    """The classes present, for an axis: "1-4", "all" and, for all pictures at once, "set"."""
    options = config.sampler.options
    if "classes_min" not in options:
        return "set"
    least, most = options["classes_min"], options["classes_max"]
    return "all" if most in (None, least) else f"{least}-{most}"


REGIMES = Drawing(schema=EvaluateConfig, draw=regimes_figure, caption=regimes_caption)
