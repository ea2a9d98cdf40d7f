"""Figures of formulas alone: curves against loops, and what their captions say of them."""

import math

import numpy as np
import pytest
from scipy import stats

from runs.figures import formulas
from runs.figures.formulas import FIRST

SOME = (0, 250, 499, 700, 998)


def renyi(p: float, order: float) -> float:
    """Of (p, 1 - p), term by term."""
    if order == 1:
        return -(p * math.log(p) + (1 - p) * math.log(1 - p))
    if order == math.inf:
        return -math.log(max(p, 1 - p))
    return math.log(p**order + (1 - p) ** order) / (1 - order)


def test_entropies_and_what_they_become_with_a_label() -> None:
    (curves,) = formulas.entropies().values()
    for (name, values), order in zip(curves.items(), formulas.ORDERS, strict=True):
        assert name.endswith("∞" if order == math.inf else f"{order:g}")
        assert [values[i] for i in SOME] == pytest.approx([renyi(FIRST[i], order) for i in SOME])
    for plot, order in zip(formulas.supervised().values(), (math.inf, 2), strict=True):
        entropy, known = plot.values()
        for i in SOME:
            p = FIRST[i]
            assert entropy[i] == pytest.approx(renyi(p, order))
            assert known[i] == pytest.approx(renyi(p, order) if p >= 0.5 else math.log(2))


def test_both_directions_of_divergence_and_cross_entropy() -> None:
    divergence, cross_entropy = (list(curves.items()) for curves in formulas.divergences().values())
    for j, pair in enumerate(((0.9, 0.1), (0.5, 0.5))):
        for i in SOME:
            p = [FIRST[i], 1 - FIRST[i]]
            both = (stats.entropy(pair, p), stats.entropy(p, pair))
            for (name, values), wanted in zip(divergence[2 * j : 2 * j + 2], both, strict=True):
                assert name.endswith(f"u = {pair}")
                assert values[i] == pytest.approx(wanted)
            own = (stats.entropy(pair), stats.entropy(p))
            for (name, values), kl, h in zip(cross_entropy[2 * j : 2 * j + 2], both, own, strict=True):
                assert name.endswith(f"y = {pair}")
                assert values[i] == pytest.approx(kl + h)


@pytest.mark.parametrize("order", formulas.SIMPLEX_ORDERS)
def test_losses_of_three_classes_are_as_their_caption_says(order: float) -> None:
    p = formulas.predictions()
    assert len(p) == (formulas.STEPS + 1) * (formulas.STEPS + 2) // 2
    np.testing.assert_allclose(p.sum(axis=1), 1)
    losses = [formulas.known_loss(p, order, known) for known in range(3)]
    for i in range(0, len(p), 997):
        some = [q for q in p[i] if q > 0]
        if order == 1:
            entropy = -sum(q * math.log(q) for q in some)
        else:
            entropy = -math.log(max(some)) if order == math.inf else -math.log(sum(q**2 for q in some))
        assert min(loss[i] for loss in losses) == pytest.approx(entropy, abs=1e-12), "self-labelling"
        assert losses[0][i] == pytest.approx(entropy if p[i, 0] == max(p[i]) else math.log(3), abs=1e-12)
    edge = formulas.known_loss(np.array([[0.501, 0.499, 0], [0.499, 0.501, 0], [0.334, 0.333, 0.333]]), order)
    assert edge[1] - edge[0] > 0.4, "a jump at the border"
    assert edge[2] == pytest.approx(math.log(3), abs=0.01), "none at the centre"
