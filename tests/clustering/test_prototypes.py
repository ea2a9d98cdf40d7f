"""Means and modes by coefficients, against loops; densities never fall."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clustering.optimiser.points import Features, Gram
from clustering.optimiser.prototypes import best_assigned

DOUBLE = torch.float64


def random(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_modes_are_fixed_points_alike_by_features_and_products_alone_and_in_a_batch(seed: int) -> None:
    x, weights = 3 * random(seed, 3, 9, 3), (random(seed + 1, 3, 2, 9) - 0.4).relu()
    weights[:, :, 0] = 1  # uneven, or the start may be a stationary point that rounding leaves either way
    widths = random(seed + 2, 3, 1, 1) + 0.3
    means = Features(x).means(weights)
    found = Features(x).mean_shift(means, weights, widths, tolerance=1e-9)
    again = Features(x).mean_shift(found, weights, widths, tolerance=0, max_iterations=1)
    torch.testing.assert_close(again @ x, found @ x, atol=1e-6, rtol=0)
    gram = Gram(x @ x.mT).mean_shift(means, weights, widths, tolerance=1e-9)
    torch.testing.assert_close(gram @ x, found @ x, atol=1e-6, rtol=0)
    alone = Features(x[1:2]).mean_shift(means[1:2], weights[1:2], widths[1:2], tolerance=1e-9)
    torch.testing.assert_close(alone[0], found[1])


def test_by_product_modes_rank_saturated_assignments() -> None:
    logits = torch.tensor([[[60.0, 90.0, 70.0, 0.0], [0.0, 0.0, 0.0, 5.0]]])
    members = torch.tensor([[[True, True, True, False], [False, False, False, True]]])
    assert float(torch.softmax(logits, 1)[0, 0, 0]) == 1.0
    assert best_assigned(logits, members).tolist() == [[1, 3]]
    assert best_assigned(torch.zeros_like(logits), members).tolist() == [[0, 3]]
