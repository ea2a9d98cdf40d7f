"""Suspicious labels: leave-one-out scores against refits, planted errors, and what must hold whatever the labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from clustering.foundation.errors import InputError
from fsl.labelling.suspicious import left_out_scores, smoothed, suspicious_labels


def blobs(seed: int, *, size: int = 240, classes: int = 4) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, size)
    return random.normal(0, 1, (classes, 6))[labels] * 2 + random.normal(0, 1, (size, 6)), labels


def neighbours(X: NDArray[np.float64], k: int = 8) -> NDArray[np.int64]:
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False))


def planted(seed: int, share: float = 0.5) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Points, given labels (-1 unknown), and which of these are wrong."""
    X, truth = blobs(seed)
    random = np.random.default_rng(seed + 1000)
    given = np.where(random.random(len(X)) < share, truth, -1)
    wrong = (random.random(len(X)) < 0.1) & (given >= 0)
    return X, np.where(wrong, (given + 1) % 4, given), wrong


def test_scores_are_those_of_a_refit_without_the_point() -> None:
    X, labels = blobs(0, size=40)
    A = X - X.mean(axis=0)
    penalty = 0.1 * np.trace(A.T @ A) / X.shape[1]
    found = left_out_scores(X, labels, (0.1,))[0]
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        model = Ridge(alpha=penalty).fit(X[rest], np.eye(4)[labels[rest]])
        assert found[i] == pytest.approx(model.predict(X[i : i + 1])[0], abs=1e-9)


def test_smoothing_is_its_series_on_the_dense_graph() -> None:
    X, _ = blobs(1, size=30)
    near = neighbours(X, 3)
    W = np.zeros((30, 30))
    W[np.arange(30)[:, None], near] = 1
    W = (W + W.T) / 2
    S = W / np.sqrt(np.outer(W.sum(axis=1), W.sum(axis=1)))
    expected = np.linalg.solve(np.eye(30) - 0.5 * S, 0.5 * (X - X.mean(axis=0)))
    assert np.abs(smoothed(X, near) - expected).max() < 0.03 * np.abs(expected).max()


def test_planted_errors_are_found_with_honest_probabilities() -> None:
    expected = errors = 0.0
    for seed in range(5):
        X, given, wrong = planted(seed)
        found = suspicious_labels(X, given, neighbours(X))
        assert roc_auc_score(wrong[found.points], found.probability) > 0.9
        expected, errors = expected + found.probability.sum(), errors + wrong.sum()
    assert expected == pytest.approx(errors, rel=0.3)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 1))
def test_what_holds_of_any_labels(seed: int, share: float) -> None:
    X, given, _ = planted(seed, share)
    near = neighbours(X)
    found = suspicious_labels(X, given, near)
    assert sorted(found.points) == list(np.flatnonzero(given >= 0))
    assert (np.diff(found.probability) <= 0).all()
    assert ((found.probability >= 0) & (found.probability <= 1)).all()
    assert (found.suggested != given[found.points]).all()
    assert set(found.suggested) <= set(given[given >= 0])
    renamed = suspicious_labels(3 * X + 1, np.where(given >= 0, 10 - given, -1), near)
    assert np.sort(renamed.probability) == pytest.approx(np.sort(found.probability), abs=2e-2)


def test_the_only_label_of_a_class_is_not_judged() -> None:
    X, truth = blobs(3)
    given = np.where((truth < 3) | (np.arange(len(X)) == np.flatnonzero(truth == 3)[0]), truth, -1)
    found = suspicious_labels(X, given, neighbours(X))
    assert found.probability[given[found.points] == 3] == pytest.approx(found.rate)


def test_bad_input_is_named() -> None:
    X, labels = blobs(0, size=20)
    near = neighbours(X, 3)
    for bad in ((X, labels[:-1], near), (X, labels, near[:-1]), (X[0], labels, near)):
        with pytest.raises(InputError, match="features, labels and neighbours"):
            suspicious_labels(*bad)
    with pytest.raises(InputError, match="integers"):
        suspicious_labels(X, labels - 2, near)
    with pytest.raises(InputError, match="two classes"):
        suspicious_labels(X, np.where(labels == 0, 0, -1), near)
