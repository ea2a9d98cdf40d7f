"""Points by features and by inner products are the same points."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.points import (
    Features,
    Gram,
    Points,
    cosines,
    squared_distances,
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
