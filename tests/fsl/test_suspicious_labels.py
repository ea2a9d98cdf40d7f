"""Suspicious labels: leave-one-out scores against refits, planted errors, and what must hold whatever the labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fsl.labelling.suspicious import suspicious_labels
from fsl.transductive_classifier import TransductiveClassifier


def blobs(seed: int, *, size: int = 240, classes: int = 4) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, size)
    return random.normal(0, 1, (classes, 6))[labels] * 2 + random.normal(0, 1, (size, 6)), labels


def planted(seed: int, share: float = 0.5) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Points, given labels (-1 unknown), and which of these are wrong."""
    X, truth = blobs(seed)
    random = np.random.default_rng(seed + 1000)
    given = np.where(random.random(len(X)) < share, truth, -1)
    wrong = (random.random(len(X)) < 0.1) & (given >= 0)
    return X, np.where(wrong, (given + 1) % 4, given), wrong


def test_planted_errors_are_found_with_honest_probabilities() -> None:
    expected = errors = 0.0
    for seed in range(5):
        X, given, wrong = planted(seed)
        found = suspicious_labels(TransductiveClassifier().fit(X, given))
        assert roc_auc_score(wrong[found.points], found.probability) > 0.9
        expected, errors = expected + found.probability.sum(), errors + wrong.sum()
    assert expected == pytest.approx(errors, rel=0.3)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), share=st.floats(0.1, 1))
def test_what_holds_of_any_labels(seed: int, share: float) -> None:
    X, given, _ = planted(seed, share)
    found = suspicious_labels(TransductiveClassifier().fit(X, given))
    assert sorted(found.points) == list(np.flatnonzero(given >= 0))
    assert (np.diff(found.probability) <= 0).all()
    assert ((found.probability >= 0) & (found.probability <= 1)).all()
    assert (found.suggested != given[found.points]).all()
    assert set(found.suggested) <= set(given[given >= 0])
    renamed = suspicious_labels(TransductiveClassifier().fit(3 * X, np.where(given >= 0, 10 - given, -1)))
    assert np.sort(renamed.probability) == pytest.approx(np.sort(found.probability), abs=2e-2)
