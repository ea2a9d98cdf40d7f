"""Figures of formulas of entropy clustering, which need no run (Zhang and Boykov, Figures 5, 7, 9 and 10)."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runs.figures.style import PAGE, new_grid, series, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = NDArray[np.float64]
Plots = Mapping[str, Mapping[str, Values]]
"""Values at `FIRST`, by the title of the plot and the name of the curve."""
FIRST = np.arange(1, 1000) / 1000  # probability of the first of two classes; 0.5 is among them
ORDERS = (0.5, 1.0, 2.0, 5.0, math.inf)
PAIRS = ((0.9, 0.1), (0.5, 0.5))  # priors and pseudo-labels of Figure 10
SIMPLEX_ORDERS = (1.0, 2.0, math.inf)
STEPS = 150  # of a probability from 0 to 1
CORNERS = np.array([[0.5, math.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])  # places of predictions that are certain


def order_name(order: float) -> str:
    """Name of an order in a figure."""
    return "order ∞" if order == math.inf else f"order {order:g}"


def renyi(p: Values, order: float) -> Values:
    """(N,) Renyi's entropy of predictions (N, K), in nats."""
    import torch

    from clustering.deep.losses import mean_entropy

    return np.asarray(mean_entropy(torch.from_numpy(p).clamp_min(1e-300).log()[:, None], order))


def known_loss(p: Values, order: float, known: int = 0) -> Values:
    """(N,) loss of predictions (N, K) of points of class `known`: the entropy where it is the likeliest class, and
    log K, the largest entropy, elsewhere. For two classes this is f_alpha in the proofs of theorems 2 and 3."""
    return np.where(p[:, known] >= p.max(axis=1), renyi(p, order), math.log(p.shape[1]))


def entropies() -> Plots:
    """Renyi's entropy of each order."""
    p = np.stack([FIRST, 1 - FIRST], axis=1)
    return {"entropy of two classes": {order_name(order): renyi(p, order) for order in ORDERS}}


def supervised() -> Plots:
    """Entropies of two orders, and the losses that they become where the first class is known."""
    p = np.stack([FIRST, 1 - FIRST], axis=1)
    return {
        order_name(order): {"entropy": renyi(p, order), "first class known": known_loss(p, order)}
        for order in (math.inf, 2.0)
    }


def divergences() -> Plots:
    """Both directions of the divergence from a prior, and of the cross-entropy with pseudo-labels."""
    import torch

    from clustering.deep import losses

    p = torch.from_numpy(np.stack([FIRST, 1 - FIRST], axis=1))
    divergence: dict[str, Values] = {}
    cross_entropy: dict[str, Values] = {}
    for pair in PAIRS:
        of = p.new_tensor(pair).expand_as(p)
        divergence[f"forward, KL(u ‖ p), u = {pair}"] = losses.fairness(p, of).numpy()
        divergence[f"reverse, KL(p ‖ u), u = {pair}"] = losses.tolerant_fairness(p, of).numpy()
        logs = p.log()[:, None], of[:, None]
        cross_entropy[f"forward, H(y, p), y = {pair}"] = losses.cross_entropy(*logs).numpy()
        cross_entropy[f"reverse, H(p, y), y = {pair}"] = losses.reverse_cross_entropy(*logs).numpy()
    return {"divergence from the prior u": divergence, "cross-entropy with pseudo-labels y": cross_entropy}


PLOTS = {"entropies": entropies, "supervised": supervised, "divergences": divergences}


@styled
def curves(_: object, *, of: str) -> "tuple[Figure, dict[str, str]]":
    """A plot for each title of one of `PLOTS`, side by side, with a curve for each name."""
    plots = PLOTS[of]()
    figure, (row,) = new_grid(1, len(plots), PAGE, 2.6)
    for axes, (title, values) in zip(row, plots.items(), strict=True):
        for i, (name, curve) in enumerate(values.items()):
            axes.plot(FIRST, curve, label=name, markevery=(60 + 25 * i, 220), **series(i))
        axes.set_title(title)
        axes.set_xlabel("probability of the first class")
        axes.set_ylim(0, min(3.0, 1.05 * max(float(curve.max()) for curve in values.values())))
        axes.grid(axis="y", alpha=0.3)
        axes.legend()
    row[0].set_ylabel("nats")
    return figure, {}


def predictions() -> Values:
    """(N, 3) probabilities of three classes, all multiples of 1 / STEPS that sum to one."""
    first, second = np.meshgrid(np.arange(STEPS + 1), np.arange(STEPS + 1), indexing="ij")
    kept = first + second <= STEPS
    return np.stack([first[kept], second[kept], STEPS - first[kept] - second[kept]], axis=1) / STEPS


@styled
def simplex(_: object) -> "tuple[Figure, dict[str, str]]":
    """A map of `known_loss` for each order; the corner at the top is the known class."""
    p = predictions()
    x, y = (p @ CORNERS).T
    figure, (row,) = new_grid(1, len(SIMPLEX_ORDERS), PAGE, 2.2)
    for axes, order in zip(row, SIMPLEX_ORDERS, strict=True):
        values, likeliest = known_loss(p, order), p[:, 0] >= p.max(axis=1)
        drawn = axes.tripcolor(x, y, values, vmin=0, vmax=math.log(3), cmap="viridis", shading="gouraud")
        drawn.set_rasterized(True)
        lines: dict[str, Any] = {"levels": np.arange(0.1, 1.05, 0.1), "colors": "white", "linewidths": 0.5}
        axes.tricontour(x[likeliest], y[likeliest], values[likeliest], **lines)
        axes.set_title(order_name(order), pad=12)
        for place, name, beside in zip(CORNERS, ("known class", "2", "3"), ("bottom", "top", "top"), strict=True):
            axes.text(place[0], place[1], name, ha="center", va=beside, fontsize=7)
        axes.set_aspect("equal")
        axes.set_axis_off()
    figure.colorbar(drawn, ax=row, label="nats", shrink=0.8)
    return figure, {}
