"""How the accuracies of single tasks are distributed. Its entry in papers.yaml:

NAME:
  draw: MODULE:spread
  of: evaluate
  caption: "Distribution of the accuracies of tasks ({in_common}). Mean accuracy in %: {means}."
  settings: {benchmark: mini, strategy: laplacianshot, shot: '1,5', tasks: 1000}
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.figures.style import COLUMN, new_figure, series, styled
from runs.stages.results import Result, in_common

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled  # fonts and line widths for print
def spread(results: Sequence[Result]) -> "tuple[Figure, dict[str, str]]":
    """The share of tasks below each accuracy, a curve for each number of shots."""
    figure, axes = new_figure(COLUMN, 2.4)  # inches, as printed: COLUMN or PAGE wide
    for i, result in enumerate(results):
        look = series(i) | {"marker": ""}  # colour, marker and line: each of them tells the series apart
        axes.ecdf(100 * result.accuracies, label=_shots(result), **look)
    axes.set_xlabel("accuracy of a task (%)")  # with its unit
    axes.set_ylabel("share of tasks")
    axes.legend()
    means = ", ".join(f"{_shots(result)} {100 * result.accuracy:.2f}" for result in results)
    return figure, {"in_common": in_common(results), "means": means}  # the words of the caption


def _shots(result: Result) -> str:
    return f"{result.config.sampler.options['shot']}-shot"
