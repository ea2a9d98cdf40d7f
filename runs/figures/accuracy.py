"""Accuracy by strategy, with 95 % intervals."""

from typing import TYPE_CHECKING

from runs.figures.style import COLOURS, MARKERS, PAGE, new_figure, styled
from runs.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def accuracy_figure(table: Table) -> "Figure":
    """Dots with intervals: a row for each strategy, a colour and marker for each column of the table."""
    figure, axes = new_figure(PAGE, 0.9 + 0.34 * len(table.rows))
    for j, column in enumerate(table.columns):
        cells = [(i, table.cells[row, column]) for i, row in enumerate(table.rows)]
        filled = [(i, cell) for i, cell in cells if cell.results]
        axes.errorbar(
            [100 * cell.value for _, cell in filled],
            [i for i, _ in filled],
            xerr=[100 * cell.half_width for _, cell in filled],
            fmt=MARKERS[j % len(MARKERS)],
            color=COLOURS[j % len(COLOURS)],
            label=str(column),
            capsize=3,
        )
        for i, cell in filled:
            axes.annotate(
                f"{100 * cell.value:.1f}", (100 * cell.value, i), (0, 5), textcoords="offset points", ha="center"
            )
    axes.set_yticks(range(len(table.rows)), [str(row) for row in table.rows])
    axes.set_ylim(len(table.rows) - 0.5, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel("accuracy (%), 95 % interval")
    axes.set_title(table.title.split(";")[0])
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="best")
    return figure
