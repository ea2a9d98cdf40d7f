"""The semi-supervised classifier of a pile of points."""

import pickle

import numpy as np
import pandas as pd
import pytest
from mapie.classification import SplitConformalClassifier
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.utils.estimator_checks import parametrize_with_checks

from clustering.foundation.errors import InputError
from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.transductive_classifier import TransductiveClassifier, given_labels

EXEMPT = {"check_classifiers_classes": "uses -1 as a class; scikit-learn exempts its own semi-supervised classifiers"}


def pile(seed=0, points=120, classes=4, dtype=np.float32):
    """Clusters in six dimensions, and their classes."""
    generator = np.random.default_rng(seed)
    centres = 3 * generator.normal(size=(classes, 6))
    y = generator.integers(0, classes, points)
    y[:classes] = range(classes)
    return (centres[y] + generator.normal(size=(points, 6))).astype(dtype), y


def partly(y, number, seed=0):
    """The labels of `number` points, at least one of each class; -1 for the others."""
    first = np.unique(y, return_index=True)[1]
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(y)), first))
    kept = np.concatenate([first, rest])[:number]
    known = np.full(len(y), -1)
    known[kept] = y[kept]
    return known


@parametrize_with_checks(
    [TransductiveClassifier(), TransductiveClassifier("simpleshot"), TransductiveClassifier("label_propagation")],
    expected_failed_checks=lambda _: EXEMPT,
)
def test_scikit_learn_takes_it_for_a_classifier(estimator, check):
    check(estimator)


@pytest.mark.parametrize("strategy", ["smoothed_ridge", "laplacianshot", "simpleshot", "slk_means", "paddle"])
def test_given_labels_stay_and_the_others_are_found(strategy):
    X, y = pile()
    known = partly(y, 12)
    found = TransductiveClassifier(strategy).fit(X, known)
    assert (found.transduction_[known >= 0] == y[known >= 0]).all()
    assert (found.transduction_ == y).mean() > 0.85
    np.testing.assert_allclose(found.label_distributions_.sum(axis=1), 1, atol=1e-5)
    assert (found.label_distributions_[found.labelled_].max(axis=1) == 1).all()
    again, truth = pile(seed=0, points=160)
    assert (found.predict(again) == truth).mean() > 0.85
    assert found.score(again, np.where(np.arange(160) % 2, truth, -1)) > 0.85


@pytest.mark.parametrize(
    "labels",
    [
        ["ant", "", "bee", "ant", None, float("nan")],
        np.array(["ant", "-1", "bee", "ant", "", ""]),
        ["ant", "-1", "bee", "ant", None, -1],
        pd.Series(["ant", None, "bee", "ant", "", None], dtype="string"),
    ],
)
def test_unknown_strings(labels):
    known, values = given_labels(labels)
    assert known.tolist() == [True, False, True, True, False, False]
    assert values.tolist() == ["ant", "bee", "ant"]


@pytest.mark.parametrize("strategy", ["smoothed_ridge", "laplacianshot"])
def test_class_names_with_and_without_labels(strategy):
    X, y = pile()
    names = ["dog", "ant", "cat", "bee"]
    text = np.stack([X[y == k].mean(axis=0) for k in range(4)])
    found = TransductiveClassifier(strategy).fit(X, np.full(len(y), ""), class_names=names, text=text)
    truth = np.array(names)[y]
    assert found.classes_.tolist() == sorted(names)
    assert (found.transduction_ == truth).mean() > 0.85
    some = np.where(partly(y, 3) >= 0, truth, "")
    assert (
        TransductiveClassifier(strategy).fit(X, some, class_names=names, text=text).transduction_ == truth
    ).mean() > 0.85
    with pytest.raises(InputError, match="text has 5 features, X has 6"):
        TransductiveClassifier(strategy).fit(X, some, class_names=names, text=text[:, :5])


def test_the_same_points_are_smoothed_once(monkeypatch):
    X, y = pile()
    found = TransductiveClassifier().fit(X, partly(y, 8))
    first = found.smoothed()
    assert found.fit(X.copy(), partly(y, 20)).smoothed() is first
    fresh = clone(found).fit(X, partly(y, 20))
    np.testing.assert_array_equal(fresh.label_distributions_, found.label_distributions_)
    X[0] += 1
    assert found.fit(X, partly(y, 20)).smoothed() is not first
    copy = pickle.loads(pickle.dumps(found))
    assert "_prepared" not in vars(copy)
    np.testing.assert_array_equal(copy.predict_proba(X), found.predict_proba(X))


def test_lengths_count_for_new_points_as_for_the_pile():
    X, y = make_circles(1500, noise=0.05, factor=0.5, random_state=0)
    labels = partly(y[:1000], 40)
    laplacian = LaplacianShot(transform="UN", shift=False)
    for strategy, low, high in ((SmoothedRidge(), 0.98, 1), (laplacian, None, 1)):
        found = TransductiveClassifier(strategy).fit(X[:1000], labels)
        accuracy = (found.predict(X[1000:]) == y[1000:]).mean()
        assert ((found.transduction_ == y[:1000]).mean() - 0.03 if low is None else low) <= accuracy <= high


def test_prediction_sets_of_mapie_cover():
    """As in docs/how_to/label-quality.md."""
    covered = []
    for seed in range(5):
        X, y = pile(seed, points=600)
        X += np.random.default_rng(seed).normal(size=X.shape).astype(np.float32)
        known = partly(y, 40)
        free = np.flatnonzero(known < 0)
        found = TransductiveClassifier().fit(X, known)
        sets = SplitConformalClassifier(found, confidence_level=0.9, conformity_score="lac", prefit=True)
        members = sets.conformalize(X[free[:300]], y[free[:300]]).predict_set(X[free[300:]])[1][:, :, 0]
        covered.append(members[np.arange(len(members)), y[free[300:]]].mean())
    assert 0.86 <= np.mean(covered) <= 0.94
