"""Figures of formulas of entropy clustering, which need no run (Zhang and Boykov, Figures 5, 7, 9 and 10)."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runs.config.configs import RunConfig
from runs.figures.drawing import Drawing
from runs.figures.style import PAGE, new_row, series, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

FORMULAS_ORDERS = (0.5, 1.0, 2.0, 5.0, math.inf)
PAIRS = ((0.9, 0.1), (0.5, 0.5))  # priors and pseudo-labels of Figure 10
POINTS = 999
Values = NDArray[np.float64]
Plots = Mapping[str, Mapping[str, Values]]
"""Values at `probabilities()`, by the title of the plot and the name of the curve."""


def probabilities() -> Values:
    """(POINTS,) of the first class, from 0.001 to 0.999; 0.5 is among them."""
    return np.arange(1, POINTS + 1) / (POINTS + 1)


@styled
def curves_figure(plots: Plots) -> "Figure":
    """A plot for each title, side by side, with a curve for each name."""
    figure, row = new_row(len(plots), PAGE, 2.6)
    for axes, (title, curves) in zip(row, plots.items(), strict=True):
        for i, (name, values) in enumerate(curves.items()):
            axes.plot(probabilities(), values, label=name, markevery=(60 + 25 * i, 220), **series(i))
        axes.set_title(title)
        axes.set_xlabel("probability of the first class")
        axes.set_ylim(0, min(3.0, 1.05 * max(float(values.max()) for values in curves.values())))
        axes.grid(axis="y", alpha=0.3)
        axes.legend()
    row[0].set_ylabel("nats")
    return figure


def entropies() -> Plots:
    """Renyi's entropy of each order."""
    return {"entropy of two classes": {order_name(order): _renyi(order) for order in FORMULAS_ORDERS}}


def supervised() -> Plots:
    """Entropies of two orders, and the losses that they become where the first class is known: log 2 where the second
    class is the likelier (f_alpha in the proofs of theorems 2 and 3)."""
    plots = {}
    for order in (math.inf, 2.0):
        entropy = _renyi(order)
        known = np.where(probabilities() >= 0.5, entropy, math.log(2))
        plots[order_name(order)] = {"entropy": entropy, "first class known": known}
    return plots


def divergences() -> Plots:
    """Both directions of the divergence from a prior, and of the cross-entropy with pseudo-labels."""
    from clustering.deep import losses

    kinds: dict[str, dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
        "divergence from the prior u": {
            "forward, KL(u ‖ p)": lambda p, u: losses.fairness(p, u),
            "reverse, KL(p ‖ u)": lambda p, u: losses.tolerant_fairness(p, u),
        },
        "cross-entropy with pseudo-labels y": {
            "forward, H(y, p)": lambda p, y: losses.cross_entropy(p.log()[:, None], y[:, None]),
            "reverse, H(p, y)": lambda p, y: losses.reverse_cross_entropy(p.log()[:, None], y[:, None]),
        },
    }
    return {
        title: {f"{name}, {title[-1]} = {pair}": _of(value, pair) for pair in PAIRS for name, value in curves.items()}
        for title, curves in kinds.items()
    }


ENTROPIES_CAPTION = (
    "Renyi's entropy of two classes. No order is above the orders before it; where the classes are equally likely all "
    "are log 2, and where one class is certain all are 0."
)
SUPERVISED_CAPTION = (
    "Entropies, and the losses that they become where the class of a point is known. The entropy is the lower of the "
    "losses of the two classes, and equals the loss of the known class where that class is the likelier: "
    "self-labelling. Of order infinity it is minus the logarithm of the larger probability, the logistic loss of the "
    "margin without its sign."
)
DIVERGENCES_CAPTION = (
    f"Towards a class without points the forward divergence from u = {PAIRS[0]} grows without bound, and the reverse "
    f"divergence stays finite. Of uncertain pseudo-labels, y = {PAIRS[1]}, the reverse cross-entropy is constant and "
    "does not train; the forward cross-entropy is least at p = 0.5 and pulls there. "
    f"Of y = {PAIRS[0]} the reverse cross-entropy is linear in p."
)


def order_name(order: float) -> str:
    """Name of an order in a figure."""
    return "order ∞" if order == math.inf else f"order {order:g}"


def _renyi(order: float) -> Values:
    from clustering.deep.losses import mean_entropy

    entropy: Values = mean_entropy(_pairs().log()[:, None], order).numpy()
    return entropy


def _pairs() -> "Tensor":
    """(POINTS, 2) probabilities of both classes."""
    import torch

    first = torch.from_numpy(probabilities())
    return torch.stack([first, 1 - first], dim=-1)


def _of(value: "Callable[[Tensor, Tensor], Tensor]", pair: tuple[float, float]) -> Values:
    """A loss between the predictions and one fixed distribution, for each prediction."""
    p = _pairs()
    losses: Values = value(p, p.new_tensor(pair).expand_as(p)).numpy()
    return losses


def formula_drawing(draw: "Callable[[], Figure]", caption: str) -> Drawing:
    """A figure that needs no run."""
    return Drawing(schema=RunConfig, draw=lambda _: draw(), caption=lambda _: caption)


ENTROPIES = formula_drawing(lambda: curves_figure(entropies()), ENTROPIES_CAPTION)
SUPERVISED = formula_drawing(lambda: curves_figure(supervised()), SUPERVISED_CAPTION)
DIVERGENCES = formula_drawing(lambda: curves_figure(divergences()), DIVERGENCES_CAPTION)

SIMPLEX_ORDERS = (1.0, 2.0, math.inf)
STEPS = 150  # of a probability from 0 to 1
CORNERS = np.array([[0.5, math.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])  # places of predictions that are certain


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
    figure, row = new_row(len(SIMPLEX_ORDERS), PAGE, 2.2)
    for axes, order in zip(row, SIMPLEX_ORDERS, strict=True):
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
SIMPLEX = formula_drawing(simplex_figure, CAPTION)
