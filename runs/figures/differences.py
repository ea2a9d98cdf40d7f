"""Differences to one strategy, with their intervals: a forest plot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.figures.style import COLOURS, MARKERS, PAGE, new_figure, styled
from runs.stages.comparison import Comparison
from runs.stages.results import in_common

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def differences_figure(comparisons: Sequence[Comparison]) -> "Figure":
    """Dots with intervals: a row for each strategy, a colour and marker for each setting. Dots are filled where every
    interval excludes 0. With several seeds, the thin line is the interval over seeds."""
    rows: dict[str, int] = {}
    for comparison in comparisons:
        for name, _ in comparison.against_reference():
            rows.setdefault(name, len(rows))
    figure, axes = new_figure(PAGE, 1.2 + (0.3 + 0.16 * len(comparisons)) * len(rows))
    axes.axvline(0, color="#888888", linewidth=1)
    for j, comparison in enumerate(comparisons):
        colour, marker = COLOURS[j % len(COLOURS)], MARKERS[j % len(MARKERS)]
        offset = (j - (len(comparisons) - 1) / 2) * 0.7 / max(len(comparisons), 2)
        for name, difference in comparison.against_reference():
            height, mean = rows[name] + offset, 100 * difference.mean
            if len(difference.seed_means) > 1:
                half = 100 * difference.seeds_half_width
                axes.plot([mean - half, mean + half], [height, height], color=colour, linewidth=0.8)
            axes.plot([100 * difference.low, 100 * difference.high], [height, height], color=colour, linewidth=2.5)
            face = colour if difference.excludes_zero else "white"
            axes.plot(mean, height, marker=marker, color=colour, markerfacecolor=face, markersize=6)
            axes.annotate(f"{mean:+.1f}", (1.01, height), xycoords=("axes fraction", "data"), va="center")
        axes.plot([], [], marker=marker, color=colour, label=comparison.setting.name)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    reference = comparisons[0].setting.strategies[comparisons[0].setting.reference]
    seeds = max(len(comparison.setting.seeds) for comparison in comparisons)
    over = comparisons[0].units + (f" (thick) and {seeds} seeds (thin)" if seeds > 1 else "")
    axes.set_xlabel(f"difference to {reference} in points, 95 % interval over {over};\nopen where an interval holds 0")
    results = [result for comparison in comparisons for of in comparison.results for result in of]
    axes.set_title(in_common(results))
    axes.grid(axis="x", alpha=0.3)
    if len(comparisons) > 1:
        axes.legend(loc="best")
    return figure
