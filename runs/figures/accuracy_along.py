"""Accuracy of clusterings along one of their settings: what changes when labels, links or sizes of steps do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import on_dataset
from runs.figures.drawing import Drawing
from runs.figures.style import COLUMN, PAGE, new_grid, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = Mapping[float, Mapping[int, float]]
"""Accuracies by what varies, by seed."""

Lines = Mapping[str, Line]
Panels = Mapping[str, Lines]


@dataclass(frozen=True)
class Along:
    """How clusterings become lines.

    Attributes:
        axis: what varies, for people, by panel where panels vary in several; or one for all.
        value: of a config, where on the axis it stands.
        line: which line it belongs to.
        panel: which panel.
        logarithmic: whether the axis counts powers of two.
        text: of the caption: what is drawn, and what is claimed of it.
    """

    axis: str | Mapping[str, str]
    value: Callable[[ClusterConfig], float]
    line: Callable[[ClusterConfig], str]
    panel: Callable[[ClusterConfig], str]
    text: Callable[[Panels], str]
    logarithmic: bool = False

    def panels(self, results: Sequence[Clustered]) -> dict[str, dict[str, dict[float, dict[int, float]]]]:
        """Accuracies by panel, line, value and seed."""
        found: dict[str, dict[str, dict[float, dict[int, float]]]] = {}
        for result in results:
            config = result.config
            place = found.setdefault(self.panel(config), {}).setdefault(self.line(config), {})
            place.setdefault(self.value(config), {})[config.seed] = accuracy(result)
        return found

    def draw(self, results: Sequence[Clustered]) -> "Figure":
        """A panel for each, a line for each method."""
        return lines_figure(self.panels(results), self.axis, self.logarithmic)

    def caption(self, results: Sequence[Clustered]) -> str:
        """What is drawn, of how many seeds, and what is claimed."""
        panels = self.panels(results)
        counts = {len(seeds) for lines in panels.values() for line in lines.values() for seeds in line.values()}
        return f"{self.text(panels)} Means and standard deviations over {_numbers(counts)} seeds."


def accuracy(result: Clustered) -> float:
    """Of the clustering that is chosen without labels: of points whose class was not known, as the known labels name
    the clusters; without labels under the best match."""
    trials = result.trials
    scores = trials.scores
    if not scores:
        raise InputError(f"dataset {result.config.dataset.name} has no classes for the figure to compare with")
    return float(scores["accuracy" if "accuracy" in scores else "acc_hungarian"][trials.chosen])


def drawing(
    along: Along,
    networks: Sequence[Mapping[str, str]],
    elsewhere: Sequence[Mapping[str, str]],
    variants: Mapping[str, str] | None = None,
) -> Drawing[ClusterConfig, Clustered]:
    """The figure of such lines.

    Args:
        along: how the runs become lines.
        networks: settings of the runs.
        elsewhere: those on another data set.
        variants: data sets in the place of those that are asked for.
    """
    return Drawing(
        schema=ClusterConfig,
        settings={},
        networks=networks,
        elsewhere=lambda name: [{**each, **on_dataset((variants or {}).get(name, name))} for each in elsewhere],
        read=recorded_clustering,
        run_ids=lambda found: [found.run_id],
        draw=along.draw,
        caption=along.caption,
    )


@styled
def lines_figure(panels: Panels, axis: str | Mapping[str, str], logarithmic: bool = False) -> "Figure":
    """A column for each panel: mean accuracy against what varies, with its standard deviation over seeds as bars.

    Args:
        panels: accuracies in [0, 1].
        axis: what varies; of each panel, where they differ.
        logarithmic: whether it counts powers of two.
    """
    figure, grid = new_grid(1, len(panels), COLUMN if len(panels) == 1 else PAGE, 2.5)
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    for axes, (title, lines) in zip(grid[0], panels.items(), strict=True):
        for name, line in lines.items():
            draw_line(axes, name, line, series(names.index(name)))
        axes.set_title(title)
        axes.set_xlabel(axis if isinstance(axis, str) else axis[title])
        axes.grid(axis="y", alpha=0.3)
        if logarithmic:
            axes.set_xscale("log", base=2)
    grid[0][0].set_ylabel("accuracy (%)")
    drawn = {label: handle for axes in grid[0] for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    wide = 2 if len(panels) == 1 else 4
    figure.legend(list(drawn.values()), list(drawn), loc="outside upper center", ncols=min(wide, len(drawn)))
    return figure


def draw_line(axes: "Axes", name: str, line: Line, look: dict[str, Any], factor: float = 100.0) -> None:
    """Means over seeds, times a factor, with their standard deviations as bars."""
    values = sorted(line)
    reached = [factor * np.array(list(line[value].values())) for value in values]
    means = [one.mean() for one in reached]
    spreads = [one.std(ddof=1) if len(one) > 1 else 0.0 for one in reached]
    axes.errorbar(values, means, yerr=spreads, label=name, capsize=2, elinewidth=0.8, **look)


def compared(lines: Lines, better: str, than: str) -> dict[float, list[float]]:
    """At each value that both lines have, by how much the first is above the second, seed by seed."""
    found = {}
    for value, seeds in sorted(lines.get(better, {}).items()):
        others = lines.get(than, {}).get(value, {})
        pairs = [seeds[seed] - others[seed] for seed in seeds if seed in others]
        if pairs:
            found[value] = pairs
    return found


def gains(lines: Lines, better: str, than: str, unit: str) -> str:
    """In words, such as "+4.2 points at 50 labels (3 of 3 seeds)"."""
    parts = [
        f"{100 * np.mean(differences):+.1f} points at {value:g} {unit} "
        f"({sum(one > 0 for one in differences)} of {len(differences)} seeds)"
        for value, differences in compared(lines, better, than).items()
    ]
    return ", ".join(parts)


def _numbers(counts: set[int]) -> str:
    return " or ".join(str(count) for count in sorted(counts)) or "no"
