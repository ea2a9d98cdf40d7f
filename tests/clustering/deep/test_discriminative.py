"""The discriminative objective: its closed forms and gradients against dense ones, invariances, limits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep.xsdc.discriminative import (
    discriminative_objective,
    dissimilarity,
    feature_scale,
    left_out_error,
    normalised_features,
    ridge,
    ridge_objective,
)
from clustering.foundation.errors import InputError
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


def test_the_gradient_is_that_of_the_residuals() -> None:
    """-(2/n) R W^T: W and b are held where they are best."""
    features, targets = draw(3)
    features.requires_grad_()
    (found,) = torch.autograd.grad(ridge_objective(features, targets, 0.1), features)
    model = ridge(features.detach(), targets, 0.1)
    residuals = targets - model.scores(features.detach())
    torch.testing.assert_close(found, -2 / len(features) * residuals @ model.weights.T)


def test_gradients_reach_the_weights_of_a_network_and_not_the_equivalence() -> None:
    inputs, targets = draw(5, points=9, dimension=4)
    weight = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    M, scale = (targets @ targets.T).requires_grad_(), torch.tensor(0.7).double()

    def objective(w: torch.Tensor) -> torch.Tensor:
        return discriminative_objective(normalised_features(torch.tanh(inputs @ w), scale), M, 0.01)

    assert torch.autograd.gradcheck(objective, (weight,))
    objective(weight).backward()
    assert M.grad is None


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_dissimilarities_ignore_shifts_rotations_and_names(seed: int, penalty: float) -> None:
    features, targets = draw(seed)
    A = dissimilarity(features, penalty)
    rotation = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)).double()).Q
    torch.testing.assert_close(dissimilarity(features + 7, penalty), A, atol=1e-10, rtol=0)
    torch.testing.assert_close(dissimilarity(features @ rotation, penalty), A, atol=1e-10, rtol=0)
    torch.testing.assert_close(A, A.T)
    assert float(A.sum(0).abs().max()) < 1e-12
    values = torch.linalg.eigvalsh(A)
    assert float(values.min()) > -1e-12
    assert float(values.max()) < 1 / len(A) + 1e-12
    value = float(ridge_objective(features, targets, penalty))
    assert 0 <= value <= 1 - float(targets.mean(0).square().sum()) + 1e-12
    assert float(ridge_objective(features, targets[:, [2, 0, 1]], penalty)) == pytest.approx(value)


@settings(max_examples=10)
@given(seed=SEEDS)
def test_limits_of_the_penalty(seed: int) -> None:
    features, targets = draw(seed)
    n = len(features)
    centring = torch.eye(n).double() - 1 / n
    centred = features - features.mean(0)
    projector = centred @ torch.linalg.pinv(centred)
    torch.testing.assert_close(dissimilarity(features, 1e9), centring / n, atol=1e-8, rtol=0)
    torch.testing.assert_close(dissimilarity(features, 1e-12), (centring - projector) / n, atol=1e-8, rtol=0)
    values = [float(ridge_objective(features, targets, penalty)) for penalty in (1e-6, 1e-3, 1.0, 1e3)]
    assert values == sorted(values)
    assert float(ridge_objective(features, torch.ones(n, 1), 0.1)) == pytest.approx(0, abs=1e-12)


def test_penalties_of_the_paper_at_float32_features() -> None:
    """2^-40 at normalised features, which span a dimension less than they have."""
    features, targets = draw(1, points=200, dimension=32)
    scaled = normalised_features(features.float())
    A = dissimilarity(scaled, 2.0**-40)
    assert float(torch.linalg.eigvalsh(A).min()) > -1e-9
    expected = oracle.ridge(scaled.double().numpy(), targets.numpy(), 2.0**-40)[2]
    assert float(ridge_objective(scaled, targets, 2.0**-40)) == pytest.approx(expected, rel=1e-4)


def test_problems_do_not_see_their_batch() -> None:
    features, targets = (torch.stack(some) for some in zip(*(draw(seed) for seed in range(3)), strict=True))
    M, penalties = targets @ targets.mT, torch.tensor([0.1, 1e-3, 1.0], dtype=torch.float64)
    together = features.clone().requires_grad_()
    values = discriminative_objective(together, M, penalties)
    values.sum().backward()
    for i in range(3):
        alone = features[i].clone().requires_grad_()
        value = discriminative_objective(alone, M[i], float(penalties[i]))
        value.backward()
        torch.testing.assert_close(value, values[i])
        torch.testing.assert_close(alone.grad, together.grad[i])
        torch.testing.assert_close(
            dissimilarity(features[i], float(penalties[i])), dissimilarity(features, penalties)[i]
        )


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_errors_of_points_left_out(seed: int, penalty: float) -> None:
    features, targets = draw(seed)
    found = left_out_error(features, targets, torch.tensor([penalty, 1.0]))
    expected = [oracle.left_out_error(features.numpy(), targets.numpy(), value) for value in (penalty, 1.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_normalised_features() -> None:
    features, _ = draw(0)
    found = normalised_features(features)
    torch.testing.assert_close(found.sum(1), torch.zeros(12).double())
    assert float(found.norm(dim=1).mean()) == pytest.approx(1)
    torch.testing.assert_close(normalised_features(features[:5], feature_scale(features)), found[:5])
    assert bool(normalised_features(torch.ones(3, 4)).isfinite().all())
    # To gradients, the scale is a constant.
    free = features.requires_grad_()
    slope = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).double()
    by_itself, given_ = (
        torch.autograd.grad((normalised_features(free, scale) * slope).sum(), free)[0]
        for scale in (None, feature_scale(free.detach()))
    )
    torch.testing.assert_close(by_itself, given_)


def test_the_objective_is_smoother_than_the_reverse_one_at_large_penalties() -> None:
    """Proposition 4.1, in the spectral norm: with ||Phi|| <= B, gradients are within 2 B rho / (n penalty), those of
    the reverse objective (1/n) tr((I - P_Y) Phi Phi^T) within 2 B / n; so the former is the smoother where the penalty
    is at least rho, the share of the largest cluster."""
    for seed in range(20):
        features, targets = draw(seed, points=30)
        n, share = len(features), float(targets.mean(0).max())
        features = features - features.mean(0)
        bound = float(torch.linalg.matrix_norm(features, 2))
        projector = targets @ torch.linalg.pinv(targets)
        reverse = 2 / n * (features - projector @ features)
        assert float(torch.linalg.matrix_norm(reverse, 2)) <= 2 * bound / n * (1 + 1e-9)
        for penalty in (share, 4 * share, 1e-3):
            free = features.clone().requires_grad_()
            ridge_objective(free, targets, penalty).backward()
            steepness = float(torch.linalg.matrix_norm(free.grad, 2))
            assert steepness <= 2 * bound * share / (n * penalty) * (1 + 1e-9)


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan")])
def test_a_penalty_that_cannot_be(penalty: float) -> None:
    with pytest.raises(InputError, match="penalty"):
        dissimilarity(torch.randn(4, 2), penalty)
