"""Kernel networks and the others: layers against loops over patches, how they begin, and steps along the sphere."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep.xsdc.discriminative import discriminative_objective, normalised_features
from clustering.deep.xsdc.networks import (
    KernelLayer,
    KernelMap,
    gradient_kernel_network,
    lenet5_kernel_network,
)
from tests.oracles import kernel_layers_loops as oracle

SEEDS = st.integers(0, 100_000)


def images(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


@pytest.mark.parametrize("kind", ["lenet5", "gradient"])
def test_networks_of_the_paper(kind: str) -> None:
    """Sizes of features, filters on the sphere before and after steps of a bounded angle, gradients everywhere."""
    batch = images(2, 6, *((1, 28, 28) if kind == "lenet5" else (3, 32, 32)))
    network = (lenet5_kernel_network(8) if kind == "lenet5" else gradient_kernel_network(128)).double()
    network.begin(batch, np.random.default_rng(0))
    features = network(batch)
    assert features.shape == (6, 8 if kind == "lenet5" else 128)
    torch.testing.assert_close(network(batch[2:3].flatten(1)), features[2:3])  # a row is an image, too
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


@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_kernel_map(seed: int) -> None:
    points = images(seed, 20, 3)
    network = KernelMap(3, 5).double()
    network.begin(points, np.random.default_rng(seed))
    landmarks, bandwidth = network.landmarks.detach().numpy(), float(network.bandwidth)
    between = np.linalg.norm(points.numpy()[:, None] - points.numpy(), axis=2)[np.triu_indices(20, 1)]
    assert bandwidth == pytest.approx(np.sort(between)[(len(between) - 1) // 2])
    near = (np.linalg.norm(landmarks[:, None] - points.numpy(), axis=2) < 1e-9).any(axis=1)
    assert near.all()

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-np.square(a[:, None] - b).sum(axis=2) / (2 * bandwidth**2))

    expected = kernel(points.numpy(), landmarks) @ oracle.power_of_minus_half(
        kernel(landmarks, landmarks) + 0.001 * np.eye(5)
    )
    np.testing.assert_allclose(network(points).detach(), expected, atol=1e-6)
