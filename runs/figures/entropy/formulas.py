"""Curves of formulas alone, over the probability of the first of two classes: Renyi's entropies and the losses of
entropy clustering (Zhang and Boykov, Figures 5, 7 and 10). No run is needed."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from runs.config.configs import RunConfig
from runs.figures.drawing import Drawing
from runs.figures.style import PAGE, new_row, series, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

ORDERS = (0.5, 1.0, 2.0, 5.0, math.inf)
PAIRS = ((0.9, 0.1), (0.5, 0.5))  # priors and pseudo-labels of Figure 10
POINTS = 999
Values = NDArray[np.float64]
Plots = Mapping[str, Mapping[str, Values]]
"""Of each plot, by what it shows, the values of its curves at `probabilities()`, by their names."""


@dataclass(frozen=True)
class Formula:
    """What stands in the place of a run; its config says where the figure is saved, and nothing of what it shows."""

    config: RunConfig


def probabilities() -> Values:
    """(POINTS,) of the first class, from 0.001 to 0.999; 0.5 is among them."""
    return np.arange(1, POINTS + 1) / (POINTS + 1)


@styled
def curves_figure(plots: Plots) -> "Figure":
    """A plot beside the other, a curve for each name."""
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
    return {"entropy of two classes": {_order(order): _renyi(order) for order in ORDERS}}


def supervised() -> Plots:
    """Entropies of two orders, and what they become where the first class is known: log 2 where the second is the
    likelier (f_alpha of the proofs of theorems 2 and 3)."""
    found = {}
    for order in (math.inf, 2.0):
        entropy = _renyi(order)
        known = np.where(probabilities() >= 0.5, entropy, math.log(2))
        found[_order(order)] = {"entropy": entropy, "first class known": known}
    return found


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


def _entropies_caption(plots: Plots) -> str:
    (curves,) = plots.values()
    rises = max(float((curves[_order(b)] - curves[_order(a)]).max()) for a, b in itertools.pairwise(ORDERS))
    above = "no higher than" if rises <= 1e-12 else f"up to {rises:.2g} above"
    apart = max(abs(float(values[POINTS // 2]) - math.log(2)) for values in curves.values())
    ends = [float(values[0]) for values in curves.values()]
    return (
        f"Renyi's entropy of two classes. Each order is {above} the order before it; at even probabilities all are "
        f"log 2 (to {apart:.1g}), and at {probabilities()[0]:g} they go from {ends[0]:.4f} ({_order(ORDERS[0])}) down "
        f"to {ends[-1]:.4f} ({_order(ORDERS[-1])})."
    )


def _supervised_caption(plots: Plots) -> str:
    apart, differs = 0.0, []
    for curves in plots.values():
        entropy, known = curves.values()
        apart = max(apart, float(np.abs(entropy - np.minimum(known, known[::-1])).max()))
        differs.append(float((known - entropy)[probabilities() > 0.5].max()))
    likelier = "with the loss of the known class" if max(differs) <= 1e-12 else f"{max(differs):.2g} off"
    at = float(
        np.abs(plots[_order(math.inf)]["entropy"] + np.log(np.maximum(probabilities(), 1 - probabilities()))).max()
    )
    return (
        "Entropies, and the losses that they become where the class of a point is known. The entropy is the lower of "
        f"the losses of the two classes (largest difference {apart:.1g}), and one {likelier} where that is the "
        "likelier: self-labelling. Of order infinity it is minus the logarithm of the larger probability (to "
        f"{at:.1g}), the logistic loss of the margin without its sign."
    )


def _divergences_caption(plots: Plots) -> str:
    (_, kl), (_, ce) = plots.items()
    ahead, behind, *_ = kl.values()
    _, reverse, _, even = ce.values()
    slope = float(np.ptp(even))
    forward_even = list(ce.values())[2]
    return (
        f"Towards a class without points the forward divergence from u = {PAIRS[0]} grows without bound "
        f"({ahead[0]:.2f} at {probabilities()[0]:g}, {PAIRS[0][0] * math.log(10):.2f} more for each tenth of it), the "
        f"reverse stays finite ({behind[0]:.2f} there, {-math.log(PAIRS[0][1]):.2f} at most). Pseudo-labels in doubt, "
        f"y = {PAIRS[1]}: the reverse cross-entropy varies by {slope:.1g} and does not train, the forward is least at "
        f"p = {probabilities()[forward_even.argmin()]:g}, where it pulls; of y = {PAIRS[0]} the reverse is linear in p "
        f"(to {_bend(reverse):.1g})."
    )


def _bend(values: Values) -> float:
    """By how much they are off a line at most."""
    return float(np.abs(values - np.linspace(values[0], values[-1], len(values))).max())


def _order(order: float) -> str:
    return "order ∞" if order == math.inf else f"order {order:g}"


def _renyi(order: float) -> Values:
    from clustering.deep.losses import mean_entropy

    found: Values = mean_entropy(_pairs().log()[:, None], order).numpy()
    return found


def _pairs() -> "Tensor":
    """(POINTS, 2) probabilities of both classes."""
    import torch

    first = torch.from_numpy(probabilities())
    return torch.stack([first, 1 - first], dim=-1)


def _of(value: "Callable[[Tensor, Tensor], Tensor]", pair: tuple[float, float]) -> Values:
    """A loss of predictions and one fixed distribution, along the predictions."""
    p = _pairs()
    found: Values = value(p, p.new_tensor(pair).expand_as(p)).numpy()
    return found


def _no_data(name: str) -> NoReturn:
    raise InputError(f"the figure is of formulas alone and has no data that {name} could replace; leave @{name} out")


def _drawing(plots: Callable[[], Plots], caption: Callable[[Plots], str]) -> Drawing[RunConfig, Formula]:
    def draw(_: Sequence[Formula]) -> "Figure":
        return curves_figure(plots())

    return Drawing(
        schema=RunConfig,
        settings={},
        elsewhere=_no_data,
        read=lambda config, tracker, say: Formula(config),
        run_ids=lambda formula: (),
        draw=draw,
        caption=lambda _: caption(plots()),
    )


ENTROPIES = _drawing(entropies, _entropies_caption)
SUPERVISED = _drawing(supervised, _supervised_caption)
DIVERGENCES = _drawing(divergences, _divergences_caption)
