"""Eigengaps and maps of learned features of XSDC (Jones, Roulet and Harchaoui, Figures 4, 7 and 13)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.curves import accuracy, assignment
from runs.figures.style import COLUMN, PAGE, new_grid, scatter, series, styled, without_numbers
from runs.figures.titles import either
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def gaps(results: Sequence[Clustered]) -> pd.DataFrame:
    """The logarithms of eigengaps as a tidy frame: penalty, method, run, step, log (NaN for a gap of 0)."""
    frames = []
    for run, result in enumerate(results):
        values, options = result.trials.eigengaps, result.config.method.options
        if values is None:
            raise InputError(f"run {result.run_id} records no eigengaps; give method=xsdc with starts=1")
        logs = np.log(np.where(values > 0, values, np.nan))
        frame = pd.DataFrame({"step": np.arange(1, len(values) + 1), "log": logs, "run": run})
        frames.append(frame.assign(penalty=float(options["penalty"]), method=assignment(result.config)))
    return pd.concat(frames).sort_values("penalty", kind="stable")


@styled
def eigengaps(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A plot for each penalty: geometric means over seeds, and bands of one standard deviation of the logarithms."""
    frame = gaps(results)
    panels, names = frame.groupby("penalty"), list(frame["method"].unique())
    figure, (plots,) = new_grid(1, len(panels), COLUMN if len(panels) == 1 else PAGE, 2.4)
    drawn: dict[str, Any] = {}
    ends: dict[float, list[str]] = {}
    for axes, (penalty, panel) in zip(plots, panels, strict=True):
        at = float(str(penalty))
        for name, curve in panel.groupby("method", sort=False):
            logs = curve.pivot(index="step", columns="run", values="log")
            mean, deviation = logs.mean(axis=1, skipna=False), logs.std(axis=1, skipna=False)
            look = series(names.index(name)) | {"markevery": max(1, len(mean) // 6)}
            (drawn[str(name)],) = axes.plot(mean.index, np.exp(mean), label=name, **look)
            low, high = np.exp(mean - deviation), np.exp(mean + deviation)
            axes.fill_between(mean.index, low, high, color=look["color"], alpha=0.2, linewidth=0)
            ends.setdefault(at, []).append(f"{name} {np.exp(mean.iloc[-1]):.1e}")
        power = np.log2(at)
        axes.set_title(f"penalty $2^{{{power:.0f}}}$" if power == round(power) else f"penalty {at:g}")
        axes.set_xlabel("step")
        axes.set_yscale("log")
        axes.grid(axis="y", alpha=0.3)
    plots[0].set_ylabel("eigengap")
    columns = len(drawn) if len(plots) > 1 else 1
    figure.legend(list(drawn.values()), list(drawn), loc="outside upper center", ncols=columns)
    return figure, {
        "seeds": either(frame.groupby(["penalty", "method"])["run"].nunique()),
        "ends": "; ".join(f"at {penalty:.2g}: {', '.join(last)}" for penalty, last in ends.items()),
    }


def title(config: ClusterConfig) -> str:
    """Name of the stage at which a training ends."""
    options = config.method.options
    first, steps = options["supervised_steps"] if config.asked_labels() else 0, options["steps"]
    if not steps:
        return f"{first} supervised steps" if first else "untrained"
    return f"then {steps} steps on all" if first else f"{steps} steps"


def _stage(result: Clustered) -> tuple[int, int]:
    options = result.config.method.options
    return int(options["supervised_steps"]), int(options["steps"])


@styled
def maps(results: Sequence[Clustered]) -> "tuple[Figure, dict[str, str]]":
    """A row of maps for each data set and seed, in the order of the stages. A point is the number of its class."""
    rows: dict[tuple[str, int], list[Clustered]] = {}
    for result in sorted(results, key=_stage):
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
