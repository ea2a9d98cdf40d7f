"""Style and saving of figures: readable for colour-blind readers and in grey print. No window is needed.

Sizes are those of the printed page: a figure `COLUMN` or `PAGE` inches wide is printed at that size, with letters of 7
to 8 points.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from clustering.files.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
Format = Literal["pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = ("pdf", "svg", "png")
COLUMN, PAGE = 3.5, 7.0  # width of a column and of a page in inches

# A series has its own colour, marker and line, any one of which is enough to recognise it.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")  # Okabe and Ito 2008
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (7, 2)), (0, (3, 1, 1, 1)))

SCREEN = 100  # pixels per inch; with more, figures of many points are too large for an exported file
LOOK: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # TrueType, which can be searched and which journals accept; type 3 is neither
    "svg.fonttype": "none",  # text instead of outlines
    "svg.hashsalt": "transduce",  # equal figures are equal files
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw with this style, whatever the user's settings of matplotlib are."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        from matplotlib import rc_context, rcdefaults, rcParams

        with rc_context():
            rcdefaults()
            rcParams.update(LOOK)
            return draw(*args, **kwargs)

    return drawn


def series(i: int) -> dict[str, Any]:
    """Colour, marker and line of the i-th series; the eighth looks like the first."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "linestyle": LINES[i % len(LINES)]}


def new_figure(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of that size in inches, with one plot."""
    figure, ((axes,),) = new_grid(1, 1, width, height)
    return figure, axes


def new_row(count: int, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    """A figure of that size with `count` plots side by side."""
    figure, (plots,) = new_grid(1, count, width, height)
    return figure, plots


def new_grid(rows: int, columns: int, width: float, height: float) -> "tuple[Figure, list[list[Axes]]]":
    """A figure of that size with rows of plots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    places = iter(range(1, rows * columns + 1))
    return figure, [[figure.add_subplot(rows, columns, next(places)) for _ in range(columns)] for _ in range(rows)]


@styled
def save(figure: "Figure", path: Path, *, title: str = "", about: str = "") -> Path:
    """Write a figure atomically, in the format of the path's suffix; returns the path.

    Equal figures give equal files, byte by byte: no date is written.

    Args:
        title: title in the metadata of the file.
        about: caption, also kept in the metadata.
    """
    kind = path.suffix.removeprefix(".")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        # An SVG file, which is for screens, has pixels only where there are very many points.
        dpi = SCREEN if kind == "svg" else LOOK["savefig.dpi"]
        figure.savefig(partial, format=kind, dpi=dpi, metadata=_metadata(kind, title, about))
    return path


def save_for_print(figure: "Figure", folder: Path, name: str, *, title: str, about: str) -> tuple[Path, ...]:
    """Write a figure as `name`.pdf, .svg and .png; returns the paths."""
    return tuple(save(figure, folder / f"{name}.{kind}", title=title, about=about) for kind in FORMATS)


def _metadata(kind: str, title: str, about: str) -> dict[str, Any]:
    """Title and caption under the keys of each format; None leaves out dates."""
    if kind == "pdf":
        return {"Title": title, "Subject": about, "Creator": "transduce", "CreationDate": None}
    if kind == "svg":
        return {"Title": title, "Description": about, "Creator": "transduce", "Date": None}
    return {"Title": title, "Description": about, "Software": "transduce"}
