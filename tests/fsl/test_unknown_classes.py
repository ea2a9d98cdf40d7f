"""Points of no class: scores against loops, p-values, and held-out classes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fsl.labelling.unknown import _walked, none_of_these
from fsl.transductive_classifier import TransductiveClassifier

Pile = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


def pile(seed: int, *, classes: int = 6, held: int = 1, share: float = 0.3, size: int = 300) -> Pile:
    """Points, given labels (-1 unknown) of a random share of all but the last classes, and true classes."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, size)
    X = random.normal(0, 1, (classes, 8))[truth] * 2 + random.normal(0, 1, (size, 8))
    return X, np.where((random.random(size) < share) & (truth < classes - held), truth, -1), truth


def fitted(X: NDArray[np.floating], labels: NDArray[np.int64]) -> TransductiveClassifier:
    return TransductiveClassifier().fit(X, labels)


def test_the_walk_is_that_of_the_dense_graph() -> None:
    X, labels, _ = pile(0, size=60)
    graph, known = fitted(X, labels).smoothed().graph, np.flatnonzero(labels >= 0)
    W = (graph.to(torch.float64) @ torch.eye(60, dtype=torch.float64)[None])[0].numpy()
    P = W / W.sum(axis=1, keepdims=True)
    ends = 0.2 * np.linalg.inv(np.eye(60) - 0.8 * P)[:, known]
    walked = _walked(graph, torch.from_numpy(known), torch.ones(len(known))).numpy()
    rest = labels < 0
    assert walked[rest] == pytest.approx(ends.sum(axis=1)[rest], abs=2e-3)
    own = 0.2 * (1 + 0.64 * np.diag(P @ P)[known])
    assert walked[known] == pytest.approx(ends.sum(axis=1)[known] - own, abs=2e-3)


def test_p_values_of_points_of_the_classes_are_uniform_and_few_are_marked() -> None:
    values, shares = [], []
    for seed in range(10):
        X, labels, _ = pile(seed, held=0, share=0.5)
        result = none_of_these(fitted(X, labels))
        values.append(result.p_value)
        shares.append(result.share)
    p = np.concatenate(values)
    for level in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(p <= level) <= level + 0.05
    assert np.mean(shares) < 0.15


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_what_holds_of_any_pile(seed: int, share: float) -> None:
    X, labels, _ = pile(seed)
    classifier = fitted(X, labels)
    found, none = none_of_these(classifier, unknown=share), none_of_these(classifier, unknown=None)
    assert (found.points == np.flatnonzero(labels < 0)).all()
    assert ((found.p_value > 0) & (found.p_value <= 1)).all()
    assert found.unknown.sum() == round(share * len(found.points))
    assert not none.unknown.any()
    assert none.inlier == pytest.approx(found.inlier)
    if 0 < found.unknown.sum() < len(found.points):
        assert found.inlier[found.unknown].max() <= found.inlier[~found.unknown].min()


def test_bad_input_is_named() -> None:
    X, labels, _ = pile(0, size=30)
    bad: list[str | float] = ["some", 1.5, -0.1]
    for share in bad:
        with pytest.raises(InputError, match="unknown="):
            none_of_these(fitted(X, labels), unknown=share)
    with pytest.raises(InputError, match="two classes"):
        none_of_these(fitted(X, np.where(labels == labels.max(), labels, -1)))
