"""Scatter, proportion entropy, mixture evidence: gradients by finite differences, concavity, padding, choice of
problems."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.objective import Term
from clustering.optimiser.points import Features, Gram
from clustering.optimiser.terms import MixtureEvidence, ProportionEntropy, Scatter

B, N, K, SUPPORT = 3, 6, 3, 4


def draw(seed: int, kind: str, *, gram: bool = True, masked: bool = False) -> tuple[Term, list[torch.Tensor]]:
    """The term and two states."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, SUPPORT + N, 5, generator=generator, dtype=torch.float64)
    labelled = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 0]), K).T.double().expand(B, -1, -1)
    valid = torch.ones(B, 1, N, dtype=torch.float64)
    valid[0, 0, 4:] = 0
    mask = valid if masked else None
    points = Gram(torch.bmm(x, x.mT)) if gram else Features(x)
    terms: dict[str, Term] = {
        "scatter": Scatter(points, labelled, mask, weight=1.7),
        "scatter with a prior": Scatter(points, labelled, mask, weight=1.7, prior=3.0),
        "proportions": ProportionEntropy(0.7, mask),
        "mixture": MixtureEvidence(labelled.sum(2, keepdim=True), mask, concentration=0.6, prior=1.5, dimensions=3),
    }
    scores = 2 * torch.randn(2, B, N, K, generator=generator, dtype=torch.float64)
    return terms[kind], list(torch.softmax(scores, dim=-1))


kinds = pytest.mark.parametrize("kind", ["scatter", "scatter with a prior", "proportions", "mixture"])


@kinds
@pytest.mark.parametrize("masked", [False, True])
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 100_000))
def test_the_gradient_is_the_slope_and_tangents_lie_above(kind: str, masked: bool, seed: int) -> None:
    term, (first, second) = draw(seed, kind, masked=masked)
    value, gradient = term.value_and_gradient(first)
    other, _ = term.value_and_gradient(second)
    way = second - first
    slope = (gradient * way).sum((1, 2))
    ends = [term.value_and_gradient(first + step * way)[0] for step in (1e-6, -1e-6)]
    torch.testing.assert_close((ends[0] - ends[1]) / 2e-6, slope, rtol=1e-5, atol=1e-6)
    assert bool((other <= value + slope + 1e-9).all())
    if masked:
        assert float(gradient[0, 4:].abs().max()) == 0
