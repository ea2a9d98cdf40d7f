"""Eigengaps and maps of learned features of XSDC (Jones, Roulet and Harchaoui, Figures 4, 7 and 13)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.curves import accuracy, assignment
from runs.figures.lines import lines_figure
from runs.figures.style import PAGE, new_grid, scatter, styled, without_numbers
from runs.figures.titles import either
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STAGE = ("supervised_steps", "steps")


def gaps(results: Sequence[Clustered]) -> pd.DataFrame:
    """Logarithms of eigengaps as a tidy frame: penalty, panel, line, run, x (the step), log (NaN for a gap of 0)."""
    frames = []
    for run, result in enumerate(results):
        values, penalty = result.trials.eigengaps, float(result.config.method.options["penalty"])
        if values is None:
            raise InputError(f"run {result.run_id} records no eigengaps; give method=xsdc with starts=1")
        logs, power = np.log(np.where(values > 0, values, np.nan)), np.log2(penalty)
        panel = f"penalty $2^{{{power:.0f}}}$" if power == round(power) else f"penalty {penalty:g}"
        frame = pd.DataFrame({"x": np.arange(1, len(values) + 1), "log": logs, "run": run, "panel": panel})
        frames.append(frame.assign(penalty=penalty, line=assignment(result.config)))
    return pd.concat(frames).sort_values("penalty", kind="stable")


def eigengaps(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each penalty: geometric means over seeds, and bars of one standard deviation of the logarithms."""
    frame = gaps(results)
    logs = frame.groupby(["penalty", "panel", "line", "x"], sort=False)["log"]
    mean, deviation = logs.mean(), logs.std().fillna(0)
    mean = mean.where(logs.count() == logs.size())  # a gap of 0 has no logarithm
    points = {"mean": np.exp(mean), "low": np.exp(mean - deviation), "high": np.exp(mean + deviation)}
    shown = pd.DataFrame(points).reset_index().assign(quantity="eigengap")
    figure = lines_figure(shown, "step")
    for axes in figure.axes:
        axes.set_yscale("log")
    ends: dict[float, list[str]] = {}
    last_steps = shown.groupby(["penalty", "line"], sort=False).tail(1)
    for penalty, name, end in last_steps[["penalty", "line", "mean"]].itertuples(index=False):
        ends.setdefault(penalty, []).append(f"{name} {end:.1e}")
    return figure, {
        "seeds": either(frame.groupby(["penalty", "line"])["run"].nunique()),
        "ends": "; ".join(f"at {penalty:.2g}: {', '.join(last)}" for penalty, last in ends.items()),
    }


def title(config: ClusterConfig) -> str:
    """Name of the stage at which a training ends."""
    options = config.method.options
    first, steps = options["supervised_steps"] if config.asked_labels() else 0, options["steps"]
    if not steps:
        return f"{first} supervised steps" if first else "untrained"
    return f"then {steps} steps on all" if first else f"{steps} steps"


@styled
def maps(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A row of maps for each data set and seed, in the order of the stages. A point is the number of its class."""
    rows: dict[tuple[str, int], list[Clustered]] = {}
    for result in sorted(results, key=lambda one: [one.config.method.options[name] for name in STAGE]):
        rows.setdefault((short(result.config.dataset), result.config.seed), []).append(result)
    across, counts = max(map(len, rows.values())), []
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
            counts.append(len(points))
            for k in np.unique(classes):
                of = points[classes == k]
                scatter(axes, of, np.full(len(of), k), marker=f"${k}$", area=9)
            axes.set_title(f"{title(result.config)}\naccuracy {accuracy(result):.1f} %")
            without_numbers(axes)
    return figure, {"points": either(counts)}
