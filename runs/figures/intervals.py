"""Dots with intervals, a row for each name: accuracies of strategies, and their differences to one of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from runs.figures.style import COLOURS, MARKERS, PAGE, new_figure, styled
from runs.stages.comparison import Comparison
from runs.stages.results import in_common

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def intervals_figure(frame: pd.DataFrame, axis: str, title: str, form: str = ".1f") -> "Figure":
    """A row of dots for each `row` of the frame, a colour and marker for each `series`.

    Args:
        frame: a row for each dot: `row`, `series`, `mean`, `low` and `high` of the interval; `outer`, half width of a
            second, thin interval around the mean (NaN: none); and `filled`, whether the dot is.
        axis: label of the x axis.
        title: title of the plot.
        form: format of the means, which stand above the dots.
    """
    rows, names = (list(frame[column].unique()) for column in ("row", "series"))
    figure, axes = new_figure(PAGE, 1.0 + (0.2 + 0.16 * len(names)) * len(rows))
    for j, (name, dots) in enumerate(frame.groupby("series", sort=False)):
        colour, mean = COLOURS[j % len(COLOURS)], dots["mean"]
        offset = (j - (len(names) - 1) / 2) * 0.7 / max(len(names), 2)
        heights = [rows.index(row) + offset for row in dots["row"]]
        lengths = [mean - dots["low"], dots["high"] - mean]
        axes.errorbar(mean, heights, xerr=lengths, fmt="none", ecolor=colour, elinewidth=2.5)
        axes.errorbar(mean, heights, xerr=dots["outer"], fmt="none", ecolor=colour, elinewidth=0.8)
        faces = [colour if filled else "white" for filled in dots["filled"]]
        marker = MARKERS[j % len(MARKERS)]
        axes.scatter(mean, heights, 36, faces, marker=marker, edgecolors=colour, label=str(name), zorder=3)
        for value, height in zip(mean, heights, strict=True):
            axes.annotate(format(value, form), (value, height), (0, 5), textcoords="offset points", ha="center")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel(axis)
    axes.set_title(title)
    axes.grid(axis="x", alpha=0.3)
    if len(names) > 1:
        axes.legend(loc="best")
    return figure


def differences_figure(comparisons: Sequence[Comparison]) -> "Figure":
    """A row for each strategy, a series for each setting; dots are filled where every interval excludes 0."""
    dots = [
        {
            "row": name,
            "series": comparison.setting.name,
            "mean": 100 * difference.mean,
            "low": 100 * difference.low,
            "high": 100 * difference.high,
            "outer": 100 * difference.seeds_half_width if len(difference.seed_means) > 1 else float("nan"),
            "filled": difference.excludes_zero,
        }
        for comparison in comparisons
        for name, difference in comparison.against_reference()
    ]
    setting = comparisons[0].setting
    seeds = max(len(comparison.setting.seeds) for comparison in comparisons)
    over = comparisons[0].units + (f" (thick) and {seeds} seeds (thin)" if seeds > 1 else "")
    axis = f"difference to {setting.strategies[setting.reference]} in points, 95 % interval over {over};\n"
    results = [result for comparison in comparisons for of in comparison.results for result in of]
    figure = intervals_figure(pd.DataFrame(dots), f"{axis}open where an interval holds 0", in_common(results), "+.1f")
    figure.axes[0].axvline(0, color="#888888", linewidth=1, zorder=0)
    return figure
