"""Renyi's entropies of three classes as losses of a known class, over all predictions (Zhang and Boykov, Figure 9). No
run is needed."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runs.figures.entropy.formulas import formula_drawing, order_name
from runs.figures.style import PAGE, new_row, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = (1.0, 2.0, math.inf)
STEPS = 150  # of a probability from 0 to 1
CORNERS = np.array([[0.5, math.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])  # places of predictions that are certain

Values = NDArray[np.float64]


def predictions() -> Values:
    """(M, 3) probabilities of three classes, all multiples of 1 / STEPS that sum to one."""
    first, second = np.meshgrid(np.arange(STEPS + 1), np.arange(STEPS + 1), indexing="ij")
    kept = first + second <= STEPS
    counts = np.stack([first[kept], second[kept], STEPS - first[kept] - second[kept]], axis=1)
    return counts / STEPS


def known_loss(p: Values, order: float, known: int = 0) -> Values:
    """(M,) loss of predictions (M, 3) of points of class `known`: the entropy where it is the likeliest class, and
    log 3, the largest entropy, elsewhere. For two classes this is f_alpha in the proofs of theorems 2 and 3."""
    import torch

    from clustering.deep.losses import mean_entropy

    log_p = torch.from_numpy(p).clamp_min(1e-300).log()
    entropy = mean_entropy(log_p[:, None], order).numpy()
    likeliest = p[:, known] >= p.max(axis=1)
    return np.where(likeliest, entropy, math.log(p.shape[1]))


@styled
def simplex_figure() -> "Figure":
    """A map for each order; the corner at the top is the known class."""
    p = predictions()
    x, y = (p @ CORNERS).T
    figure, row = new_row(len(ORDERS), PAGE, 2.2)
    for axes, order in zip(row, ORDERS, strict=True):
        values = known_loss(p, order)
        drawn = axes.tripcolor(x, y, values, vmin=0, vmax=math.log(3), cmap="viridis", shading="gouraud")
        drawn.set_rasterized(True)
        likeliest = p[:, 0] >= p.max(axis=1)
        axes.tricontour(
            x[likeliest], y[likeliest], values[likeliest], levels=np.arange(0.1, 1.05, 0.1), colors="white",
            linewidths=0.5,
        )  # fmt: skip
        axes.set_title(order_name(order), pad=12)
        for place, name, beside in zip(CORNERS, ("known class", "2", "3"), ("bottom", "top", "top"), strict=True):
            axes.text(place[0], place[1], name, ha="center", va=beside, fontsize=7)
        axes.set_aspect("equal")
        axes.set_axis_off()
    figure.colorbar(drawn, ax=row, label="nats", shrink=0.8)
    return figure


CAPTION = (
    "Renyi's entropies of three classes as losses of a point whose class is known, over the predictions; the corners "
    "are certain predictions. Where the known class is the likeliest, the loss is the entropy; elsewhere it is log 3, "
    "the largest entropy. This extends the loss that the paper defines for two classes (Figure 7); its own definition "
    "for three is not at hand. As for two classes, the smallest of the losses of all classes is the entropy: "
    "self-labelling. Unlike for two classes, the loss jumps where another class becomes likelier, except at the "
    "centre. Lines are 0.1 nats apart."
)
DRAWING = formula_drawing(simplex_figure, CAPTION)
