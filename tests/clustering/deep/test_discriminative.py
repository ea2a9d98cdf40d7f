"""The discriminative objective: its closed forms and gradients against dense ones, invariances, limits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep.xsdc.discriminative import (
    discriminative_objective,
    dissimilarity,
    left_out_error,
    ridge,
    ridge_objective,
)
from tests.oracles import xsdc_dense as oracle


def draw(seed: int, points: int = 12, dimension: int = 4, clusters: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (n, D) that lie away from zero, and one-hot labels (n, K) with every cluster in use."""
    generator = torch.Generator().manual_seed(seed)
    features = 2 + torch.randn(points, dimension, generator=generator, dtype=torch.float64)
    labels = torch.randint(clusters, (points,), generator=generator)
    labels[:clusters] = torch.arange(clusters)
    return features, torch.nn.functional.one_hot(labels).double()


SEEDS = st.integers(0, 100_000)
PENALTIES = st.sampled_from([1e-4, 1e-2, 1.0])


@settings(max_examples=15)
@given(seed=SEEDS, penalty=PENALTIES, points=st.integers(3, 14), dimension=st.integers(1, 16))
def test_it_is_the_value_of_the_regression(seed: int, penalty: float, points: int, dimension: int) -> None:
    features, targets = draw(seed, points, dimension)
    weights, intercept, value = oracle.ridge(features.numpy(), targets.numpy(), penalty)
    M = targets @ targets.T
    assert float(discriminative_objective(features, M, penalty)) == pytest.approx(value, abs=1e-10)
    assert float(ridge_objective(features, targets, penalty)) == pytest.approx(value, abs=1e-10)
    A = dissimilarity(features, penalty)
    assert float((A * M).sum()) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(A, oracle.dissimilarity(features.numpy(), penalty), atol=1e-10)
    found = ridge(features, targets, penalty)
    np.testing.assert_allclose(found.weights, weights, atol=1e-8)
    np.testing.assert_allclose(found.intercept, intercept, atol=1e-8)
    np.testing.assert_allclose(found.scores(features).sum(1), 1, atol=1e-10)


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_gradients_are_those_of_differences_and_of_the_paper(seed: int, penalty: float) -> None:
    features, targets = draw(seed, points=7, dimension=3)
    equivalence = torch.rand(7, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    features.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: discriminative_objective(x, equivalence, penalty), (features,))
    assert torch.autograd.gradcheck(lambda x: ridge_objective(x, targets, penalty), (features,))
    (found,) = torch.autograd.grad(discriminative_objective(features, equivalence, penalty), features)
    symmetric = ((equivalence + equivalence.T) / 2).numpy()
    np.testing.assert_allclose(found, oracle.gradient(features.detach().numpy(), symmetric, penalty), atol=1e-9)


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_errors_of_points_left_out(seed: int, penalty: float) -> None:
    features, targets = draw(seed)
    found = left_out_error(features, targets, torch.tensor([penalty, 1.0]))
    expected = [oracle.left_out_error(features.numpy(), targets.numpy(), value) for value in (penalty, 1.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
