"""Accuracy of clusterings as one of their settings varies: the number of labels or links, or a step size."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.foundation.errors import InputError
from runs.config.configs import ClusterConfig
from runs.figures.clustered import on_dataset
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLUMN, PAGE, new_grid, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.clustering.stage import recorded_clustering
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = Mapping[float, Mapping[int, float]]
"""Accuracies by value on the x axis, by seed."""

Lines = Mapping[str, Line]
Panels = Mapping[str, Lines]


def dataset_name(config: ClusterConfig) -> str:
    """Return the name of a config's data set."""
    return short(config.dataset)


@dataclass(frozen=True, kw_only=True)
class Along:
    """How clusterings are drawn as lines.

    Attributes:
        axis: label of the x axis; a mapping from panels to labels if they differ.
        value: position of a config on the x axis.
        line: name of the line that a config belongs to.
        panel: name of its panel.
        about: what the figure shows, for the caption.
        leader: line that the caption compares with all other lines; empty: each line is compared with those before it.
        logarithmic: whether the x axis is logarithmic, of base 2.
    """

    axis: str | Mapping[str, str]
    value: Callable[[ClusterConfig], float]
    line: Callable[[ClusterConfig], str]
    panel: Callable[[ClusterConfig], str] = dataset_name
    about: str
    leader: str = ""
    logarithmic: bool = False

    def panels(self, results: Sequence[Clustered]) -> dict[str, dict[str, dict[float, dict[int, float]]]]:
        """Return the accuracies by panel, line, value and seed."""
        panels: dict[str, dict[str, dict[float, dict[int, float]]]] = {}
        for result in results:
            config = result.config
            line = panels.setdefault(self.panel(config), {}).setdefault(self.line(config), {})
            line.setdefault(self.value(config), {})[config.seed] = accuracy(result)
        return panels

    def draw(self, results: Sequence[Clustered]) -> "Figure":
        """Draw a panel for each data set or setting, with a line for each method."""
        return lines_figure(self.panels(results), self.axis, self.logarithmic)

    def caption(self, results: Sequence[Clustered]) -> str:
        """Return a caption: what is drawn, the number of seeds, and the differences between lines."""
        panels = self.panels(results)
        counts = {len(seeds) for lines in panels.values() for line in lines.values() for seeds in line.values()}
        over = f"{either(counts)} seeds"
        return f"{self.about} Means and standard deviations over {over}.{differences(panels, self.leader)}"


def accuracy(result: Clustered) -> float:
    """Return the accuracy of the clustering that is selected without labels, in [0, 1].

    With known labels, which name the clusters, it is the accuracy on the points without a label; otherwise the
    accuracy of the best matching of clusters and classes.

    Raises:
        InputError: the data set has no classes.
    """
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
    """Return a figure of accuracies as lines.

    Args:
        along: how the runs are drawn as lines.
        networks: settings of the runs.
        elsewhere: settings of the runs on another data set.
        variants: data set that replaces a requested one, by name.
    """
    return Drawing(
        schema=ClusterConfig,
        settings={},
        networks=networks,
        elsewhere=lambda name: [{**each, **on_dataset((variants or {}).get(name, name))} for each in elsewhere],
        read=recorded_clustering,
        draw=along.draw,
        caption=along.caption,
    )


@styled
def lines_figure(panels: Panels, axis: str | Mapping[str, str], logarithmic: bool = False) -> "Figure":
    """Draw a column for each panel: mean accuracy along the x axis, with bars of one standard deviation over seeds.

    Args:
        panels: accuracies in [0, 1].
        axis: label of the x axis; a mapping from panels to labels if they differ.
        logarithmic: whether the x axis is logarithmic, of base 2.
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
    """Draw the means over seeds, multiplied by `factor`, with bars of one standard deviation."""
    values = sorted(line)
    reached = [factor * np.array(list(line[value].values())) for value in values]
    means = [one.mean() for one in reached]
    spreads = [one.std(ddof=1) if len(one) > 1 else 0.0 for one in reached]
    axes.errorbar(values, means, yerr=spreads, label=name, capsize=2, elinewidth=0.8, **look)


def differences(panels: Panels, leader: str = "") -> str:
    """Return the differences between lines for a caption.

    They are the leader minus each other line or, without a leader, each line minus each line before it.
    """
    sentences = []
    for name, lines in panels.items():
        others = [(leader, other) for other in lines if other != leader]
        for better, than in others if leader else [(b, a) for a, b in itertools.combinations(lines, 2)]:
            parts = [
                f"{100 * np.mean(pairs):+.1f} at {value:g} ({sum(one > 0 for one in pairs)} of {len(pairs)})"
                for value, pairs in paired(lines, better, than).items()
            ]
            place = f" ({name})" if len(panels) > 1 else ""
            sentences += [f"{better} over {than}{place}: {', '.join(parts)}"] if parts else []
    if not sentences:
        return ""
    return f" Differences in points, and how many of the pairs are above 0: {'; '.join(sentences)}."


def paired(lines: Lines, better: str, than: str) -> dict[float, list[float]]:
    """Return the differences `better` - `than`, one per common seed, by common value on the x axis."""
    by_value = {}
    for value, seeds in sorted(lines.get(better, {}).items()):
        others = lines.get(than, {}).get(value, {})
        pairs = [seeds[seed] - others[seed] for seed in seeds if seed in others]
        if pairs:
            by_value[value] = pairs
    return by_value
