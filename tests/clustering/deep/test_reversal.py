"""Training by ultimate layer reversal, and rounding: planted clusters, batches, sizes, and what breaks it off."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.constraints import constraints
from clustering.deep.xsdc.assignments import constrained_labels, nearest_labels, spectral_labels
from clustering.deep.xsdc.discriminative import ridge_objective
from clustering.deep.xsdc.networks import KernelMap, LinearMap
from clustering.deep.xsdc.training import Reversal
from clustering.foundation.errors import InputError
from clustering.metrics import accuracy

TOY_NOISE = 30


def toy(seed: int, separation: float = 4.0) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """300 points of 3 clusters in five dimensions, and thirty dimensions of nothing but noise."""
    generator = np.random.default_rng(seed)
    classes = np.arange(300) % 3
    centres = separation * np.linalg.qr(generator.normal(size=(5, 5)))[0][:3]
    values = generator.normal(size=(300, 5 + TOY_NOISE))
    values[:, :5] += centres[classes]
    return torch.from_numpy(values), classes


def training(inputs: torch.Tensor, labels: NDArray[np.int64] | None = None, **kwargs: Any) -> Reversal:
    network = LinearMap(inputs.shape[1], 6).double()
    network.begin(inputs, np.random.default_rng(0))
    known = constraints(len(inputs), labels=labels)
    return Reversal(network, inputs, known, 3, 1 / 3, 1 / 3, **kwargs)


def readout(trained: Reversal, penalty: float, classes: NDArray[np.int64]) -> float:
    M, _ = trained.equivalence(trained.features(trained.inputs), np.arange(len(classes)), penalty)
    return accuracy(classes, spectral_labels(M.numpy(), 3, np.random.default_rng(0)))


@pytest.mark.slow
def test_without_labels_it_finds_the_directions_that_tell_clusters_apart() -> None:
    """At a large penalty; at a small one less so, as the features confirm whatever M they began with."""
    after: dict[float, list[float]] = {0.1: [], 1e-4: []}
    before = []
    for penalty, found in after.items():
        for seed in range(3):
            inputs, classes = toy(seed)
            trained = training(inputs)
            before.append(readout(trained, penalty, classes))
            steps = trained.assigned(penalty, trained.network.optimizer(0.1), 300, np.random.default_rng(seed))
            list(islice(steps, 60))
            found.append(readout(trained, penalty, classes))
    assert min(after[0.1]) > 0.95
    assert np.mean(before[:3]) < 0.85
    assert np.mean(after[1e-4]) < np.mean(after[0.1])


def test_with_all_labels_it_is_the_loss_of_the_classes() -> None:
    """Balancing leaves M = Y Y^T as it is, and a step with it is a step without."""
    inputs, classes = toy(0)
    moved = []
    for kind in ("supervised", "assigned"):
        trained = training(inputs, classes)
        before = ridge_objective(trained.features(inputs), trained.targets(np.arange(300)), 0.1)
        steps = getattr(trained, kind)(0.1, trained.network.optimizer(0.1), 300, np.random.default_rng(0))
        first = next(steps)
        assert first.residual == 0
        assert first.objective == pytest.approx(float(before))
        moved.append([trained.network.weights.detach().clone(), *(step.objective for step in islice(steps, 30))])
    torch.testing.assert_close(moved[0][0], moved[1][0])
    assert moved[0][-1] < 0.5 * moved[0][1]


def test_some_labels_are_kept_in_every_batch() -> None:
    inputs, classes = toy(1)
    labels = np.where(np.arange(300) < 30, classes, -1)
    trained = training(inputs, labels)
    points = np.arange(300)
    M, residual = trained.equivalence(trained.features(inputs), points, 0.01)
    assert torch.equal(M[:30, :30], torch.from_numpy(classes[:30, None] == classes[:30]).double())
    assert residual < 1


def test_a_batch_with_more_labels_of_one_class_than_it_may_have() -> None:
    """All 100 are one third of the points, but not of a batch: fewer of them are drawn."""
    inputs, classes = toy(0)
    trained = training(inputs, np.where((classes == 0) | (np.arange(300) < 20), classes, -1))
    steps = trained.assigned(0.1, trained.network.optimizer(0.1), 110, np.random.default_rng(0))
    for step in islice(steps, 4):
        assert (trained.known.labels[step.points] == 0).sum() <= len(step.points) / 3


def test_what_is_known_of_a_batch_goes_before_its_bounds() -> None:
    inputs, classes = toy(0)
    trained = training(inputs, classes)
    points = np.concatenate([np.arange(0, 90, 3), [1, 2]])
    M, residual = trained.equivalence(trained.features(inputs[points]), points, 0.1)
    assert torch.equal(M, torch.from_numpy(classes[points][:, None] == classes[points]).double())
    assert residual == 0


def test_training_that_leaves_the_range_of_numbers_breaks_off_with_the_last_good_weights() -> None:
    inputs, classes = toy(0)
    network = KernelMap(35, 8).double()
    network.begin(inputs, np.random.default_rng(0))
    trained = Reversal(network, inputs, constraints(300, labels=classes), 3, 1 / 3, 1 / 3)
    steps = trained.supervised(0.1, network.optimizer(1e-3), 300, np.random.default_rng(0))
    next(steps)
    good = network.landmarks.detach().clone()
    network.landmarks.register_hook(lambda slope: slope * torch.nan)
    with pytest.raises(InputError, match=r"not finite at step 2;"):
        next(steps)
    assert torch.equal(network.landmarks, good)


def test_a_step_that_leads_out_of_the_range_of_numbers_is_taken_back() -> None:
    inputs, classes = toy(0)
    network = LinearMap(35, 4).double()
    network.begin(inputs, np.random.default_rng(0))
    good = network.weights.detach().clone()
    trained = Reversal(network, inputs, constraints(300, labels=classes), 3, 1 / 3, 1 / 3)
    with pytest.raises(InputError, match=r"not finite at step 1;"):
        next(
            trained.supervised(
                0.1, torch.optim.SGD(network.parameters(), lr=float("inf")), 300, np.random.default_rng(0)
            )
        )
    assert torch.equal(network.weights, good)


def test_nearest_labels() -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(40, 3)), generator.integers(4, size=10)
    found = nearest_labels(features, features[:10], labels)
    assert found[:10].tolist() == labels.tolist()
    for point, label in zip(features, found, strict=True):
        assert label == labels[np.square(features[:10] - point).sum(axis=1).argmin()]


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_spectral_labels_of_planted_blocks(sizes: list[int], seed: int) -> None:
    """Whatever the sizes, and with some weight between clusters; M need not be symmetric."""
    generator = np.random.default_rng(seed)
    classes = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    M = (classes[:, None] == classes) + 1e-3 * generator.random((len(classes), len(classes)))
    np.fill_diagonal(M, 1)
    assert accuracy(classes, spectral_labels(M, len(sizes), generator)) == 1


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), labelled=st.floats(0, 0.3), linked=st.floats(0, 0.2), clusters=st.integers(2, 4))
def test_labels_obey_what_is_known(seed: int, labelled: float, linked: float, clusters: int) -> None:
    generator = np.random.default_rng(seed)
    classes = generator.integers(clusters, size=25)
    labels = np.where(generator.random(25) < labelled, classes, -1)
    drawn = np.array([(i, j) for i in range(25) for j in range(i) if generator.random() < linked], dtype=int)
    drawn = drawn.reshape(-1, 2)
    same = classes[drawn[:, 0]] == classes[drawn[:, 1]]
    known = constraints(25, labels=labels, must_link=drawn[same], cannot_link=drawn[~same])
    scores = generator.normal(size=(25, clusters))
    found = constrained_labels(scores, known)
    told = known.labels >= 0
    assert (found[told] == known.labels[told]).all()
    assert all(found[i] == found[j] for i, j in drawn[same])
    apart = known.apart.toarray()
    for i, j in drawn[~same]:
        one, other = known.groups[i], known.groups[j]
        if max(apart[one].sum(), apart[other].sum()) < clusters:  # something is left for both
            assert found[i] != found[j]
    alone = (np.bincount(known.groups)[known.groups] == 1) & ~apart.any(axis=1)[known.groups] & ~told
    assert (found[alone] == scores[alone].argmax(axis=1)).all()


def test_pairs_of_more_than_full_weight_are_no_clusters() -> None:
    classes = np.arange(60) % 3
    M = (classes[:, None] == classes) + 0.1
    for one in (0, 6, 13):
        pair = [one, one + 3]
        M[pair] *= 0.05  # outliers, near each other alone
        M[:, pair] *= 0.05
        M[pair, pair] = 1
        M[pair, pair[::-1]] = 20
    assert accuracy(classes, spectral_labels(M, 3, np.random.default_rng(0))) == 1
