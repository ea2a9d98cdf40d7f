"""Which points to label next."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.labelling.selection import Selection, next_to_label
from fsl.transductive_classifier import TransductiveClassifier
from tests.fsl.test_transductive_classifier import partly, pile

METHODS = get_args(Selection)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labelled", [0, 1, 12, 118, 120])
def test_only_free_points_each_once(method, labelled):
    X, y = pile()
    classifier = TransductiveClassifier().prepare(X)
    if labelled:
        known = np.full(len(y), -1)
        known[:labelled] = y[:labelled]
        classifier.fit(X, known)
    exclude = [len(y) - 1]
    found = next_to_label(classifier, 10, method=method, exclude=exclude)
    assert len(found) == len(set(found)) == min(10, max(0, len(y) - labelled - (labelled < len(y))))
    assert not set(found) & {*range(labelled), *exclude}
    again = next_to_label(classifier, 10, method=method, exclude=exclude)
    np.testing.assert_array_equal(found, again)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_variance_is_greedy_over_exact_gains(seed, labelled):
    """The oracle inverts the matrix anew for each candidate, and measures the weighted variance itself."""
    X, y = pile(seed, points=40, dtype=np.float64)
    classifier = TransductiveClassifier().prepare(X)
    if labelled:
        classifier.fit(X, partly(y, labelled))
    level, penalty = classifier.chosen()
    F = classifier.smoothed().levels[level][0].numpy()
    rows = list(getattr(classifier, "labelled_", []))
    weights = np.ones(len(X))
    if labelled:
        spread = 1 - np.square(classifier.label_distributions_).sum(axis=1)
        weights = spread if spread.max() > 0 else weights
    weights[rows] = 0

    def left(points):
        inverse = np.linalg.inv(F[points].T @ F[points] + penalty * np.eye(F.shape[1]))
        return weights @ ((F @ inverse) * F).sum(axis=1)

    for point in next_to_label(classifier, 4):
        remaining = {q: left([*rows, q]) for q in range(len(X)) if q not in rows}
        assert remaining[point] <= min(remaining.values()) * (1 + 1e-6)
        rows.append(int(point))


def test_margin_asks_for_the_least_certain():
    X, y = pile()
    classifier = TransductiveClassifier().fit(X, partly(y, 12))
    probabilities = np.sort(classifier.label_distributions_, axis=1)
    margins = probabilities[:, -1] - probabilities[:, -2]
    chosen = next_to_label(classifier, 5, method="margin")
    others = np.setdiff1d(np.arange(len(y)), [*chosen, *classifier.labelled_])
    assert margins[chosen].max() <= margins[others].min()


def test_bad_requests():
    classifier = TransductiveClassifier().prepare(pile()[0])
    with pytest.raises(InputError, match="unknown selection method 'varience'"):
        next_to_label(classifier, 3, method="varience")
    for n in (0, 1.5):
        with pytest.raises(InputError, match=f"n must be an integer of at least 1, not {n}"):
            next_to_label(classifier, n)
    for wrong in ([120], np.ones(120, dtype=bool), [1.5]):
        with pytest.raises(InputError, match="exclude must be indices of the 120 points"):
            next_to_label(classifier, 3, exclude=wrong)
    with pytest.raises(InputError, match="smoothed_ridge needs at least two points"):
        TransductiveClassifier().prepare(np.ones((1, 3)))
