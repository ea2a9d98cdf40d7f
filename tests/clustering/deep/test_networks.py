"""Kernel networks and the others: layers against loops over patches, how they begin, and steps along the sphere."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep.networks import Waves, waves
from clustering.deep.xsdc.discriminative import discriminative_objective, normalised_features
from clustering.deep.xsdc.networks import (
    GaussianPooling,
    KernelLayer,
    KernelMap,
    LinearMap,
    Perceptron,
    SphereDescent,
    gradient_cells,
    gradient_kernel_network,
    gradient_map,
    inverse_square_root,
    lenet5_kernel_network,
)
from clustering.foundation.errors import InputError
from tests.oracles import kernel_layers_loops as oracle

SEEDS = st.integers(0, 100_000)


def images(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=10)
@given(seed=SEEDS, size=st.integers(1, 8), rank=st.integers(1, 8))
def test_inverse_square_roots(seed: int, size: int, rank: int) -> None:
    """Of a Gram matrix of directions, few of them independent."""
    directions = torch.nn.functional.normalize(images(seed, size, rank), dim=1)
    gram = directions @ directions.T
    found = inverse_square_root(gram)
    np.testing.assert_allclose(found, oracle.power_of_minus_half(gram.numpy() + 0.001 * np.eye(size)), atol=1e-6)
    torch.testing.assert_close(inverse_square_root(torch.stack([gram, 2 * gram]))[0], found)


def test_its_gradient_where_eigenvalues_are_equal() -> None:
    gram = torch.eye(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: inverse_square_root((g + g.T) / 2), (gram,))


@settings(max_examples=15)
@given(
    seed=SEEDS,
    channels=st.integers(1, 3),
    patch=st.integers(1, 3),
    padding=st.integers(0, 1),
    kernel=st.sampled_from(["sphere", "linear"]),
)
def test_a_layer_is_the_kernel_of_every_patch(seed: int, channels: int, patch: int, padding: int, kernel: Any) -> None:
    batch = images(seed, 2, channels, 4, 5)
    layer = KernelLayer(channels, 3, patch, kernel=kernel, padding=padding).double()
    layer.begin(batch, np.random.default_rng(seed))
    filters = layer.filters.detach().numpy()
    np.testing.assert_allclose(np.linalg.norm(filters, axis=1), 1)
    for image, found in zip(batch, layer(batch).detach(), strict=True):
        expected = oracle.layer(image.numpy(), filters, patch, padding, kernel, 0.6)
        empty = (expected == 0).all(axis=0)  # patches of nothing but padding have no direction, and a length near 0
        np.testing.assert_allclose(found[:, ~empty], expected[:, ~empty], atol=1e-6)
        np.testing.assert_allclose(found[:, empty], 0, atol=1e-3)


@settings(max_examples=10)
@given(seed=SEEDS, padding=st.integers(0, 2))
def test_pooling_after_a_linear_layer_is_a_longer_filter(seed: int, padding: int) -> None:
    batch = images(seed, 1, 2, 8, 8)
    layer = KernelLayer(2, 4, 5, kernel="linear", padding=padding, pool=2).double()
    layer.begin(batch, np.random.default_rng(seed))
    plain = oracle.layer(batch[0].numpy(), layer.filters.detach().numpy(), 5, padding, "linear", 0.6)
    np.testing.assert_allclose(layer(batch)[0].detach(), oracle.averaged(plain, 2), atol=1e-9)


def test_a_fixed_layer_compares_pixels_with_the_axes() -> None:
    batch = images(0, 2, 3, 4, 4)
    layer = KernelLayer(3, fixed=True).double()
    layer.begin(batch, np.random.default_rng(0))
    assert not layer.filters.requires_grad
    expected = oracle.layer(batch[0].numpy(), np.eye(3), 1, 0, "sphere", 0.6)
    np.testing.assert_allclose(layer(batch)[0], expected, atol=1e-6)


@pytest.mark.parametrize("factor", [2, 4])
def test_gaussian_pooling(factor: int) -> None:
    batch = images(1, 1, 2, 9, 8)
    found = GaussianPooling(factor)(batch)
    for channel in range(2):
        np.testing.assert_allclose(found[0, channel], oracle.gaussian(batch[0, channel].numpy(), factor), atol=1e-6)


@pytest.mark.parametrize("side", [6, 12, 13, 20, 32])
def test_features_of_a_filter(side: int) -> None:
    found = gradient_kernel_network(1)(torch.ones(1, 2, side, side))
    assert found.shape[1] == gradient_cells(side)


@pytest.mark.parametrize("kind", ["lenet5", "gradient"])
def test_networks_of_the_paper(kind: str) -> None:
    """Sizes of features, filters on the sphere before and after steps of a bounded angle, gradients everywhere."""
    batch = images(2, 6, *((1, 28, 28) if kind == "lenet5" else (32, 32)))
    batch = batch if kind == "lenet5" else gradient_map(batch)
    network = (lenet5_kernel_network(8) if kind == "lenet5" else gradient_kernel_network(8)).double()
    network.begin(batch, np.random.default_rng(0))
    features = network(batch)
    assert features.shape == (6, 8 if kind == "lenet5" else 128)
    torch.testing.assert_close(network(batch[2:3]), features[2:3])
    before = copy.deepcopy(dict(network.named_parameters()))
    optimizer = network.optimizer(0.1)
    discriminative_objective(normalised_features(features), torch.eye(6), 0.1).backward()
    optimizer.step()
    for name, filters in network.named_parameters():
        torch.testing.assert_close(filters.norm(dim=1), torch.ones(len(filters)).double())
        angles = torch.arccos((filters * before[name]).detach().sum(1).clamp(-1, 1))
        if filters.requires_grad:
            assert 0 < float(angles.max()) <= np.arcsin(0.1) + 1e-6
        else:
            assert torch.equal(filters, before[name])


def test_steps_do_not_see_the_scale_and_stay_where_there_is_no_slope() -> None:
    directions = torch.nn.functional.normalize(images(0, 3, 4), dim=1)
    slope = images(1, 3, 4)
    slope[1] = 0
    moved = []
    for scale in (1.0, 1e-200):
        rows = directions.clone().requires_grad_()
        rows.grad = scale * slope
        SphereDescent([rows], 0.5).step()
        moved.append(rows.detach())
    torch.testing.assert_close(moved[0], moved[1])
    torch.testing.assert_close(moved[0][1], directions[1])
    expected = directions[0] - 0.5 * slope[0] / slope[0].norm()
    torch.testing.assert_close(moved[0][0], expected / expected.norm())


@settings(max_examples=10)
@given(seed=SEEDS, unit=st.booleans())
def test_the_kernel_map(seed: int, unit: bool) -> None:
    points = images(seed, 20, 3)
    network = KernelMap(3, 5, unit_landmarks=unit).double()
    network.begin(points, np.random.default_rng(seed))
    landmarks, bandwidth = network.landmarks.detach().numpy(), float(network.bandwidth)
    between = np.linalg.norm(points.numpy()[:, None] - points.numpy(), axis=2)[np.triu_indices(20, 1)]
    assert bandwidth == pytest.approx(np.sort(between)[(len(between) - 1) // 2])
    near = (np.linalg.norm(landmarks[:, None] - points.numpy(), axis=2) < 1e-9).any(axis=1)
    assert np.allclose(np.linalg.norm(landmarks, axis=1), 1) if unit else near.all()

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-np.square(a[:, None] - b).sum(axis=2) / (2 * bandwidth**2))

    expected = kernel(points.numpy(), landmarks) @ oracle.power_of_minus_half(
        kernel(landmarks, landmarks) + 0.001 * np.eye(5)
    )
    np.testing.assert_allclose(network(points).detach(), expected, atol=1e-6)


def test_gradients_of_the_objective_by_a_networks_parameters() -> None:
    scale = torch.tensor(0.3).double()
    points, targets = images(3, 9, 3), torch.eye(3).double()[torch.arange(9) % 3]
    network = KernelMap(3, 4).double()
    network.begin(points, np.random.default_rng(0))

    def objective(landmarks: torch.Tensor) -> torch.Tensor:
        features = torch.func.functional_call(network, {"landmarks": landmarks}, (points,))
        return discriminative_objective(normalised_features(features, scale), targets @ targets.T, 0.05)

    assert torch.autograd.gradcheck(objective, (network.landmarks.detach().requires_grad_(),))


@pytest.mark.parametrize("network", [LinearMap(4, 6), Perceptron(4, (5,), 6), KernelMap(4, 6)])
def test_vector_networks_begin_by_their_stream(network: Any) -> None:
    points = images(4, 30, 4).float()
    found = []
    for seed in (0, 0, 1):
        network.begin(points, np.random.default_rng(seed))
        found.append(network(points).detach())
    assert found[0].shape == (30, 6)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_images_of_nothing() -> None:
    with pytest.raises(InputError, match=r"patches .*zero"):
        lenet5_kernel_network(8).begin(torch.zeros(2, 1, 28, 28), np.random.default_rng(0))


def test_waves_are_cosines_of_every_frequency_up_to_the_fastest() -> None:
    drawn = Waves(3, 400, 7.0)
    rows = torch.randn(5, 3)
    found = drawn(rows)
    for i, k in ((0, 0), (4, 399), (2, 17)):
        turn = sum(float(rows[i, d] * drawn.directions[d, k]) for d in range(3))
        assert float(found[i, k]) == pytest.approx(np.cos(turn + float(drawn.phases[k])), abs=1e-5)
    speeds = np.sort(drawn.directions.norm(dim=0).numpy()) / 7.0
    assert np.abs(speeds - np.linspace(0, 1, 400)).max() < 0.1, "evenly between none and the fastest"
    assert waves(3)(rows).shape == (5, 256)
    assert not list(drawn.parameters()), "they are not trained"
