"""Accuracy, or another value, of clusterings as one of their settings varies: the number of labels, a weight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fsl.evaluation.scores import half_width
from runs.config.configs import ClusterConfig
from runs.figures.drawing import Drawing, either
from runs.figures.style import COLUMN, PAGE, new_grid, series, styled
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = dict[float, dict[int, float]]
"""Values by position on the x axis, by seed or start."""
Panels = Mapping[str, Mapping[str, Line]]
"""Lines by the title of their panel and their name."""
Bars = Literal["deviation", "range", "interval"]
"""What a bar around a mean shows."""


@dataclass(frozen=True)
class Quantity:
    """What a row of panels shows.

    Attributes:
        label: of the y axis.
        values: gives the values of a clustering by seed or start.
        factor: from these values to the unit of the axis.
    """

    label: str
    values: Callable[[Clustered], Mapping[int, float]]
    factor: float = 1.0


def by_seed(result: Clustered) -> dict[int, float]:
    """Return the accuracy of the clustering that is chosen without labels.

    Where labels are known, they name the clusters, and only points without a label count; else clusters and classes are
    matched as well as possible.
    """
    scores = result.trials.scores
    if not scores:
        raise InputError(f"dataset {result.config.dataset.name} has no classes for the figure to compare with")
    values = scores["accuracy" if "accuracy" in scores else "acc_hungarian"]
    return {result.config.seed: float(values[result.trials.chosen])}


def by_start(name: str) -> Callable[[Clustered], dict[int, float]]:
    """Return a function that gives the objective, or a score, of every start at the given setting."""

    def values(result: Clustered) -> dict[int, float]:
        trials = result.trials
        of = trials.objective if name == "objective" else trials.scores.get(name)
        if of is None:
            return {}
        return dict(zip(trials.seeds[trials.given].tolist(), of[trials.given].tolist(), strict=True))

    return values


ACCURACY = Quantity("accuracy (%)", by_seed, 100.0)


def each(name: Callable[[ClusterConfig], str]) -> Callable[[Sequence[ClusterConfig]], list[str]]:
    """Return a function that gives the name of each config."""
    return lambda configs: [name(config) for config in configs]


@dataclass(frozen=True, kw_only=True)
class Along:
    """How clusterings are drawn as lines.

    Attributes:
        axis: label of the x axis; by panel where panels have different ones.
        value: position of a clustering on the x axis.
        lines: names of the lines that configs belong to.
        panel: name of the panel of a config, by default its data set.
        about: what the figure shows, for the caption.
        rows: what the rows of panels show, the last one accuracies.
        over: what the mean of a point is over.
        ranges: show ranges from the lowest to the highest value, not standard deviations and differences.
        logarithmic: whether the x axis is logarithmic, of base 2.
    """

    axis: str | Mapping[str, str]
    value: Callable[[Clustered], float]
    lines: Callable[[Sequence[ClusterConfig]], Sequence[str]]
    panel: Callable[[ClusterConfig], str] = lambda config: short(config.dataset)
    about: str
    rows: tuple[Quantity, ...] = (ACCURACY,)
    over: str = "seeds"
    ranges: bool = False
    logarithmic: bool = False

    def panels(self, results: Sequence[Clustered], quantity: Quantity) -> Panels:
        """Return the lines of one row of panels."""
        panels: dict[str, dict[str, Line]] = {}
        names = self.lines([result.config for result in results])
        for result, name in zip(results, names, strict=True):
            line = panels.setdefault(self.panel(result.config), {}).setdefault(name, {})
            line.setdefault(self.value(result), {}).update(quantity.values(result))
        return panels

    def draw(self, results: Sequence[Clustered]) -> "Figure":
        """Draw a column of panels for each data set or setting, a line for each method."""
        rows = [(quantity, self.panels(results, quantity)) for quantity in self.rows]
        bars: Bars = "range" if self.ranges else "deviation"
        return lines_figure(rows, self.axis, bars=bars, logarithmic=self.logarithmic)

    def caption(self, results: Sequence[Clustered]) -> str:
        """Return a caption with the number of seeds or starts and the differences between lines."""
        counts = {len(values) for values in _points(self.panels(results, self.rows[0]))}
        over = f"over {either(counts)} {self.over}."
        if self.ranges:
            return f"{self.about} Means and ranges from the lowest to the highest {over}"
        accuracies = self.panels(results, self.rows[-1])
        return f"{self.about} Means and standard deviations {over}{differences(accuracies)}"

    def drawing(self) -> Drawing:
        """The figure of these lines."""
        return Drawing(schema=ClusterConfig, draw=self.draw, caption=self.caption)


@styled
def lines_figure(
    rows: Sequence[tuple[Quantity, Panels]],
    axis: str | Mapping[str, str],
    *,
    bars: Bars = "deviation",
    logarithmic: bool = False,
    ticks: Sequence[str] = (),
) -> "Figure":
    """Draw means along the x axis, with bars.

    Args:
        rows: what each row of panels shows, and its lines; a row without values is left out. Rows may have different
            panels; the last one may have fewer.
        axis: label of the x axis; by panel where they differ.
        bars: one standard deviation, the range from the lowest to the highest value, or the 95 % interval of the mean.
        logarithmic: whether the x axis is logarithmic, of base 2.
        ticks: names of the places 0, 1, ... on the x axis; empty: numbers.
    """
    rows = [(quantity, panels) for quantity, panels in rows if _points(panels)]
    down, across = len(rows), len(rows[0][1])
    figure, grid = new_grid(down, across, COLUMN if across == 1 else PAGE, 0.6 + 1.9 * down)
    names = list(dict.fromkeys(name for lines in rows[0][1].values() for name in lines))
    drawn: dict[str, Any] = {}
    for i, (line_of_axes, (quantity, panels)) in enumerate(zip(grid, rows, strict=True)):
        for axes in line_of_axes[len(panels) :]:
            axes.set_axis_off()
        below = len(rows[i + 1][1]) if i + 1 < down else 0
        for j, (axes, (title, lines)) in enumerate(zip(line_of_axes, panels.items(), strict=False)):
            for name, line in lines.items():
                places = sorted(x for x in line if line[x])
                values = [quantity.factor * np.array(list(line[x].values())) for x in places]
                lengths = np.array([_bar(one, bars) for one in values]).reshape(-1, 2).T
                look = series(names.index(name)) | {"capsize": 2, "elinewidth": 0.8}
                drawn[name] = axes.errorbar(places, [one.mean() for one in values], lengths, label=name, **look)
            if i == 0 or title not in rows[i - 1][1]:
                axes.set_title(title)
            if ticks:
                axes.set_xticks(range(len(ticks)), ticks)
            if j >= below:
                axes.set_xlabel(axis if isinstance(axis, str) else axis[title])
            axes.grid(axis="y", alpha=0.3)
            if logarithmic:
                axes.set_xscale("log", base=2)
        line_of_axes[0].set_ylabel(quantity.label)
    columns = min(2 if across == 1 else 4, len(drawn))
    figure.legend(list(drawn.values()), list(drawn), loc="outside upper center", ncols=columns)
    return figure


def differences(panels: Panels) -> str:
    """Describe the differences of each line to the first of its panel, in points, over the seeds that both have."""
    sentences = []
    for title, lines in panels.items():
        (first, reference), *others = lines.items()
        for name, line in others:
            parts = []
            for x in sorted(line.keys() & reference.keys()):
                pairs = [line[x][seed] - reference[x][seed] for seed in line[x].keys() & reference[x].keys()]
                above = sum(difference > 0 for difference in pairs)
                parts += [f"{100 * np.mean(pairs):+.1f} at {x:g} ({above} of {len(pairs)})"] if pairs else []
            place = f" ({title})" if len(panels) > 1 else ""
            sentences += [f"{name} over {first}{place}: {', '.join(parts)}"] if parts else []
    if not sentences:
        return ""
    return f" Differences in points, and how many of the pairs are above 0: {'; '.join(sentences)}."


def _points(panels: Panels) -> list[dict[int, float]]:
    return [values for lines in panels.values() for line in lines.values() for values in line.values() if values]


def _bar(values: NDArray[np.float64], bars: Bars) -> tuple[float, float]:
    """Length of the bar below and above the mean."""
    if bars == "range":
        return float(values.mean() - values.min()), float(values.max() - values.mean())
    if bars == "interval":
        return half_width(values), half_width(values)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return deviation, deviation
