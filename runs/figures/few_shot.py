"""Figures of few-shot classification (thesis, Figures 4.1 and 4.2), and of strategies with class names."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.figures.lines import lines_figure, summary
from runs.figures.style import COLUMN, count_steps, new_figure, series, styled
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
    """The points of `lines_figure`: accuracies in % by weight, of each number of shots (quantity), network (panel) and
    split (line), with their 95 % intervals, and the chosen weight."""
    rows = []
    for tuning, (shot, network) in zip(tunings, places([tuning.config for tuning in tunings]), strict=True):
        assert tuning.novel is not None
        last = tuning.curves[-1]
        where = {"quantity": f"{shot} accuracy (%)", "panel": network, "chosen": last.chosen.values[FIELD]}
        for classes, curve in ((last.step.split, last), ("novel", tuning.novel)):
            for trial in curve.trials:
                mean, half = 100 * trial.result.accuracy, 100 * trial.result.ci95
                point = {"x": trial.values[FIELD], "mean": mean, "low": mean - half, "high": mean + half}
                rows.append(where | {"line": f"{classes} classes"} | point)
    return pd.DataFrame(rows)


def tuned_weight(tunings: Sequence[Tuning]) -> "tuple[Figure, dict[str, str]]":
    """A row for each number of shots, a column for each network: both curves, and the chosen weight."""
    frame = weight_curves(tunings)
    shots = sorted(frame["quantity"].unique(), key=lambda name: (len(name), name))  # 1-shot, 5-shot, 10-shot
    frame = frame.sort_values("quantity", key=lambda column: column.map(shots.index), kind="stable")
    networks = frame["panel"].unique()
    figure = lines_figure(frame, "weight λ")
    for axes, (shot, network) in zip(figure.axes, itertools.product(shots, networks), strict=False):
        for weight in frame[(frame["quantity"] == shot) & (frame["panel"] == network)]["chosen"].unique():
            axes.axvline(weight, color="#555555", linewidth=0.8, linestyle=":")
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
    figure = lines_figure(summary(frame, "interval"), "classes present", ticks=names)
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
