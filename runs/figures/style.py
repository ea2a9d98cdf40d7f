"""How figures look: colours that stay apart for colour-blind readers and in grey print, no window needed."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")  # Okabe and Ito 2008
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of that size in inches, with one plot whose frame is open at the top and right."""
    figure, (axes,) = new_row(1, width, height)
    return figure, axes


def new_row(count: int, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    """A figure of that size with so many plots side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    plots = [figure.add_subplot(1, count, i) for i in range(1, count + 1)]
    for axes in plots:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, plots


def save(figure: "Figure", path: Path) -> Path:
    """Write a PNG in one step; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    figure.savefig(partial, format="png", dpi=150)
    partial.replace(path)
    return path
