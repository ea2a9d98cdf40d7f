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
from clustering.deep.xsdc.assignments import constrained_labels
from clustering.deep.xsdc.discriminative import normalised_features, ridge_objective
from clustering.deep.xsdc.networks import LinearMap
from clustering.deep.xsdc.training import Reversal, Solver, raw_features

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
    return Reversal(network, inputs, known, 3, (1 / 3, 1 / 3), solver=Solver(batch_size=300), **kwargs)


def test_with_all_labels_it_is_the_loss_of_the_classes() -> None:
    """Balancing leaves M = Y Y^T as it is, and a step with it is a step without."""
    inputs, classes = toy(0)
    moved = []
    for kind in ("supervised", "assigned"):
        trained = training(inputs, classes)
        features = normalised_features(raw_features(trained.network, inputs))
        before = ridge_objective(features, trained.targets(np.arange(300)), 0.1)
        steps = trained.steps(kind, 0.1, trained.network.optimizer(0.1), np.random.default_rng(0))
        first = next(steps)
        assert first.residual == 0
        assert first.objective == pytest.approx(float(before))
        moved.append([trained.network.weights.detach().clone(), *(step.objective for step in islice(steps, 30))])
    torch.testing.assert_close(moved[0][0], moved[1][0])
    assert moved[0][-1] < 0.5 * moved[0][1]


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
