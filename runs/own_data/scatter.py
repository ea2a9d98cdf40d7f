"""Scatter plot of groups of rows as an SVG for a page."""

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

WIDTH, HEIGHT, EDGE = 640.0, 420.0, 14.0
SIZE = 3.4  # half the width of a mark, in pixels
COLOURS = 7  # colours of the style sheet; they repeat, but groups also differ in shape and number
SHAPES = ("circle", "square", "triangle", "diamond", "cross")


def mark(place: int) -> Markup:
    """Return the mark of the group with this index as a separate SVG, for a legend.

    Groups differ in colour and shape, so that neither is needed alone.
    """
    return Markup('<svg class="mark" viewBox="0 0 14 14" aria-hidden="true"><g class="g{}">{}</g></svg>').format(
        place % COLOURS, _shape(place, 7, 7, 5.5)
    )


def scatter(plane: NDArray[np.floating], places: NDArray[np.integer], names: list[str], about: str) -> Markup:
    """Draw each row as a mark, and the name of each group at the median of its rows.

    Args:
        plane: (n, 2) coordinates.
        places: (n,) indices into `names`.
        names: label of each group.
        about: alternative text.
    """
    low, high = plane.min(axis=0), plane.max(axis=0)
    unit = np.where(high > low, high - low, 1.0)
    box = np.array([WIDTH, HEIGHT]) - 2 * EDGE
    at = EDGE + (plane - low) / unit * box
    at[:, 1] = HEIGHT - at[:, 1]
    groups, labels = [], []
    for place, name in enumerate(names):
        members = at[places == place]
        if not len(members):
            continue
        marks = Markup("").join(_shape(place, x, y, SIZE) for x, y in members)
        groups.append(Markup('<g class="g{}">{}</g>').format(place % COLOURS, marks))
        x, y = np.median(members, axis=0)
        labels.append(Markup('<text x="{:.0f}" y="{:.0f}">{}</text>').format(x, y, name))
    return Markup(
        '<svg class="scatter" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}<g class="names">{}</g></svg>'
    ).format(WIDTH, HEIGHT, escape(about), Markup("").join(groups), Markup("").join(labels))


def _shape(place: int, x: float, y: float, r: float) -> Markup:
    shape = SHAPES[place % len(SHAPES)]
    d, s, w = 2 * r, 1.3 * r, r / 2.2
    a, b = 1.2 * r - w, 2 * w
    if shape == "circle":
        return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(x, y, r)
    path = {
        "square": f"M{x - r:.1f} {y - r:.1f}h{d:.1f}v{d:.1f}h-{d:.1f}z",
        "triangle": f"M{x:.1f} {y - r:.1f}l{r:.1f} {d:.1f}h-{d:.1f}z",
        "diamond": f"M{x:.1f} {y - s:.1f}l{s:.1f} {s:.1f}l-{s:.1f} {s:.1f}l-{s:.1f} -{s:.1f}z",
        "cross": f"M{x - w:.1f} {y - 1.2 * r:.1f}h{b:.1f}v{a:.1f}h{a:.1f}v{b:.1f}h-{a:.1f}v{a:.1f}h-{b:.1f}v-{a:.1f}"
        f"h-{a:.1f}v-{b:.1f}h{a:.1f}z",
    }[shape]
    return Markup('<path d="{}"/>').format(path)
