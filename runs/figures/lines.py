"""Lines along a setting, such as the number of labels or a weight: means with bars, and their differences in words.

Values come as a tidy frame, a row for each: `quantity` (label of the y axis, which has its own row of plots), `panel`
(title of the plot), `line`, `x`, `pair` (the seed, start or task; equal in all lines), and `value` in the unit of the
axis.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from fsl.evaluation.scores import half_width
from runs.figures.style import COLUMN, PAGE, new_grid, series, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bars = Literal["deviation", "range", "interval"]
ACROSS = 4  # plots in a row
MARKED = 12  # points of a line up to which each has a marker and a bar


def summary(frame: pd.DataFrame, bars: Bars) -> pd.DataFrame:
    """The points of `lines_figure`: `mean` of the values, and `low` and `high` of its bar.

    Args:
        frame: the values.
        bars: one standard deviation, the range from the lowest to the highest value, or the 95 % interval of the mean.
    """
    points = frame.groupby(["quantity", "panel", "line", "x"], sort=False)["value"]
    mean = points.mean()
    if bars == "range":
        return pd.DataFrame({"mean": mean, "low": points.min(), "high": points.max()}).reset_index()
    half = points.std().fillna(0) if bars == "deviation" else points.agg(lambda values: half_width(values.to_numpy()))
    return pd.DataFrame({"mean": mean, "low": mean - half, "high": mean + half}).reset_index()


@styled
def lines_figure(
    points: pd.DataFrame,
    axis: str | Mapping[str, str],
    *,
    logarithmic: bool = False,
    ticks: Sequence[str] = (),
) -> "Figure":
    """Draw means along the x axis, with bars: a row of plots for each quantity, or several rows for many panels of one.

    Args:
        points: a row for each point: quantity, panel, line, x, mean, low and high, as `summary` gives them.
        axis: label of the x axis; by panel where they differ.
        logarithmic: whether the x axis is logarithmic, of base 2.
        ticks: names of the places 0, 1, ... on the x axis; empty: numbers.
    """
    panels, quantities, names = (list(points[column].unique()) for column in ("panel", "quantity", "line"))
    across = len(panels) if len(quantities) > 1 else min(ACROSS, len(panels))
    down = len(quantities) * -(-len(panels) // across)
    figure, grid = new_grid(down, across, COLUMN if across == 1 else PAGE, 0.6 + 1.9 * down)
    plots = [axes for row in grid for axes in row]
    drawn: dict[str, Any] = {}
    first, lowest = dict[int, Any](), dict[int, tuple[Any, Any]]()  # plots of each row, and of each column
    for i, (quantity, title) in enumerate((quantity, title) for quantity in quantities for title in panels):
        shown, axes = points[(points["quantity"] == quantity) & (points["panel"] == title)], plots[i]
        if quantity == quantities[0]:
            axes.set_title(title)
        if shown.empty:
            axes.set_axis_off()
            continue
        for name, unordered in shown.groupby("line", sort=False):
            line = unordered.sort_values("x")
            lengths = [(line["mean"] - line["low"]).clip(0), (line["high"] - line["mean"]).clip(0)]  # of equal values
            every = -(-len(line) // MARKED)
            look = series(names.index(name)) | {"capsize": 2, "elinewidth": 0.8, "errorevery": every}
            drawn[str(name)] = axes.errorbar(line["x"], line["mean"], lengths, label=name, markevery=every, **look)
        lowest[i % across] = axes, title
        first.setdefault(i // across, axes).set_ylabel(quantity)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks)
        if logarithmic:
            axes.set_xscale("log", base=2)
        axes.grid(axis="y", alpha=0.3)
    for axes, title in lowest.values():
        axes.set_xlabel(axis if isinstance(axis, str) else axis[title])
    for axes in plots[len(quantities) * len(panels) :]:
        axes.set_axis_off()
    columns = min(2 if across == 1 else 4, len(drawn))
    figure.legend(list(drawn.values()), list(drawn), loc="outside upper center", ncols=columns)
    return figure


def differences(frame: pd.DataFrame) -> str:
    """Describe the differences of each line to the first of its panel, over the pairs that both have."""
    sentences = []
    for title, panel in frame.groupby("panel", sort=False):
        first, *others = panel["line"].unique()
        values = panel.set_index(["x", "pair"]).groupby("line")["value"]
        for name in others:
            pairs = (values.get_group(name) - values.get_group(first)).dropna().groupby("x")
            parts = [f"{one.mean():+.1f} at {x:g} ({(one > 0).sum()} of {len(one)})" for x, one in pairs]
            place = f" ({title})" if frame["panel"].nunique() > 1 else ""
            sentences += [f"{name} over {first}{place}: {', '.join(parts)}"] if parts else []
    if not sentences:
        return ""
    return f" Differences in points, and how many of the pairs are above 0: {'; '.join(sentences)}."
