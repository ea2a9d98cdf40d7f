"""Losses, objectives and networks of deep clustering: loops, slopes by finite differences, closed forms, limits."""

import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from clustering.constraints import constraints
from clustering.deep import OBJECTIVES, losses
from clustering.deep.xsdc.discriminative import (
    discriminative_objective,
    dissimilarity,
    final_classifier,
    left_out_error,
    normalised_features,
    ridge,
    ridge_objective,
)
from clustering.deep.xsdc.networks import (
    KernelLayer,
    KernelMap,
    Perceptron,
    gradient_kernel_network,
    lenet5_kernel_network,
)
from clustering.deep.xsdc.reversal import Reversal, Solver
from tests.clustering.deep.test_xsdc import partly, pictures
from tests.oracles import entropy_loops, xsdc_dense
from tests.oracles import kernel_layers_loops as oracle


def draw(seed: int, shape: tuple[int, ...] = (2, 7, 3), scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(scale * torch.randn(*shape, generator=generator, dtype=torch.float64), -1)


seeds = st.integers(0, 100_000)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, order=st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0, math.inf]))
def test_they_are_those_of_loops(seed: int, order: float) -> None:
    log_p, log_q = draw(seed), draw(seed + 1)
    for i in range(2):
        p, q = log_p[i].exp().tolist(), log_q[i].exp().tolist()
        assert float(losses.paired_information(log_p, log_q)[i]) == pytest.approx(
            entropy_loops.paired_information(p, q), abs=1e-12
        )
        expected = sum(entropy_loops.renyi(row, order) for row in p) / 7
        assert float(losses.mean_entropy(log_p, order)[i]) == pytest.approx(expected, abs=1e-12)
        swapped = sum(-a * math.log(b) for x, y in zip(p, q, strict=True) for a, b in zip(x, y, strict=True)) / 7
        assert float(losses.reverse_cross_entropy(log_p, log_q.exp())[i]) == pytest.approx(swapped)
        assert float(losses.cross_entropy(log_q, log_p.exp())[i]) == pytest.approx(swapped)


EVERY = list(OBJECTIVES.table)


def of(name: str, **fields: Any) -> Any:
    return OBJECTIVES.load(name)(**fields)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("with_known", [False, True])
def test_the_slope_of_every_objective(name: str, with_known: bool) -> None:
    """By finite differences, pseudo-labels held."""
    logits = draw(9, (2, 8, 3), scale=1.0).requires_grad_()
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    known = (torch.arange(8) < 3, torch.arange(8) % 3) if with_known else None
    objective = of(name)
    targets = objective.targets(torch.log_softmax(logits[0], -1).detach(), prior, known)

    def value(x: Tensor) -> Tensor:
        found: Tensor = objective.loss(torch.log_softmax(x, -1), targets, prior, known)
        return found

    assert value(logits).shape == ()
    assert torch.autograd.gradcheck(value, (logits,), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EVERY)
def test_targets_are_distributions_keep_what_is_known_and_do_not_see_the_batch(name: str) -> None:
    log_p = draw(12, (3, 8, 3))
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    known = ((torch.arange(8) < 3).expand(3, -1), (torch.arange(8) % 3).expand(3, -1))
    objective = of(name)
    targets = objective.targets(log_p, prior, known)
    if targets is not None:
        torch.testing.assert_close(targets.sum(-1), torch.ones(3, 8, dtype=torch.float64))
        one_hot = torch.nn.functional.one_hot(known[1], 3).double()
        assert torch.equal(targets[known[0]], one_hot[known[0]])
        for i in range(3):
            alone = objective.targets(log_p[i], prior, (known[0][i], known[1][i]))
            torch.testing.assert_close(targets[i], alone)
    views = torch.stack([log_p, draw(13, (3, 8, 3))])
    together = objective.loss(views, targets, prior, known)
    assert together.shape == (3,)
    for i in range(3):
        own = (known[0][i], known[1][i])
        alone = objective.loss(views[:, i], None if targets is None else targets[i], prior, own)
        torch.testing.assert_close(together[i], alone)


@pytest.mark.parametrize("name", EVERY)
def test_a_network_sets_the_agreement_of_every_objective_that_has_one(name: str) -> None:
    objective = of(name)
    views = torch.stack([draw(12, (8, 3)), draw(13, (8, 3))])
    prior = torch.full((3,), 1 / 3, dtype=torch.float64)
    if hasattr(objective, "agreement"):
        known = (torch.arange(8) < 3, torch.arange(8) % 3)
        targets = objective.targets(views[0], prior, known)
        one, more = (
            dataclasses.replace(objective, agreement=weight).loss(views, targets, prior, known) for weight in (1.0, 2.0)
        )
        assert float(more - one) == pytest.approx(float(losses.agreement(views[0], views[1])))
    else:
        assert name == "iic"


