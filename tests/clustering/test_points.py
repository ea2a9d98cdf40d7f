"""Points by features and by inner products are the same points."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clustering.optimiser.points
from clustering.optimiser.points import (
    Features,
    Gram,
    Points,
    cosines,
    squared_distances,
    squared_distances_by_block,
    squared_pairwise,
)


def two_forms(seed: int) -> tuple[Points, Points, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 9, 5, generator=generator, dtype=torch.float64)
    which = (torch.rand(3, 9, generator=generator) < 0.5).double()
    direction = torch.randn(3, 9, generator=generator, dtype=torch.float64) / 9
    coefficients = torch.rand(3, 4, 9, generator=generator, dtype=torch.float64)
    moved = x + which[..., None] * (direction[:, None] @ x)
    return Features(x).moved(which, direction), Gram(x @ x.mT).moved(which, direction), moved, coefficients


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_both_forms_agree_with_the_definition(seed: int) -> None:
    features, gram, x, coefficients = two_forms(seed)
    prototypes = coefficients @ x
    expected = torch.stack([((x - m[:, None]) ** 2).sum(-1) for m in prototypes.unbind(1)], dim=1)
    angle = torch.nn.functional.cosine_similarity(x[:, None], prototypes[:, :, None], dim=-1)
    for points in (features, gram):
        torch.testing.assert_close(points.squared_norms, (x**2).sum(-1))
        torch.testing.assert_close(points.inner(coefficients), prototypes @ x.mT)
        torch.testing.assert_close(squared_distances(points, coefficients), expected)
        torch.testing.assert_close(cosines(points, coefficients), angle)
        torch.testing.assert_close(points.pairwise(), x @ x.mT)
        torch.testing.assert_close(squared_pairwise(points), ((x[:, :, None] - x[:, None]) ** 2).sum(-1))
        some = torch.tensor([2, 0])
        torch.testing.assert_close(points.select(some).inner(coefficients[some]), points.inner(coefficients)[some])


@pytest.mark.parametrize("at_once", [1, 4 * 27, 1 << 24])
def test_distances_by_block_are_all_distances_in_order(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering.optimiser.points, "_AT_ONCE", at_once)
    features, gram, *_ = two_forms(5)
    parts = list(squared_distances_by_block(features))
    assert len(parts) == {1: 9, 4 * 27: 3}.get(at_once, 1)
    torch.testing.assert_close(torch.cat(parts, dim=2), squared_pairwise(gram))
    assert len(list(squared_distances_by_block(gram))) == 1


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_dissimilarities_rank_as_distances(seed: int) -> None:
    x = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    distances = ((x[:, 2:, None] - x[:, None, 2:]) ** 2).sum(-1)
    for points in (Features(x), Gram(x @ x.mT)):
        torch.testing.assert_close(points.dissimilarities(2) + (x[:, 2:] ** 2).sum(-1)[..., None], distances)


def test_a_zero_point_has_cosine_zero() -> None:
    x = torch.zeros(1, 2, 3)
    for points in (Features(x), Gram(x @ x.mT)):
        assert torch.equal(cosines(points, torch.ones(1, 1, 2)), torch.zeros(1, 1, 2))
