"""Accuracy of strategies with class names, by the number of classes that are present."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.config import groups
from runs.config.configs import EvaluateConfig
from runs.config.overrides import write
from runs.figures.accuracy_along import Line, Quantity, experiment, lines_figure
from runs.figures.drawing import Drawing
from runs.stages.lineage import short, weights_name
from runs.stages.pipeline import recorded_evaluation
from runs.stages.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


NAME = "vlm/regimes"

DRAWING = Drawing(
    schema=EvaluateConfig,
    settings={key: text for key, text in experiment(NAME).items() if key != "each"},
    networks=[{key: write(value) for key, value in line.items()} for line in groups.experiment(NAME)["each"]],
    read=recorded_evaluation,
    draw=regimes_figure,
    caption=regimes_caption,
)