def draw_discriminative(
    seed: int, points: int = 12, dimension: int = 4, clusters: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
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
    features, targets = draw_discriminative(seed, points, dimension)
    weights, intercept, value = xsdc_dense.ridge(features.numpy(), targets.numpy(), penalty)
    M = targets @ targets.T
    assert float(discriminative_objective(features, M, penalty)) == pytest.approx(value, abs=1e-10)
    assert float(ridge_objective(features, targets, penalty)) == pytest.approx(value, abs=1e-10)
    A = dissimilarity(features, penalty)
    assert float((A * M).sum()) == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(A, xsdc_dense.dissimilarity(features.numpy(), penalty), atol=1e-10)
    found = ridge(features, targets, penalty)
    np.testing.assert_allclose(found.weights, weights, atol=1e-8)
    np.testing.assert_allclose(found.intercept, intercept, atol=1e-8)
    np.testing.assert_allclose(found.scores(features).sum(1), 1, atol=1e-10)


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_gradients_are_those_of_differences_and_of_the_paper(seed: int, penalty: float) -> None:
    features, targets = draw_discriminative(seed, points=7, dimension=3)
    equivalence = torch.rand(7, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    features.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: discriminative_objective(x, equivalence, penalty), (features,))
    assert torch.autograd.gradcheck(lambda x: ridge_objective(x, targets, penalty), (features,))
    (found,) = torch.autograd.grad(discriminative_objective(features, equivalence, penalty), features)
    symmetric = ((equivalence + equivalence.T) / 2).numpy()
    np.testing.assert_allclose(found, xsdc_dense.gradient(features.detach().numpy(), symmetric, penalty), atol=1e-9)


@settings(max_examples=10)
@given(seed=SEEDS, penalty=PENALTIES)
def test_errors_of_points_left_out(seed: int, penalty: float) -> None:
    features, targets = draw_discriminative(seed)
    found = left_out_error(features, targets, torch.tensor([penalty, 1.0]))
    expected = [xsdc_dense.left_out_error(features.numpy(), targets.numpy(), value) for value in (penalty, 1.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def draw_classifier(seed: int, points: int, labelled: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    values = generator.normal(size=(points, 4)) + 2 * np.eye(3, 4)[classes]
    return values, np.where(np.arange(points) < labelled, classes, -1)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), labelled=st.integers(4, 12), others=st.integers(1, 20), power=st.integers(-20, 0))
def test_the_error_at_points_left_out_is_that_of_fits_without_them(
    seed: int, labelled: int, others: int, power: int
) -> None:
    """Labels of nearest points are found anew without the point, and the penalty weighs as much as with it."""
    values, labels = draw_classifier(seed, labelled + others, labelled)
    one_hot, penalty = np.eye(3), 2.0**power
    distances = np.square(values[labelled:, None] - values[:labelled]).sum(-1)
    nearest = np.argsort(distances, axis=1)[:, :2]
    expected = []
    for left in range(labelled):
        kept = np.delete(np.arange(labelled), left)
        found = labels[kept][np.square(values[labelled:, None] - values[kept]).sum(-1).argmin(axis=1)]
        rows = np.concatenate([values[kept], values[labelled:]])
        targets = torch.from_numpy(one_hot[np.concatenate([labels[kept], found])])
        weight = penalty * (labelled + others) / len(rows)
        scores = ridge(torch.from_numpy(rows), targets, weight).scores(torch.from_numpy(values[left : left + 1]))
        expected.append(np.square(scores.numpy()[0] - one_hot[labels[left]]).sum())
    full = np.concatenate([labels[:labelled], labels[nearest[:, 0]]])
    error = left_out_error(
        torch.from_numpy(values),
        torch.from_numpy(one_hot[full]),
        torch.tensor([penalty, 1.0]),
        torch.from_numpy(nearest),
    )
    assert float(error[0]) == pytest.approx(np.mean(expected), rel=1e-5)


def test_nearest_points_where_labels_are_few_and_labelled_ones_where_clusters_overlap() -> None:
    generator = np.random.default_rng(0)
    classes = np.arange(600) % 3
    apart = np.eye(3, 20)[classes] + 0.1 * generator.normal(size=(600, 20))
    mixed = np.eye(3, 4)[classes] + 1.0 * generator.normal(size=(600, 4))
    cases: list[tuple[Any, int, Any]] = [(apart, 6, "nearest"), (mixed, 200, "labelled")]
    for values, known, kind in cases:
        points, labels = torch.from_numpy(values), np.where(np.arange(600) < known, classes, -1)
        penalty, chosen = final_classifier(points, labels, 3, "auto", 0.1)
        torch.testing.assert_close(chosen, final_classifier(points, labels, 3, kind, penalty)[1])
    penalty_alone, alone = final_classifier(points[:200], classes[:200], 3, "auto", 0.1)
    assert penalty_alone == penalty
    torch.testing.assert_close(alone.weights, chosen.weights)


def test_copies_of_a_point_are_a_block_of_ones() -> None:
    X, classes = pictures(0)
    network = Perceptron(144, (8,), 4)
    network.begin(torch.from_numpy(X), np.random.default_rng(0))
    known = constraints(60, labels=partly(classes, 4))
    training = Reversal(network, torch.from_numpy(X), known, 3, (1 / 3, 1 / 3), solver=Solver(batch_size=30, copies=3))
    steps = training.steps("assigned", 0.01, network.optimizer(1e-3), np.random.default_rng(0))
    step = next(steps)
    assert len(step.points) == 12 + 30
    others = step.points[12:].reshape(10, 3)
    assert (others == others[:, :1]).all()
    assert len(set(others[:, 0].tolist())) == 10
    assert step.equivalence is not None
    for place in range(12, 42, 3):
        assert (step.equivalence[place : place + 3, place : place + 3] == 1).all()
    assert not torch.equal(step.features[12], step.features[13])


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
