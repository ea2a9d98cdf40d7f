"""Style and saving of figures: readable for colour-blind readers and in grey print. No window is needed.

Fonts and line widths are in `transduce.mplstyle`. Sizes are those of the printed page: a figure `COLUMN` or `PAGE`
inches wide is printed at that size, with letters of 7 to 8 points.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from clustering.files.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
Format = Literal["pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = ("pdf", "svg", "png")
COLUMN, PAGE = 3.5, 7.0  # width of a column and of a page in inches
SCREEN = 100  # pixels per inch in an SVG file; with more, figures of many points are too large for the repository
STYLE = Path(__file__).with_name("transduce.mplstyle")

# A series has its own colour, marker and line, any one of which is enough to recognise it.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")  # Okabe and Ito 2008
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)), (0, (3, 1, 1, 1)))


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw with this style, whatever the user's settings of matplotlib are."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        from matplotlib.style import context

        with context(STYLE, after_reset=True):
            return draw(*args, **kwargs)

    return drawn


def series(i: int) -> dict[str, Any]:
    """Colour, marker and line of the i-th series; the eighth looks like the first."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of that size in inches, with one plot."""
    figure, ((axes,),) = new_grid(1, 1, width, height)
    return figure, axes


def new_grid(rows: int, columns: int, width: float, height: float) -> "tuple[Figure, list[list[Axes]]]":
    """A figure of that size with rows of plots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def count_steps(axes: "Axes", label: str) -> None:
    """Label the x axis, whose numbers are whole, and draw horizontal lines."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)


def without_numbers(axes: "Axes") -> None:
    """Frame a map, whose axes have no unit."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color="0.8")


def scatter(axes: "Axes", places: NDArray[Any], colours: NDArray[np.integer], *, marker: str, area: float) -> None:
    """Draw points (N, 2) in the colours of their numbers (N,), as pixels."""
    shown = [COLOURS[colour % len(COLOURS)] for colour in colours]
    axes.scatter(places[:, 0], places[:, 1], s=area, c=shown, marker=marker, linewidths=0, rasterized=True)


@styled
def save(figure: "Figure", path: Path, *, title: str = "", about: str = "") -> Path:
    """Write a figure atomically, in the format of the path's suffix; returns the path.

    Equal figures give equal files, byte by byte: no date is written.

    Args:
        title: title in the metadata of the file.
        about: caption, also kept in the metadata.
    """
    kind = path.suffix.removeprefix(".")
    names = {"pdf": ("Subject", "Creator", "CreationDate"), "svg": ("Description", "Creator", "Date")}
    caption, program, date = names.get(kind, ("Description", "Software", ""))
    metadata = {"Title": title, caption: about, program: "transduce"} | ({date: None} if date else {})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        # An SVG file, which is for screens, has pixels only where there are very many points.
        figure.savefig(partial, format=kind, dpi=SCREEN if kind == "svg" else None, metadata=metadata)
    return path


def save_for_print(figure: "Figure", folder: Path, name: str, *, title: str, about: str) -> tuple[Path, ...]:
    """Write a figure as `name`.pdf, .svg and .png; returns the paths."""
    return tuple(save(figure, folder / f"{name}.{kind}", title=title, about=about) for kind in FORMATS)
