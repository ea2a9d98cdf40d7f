"""Classifiers of one's own points and pictures: the strategy's own answers, later points, files, unusual input."""

import dataclasses
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from mapie.classification import SplitConformalClassifier
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.utils.estimator_checks import parametrize_with_checks

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.classifier_files import FORMAT
from fsl.episodes import Episodes
from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.few_shot_classifier import FewShotClassifier
from fsl.strategies import STRATEGIES
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.transductive_classifier import TransductiveClassifier, given_labels

NAMES = np.array(["ant", "bee", "cat", "dog"])


@parametrize_with_checks([FewShotClassifier("simpleshot")])
def test_scikit_learn_takes_it_for_a_classifier(estimator, check):
    check(estimator)


def draw(seed=0, queries=40, spread=1.0, dtype=np.float32):
    """Support with 2, 3, 4 and 5 shots of four classes in any order, and queries with their classes."""
    generator = np.random.default_rng(seed)
    centres = 2 * generator.normal(size=(4, 8))
    labels, truth = generator.permutation(np.repeat(np.arange(4), [2, 3, 4, 5])), generator.integers(0, 4, queries)
    rows = [centres[which] + spread * generator.normal(size=(len(which), 8)) for which in (labels, truth)]
    return rows[0].astype(dtype), NAMES[labels], rows[1].astype(dtype), NAMES[truth]


@pytest.mark.parametrize("strategy", [SimpleShot(), LaplacianShot(shift=False), STRATEGIES.load("slk_ms")(shift=False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_strategy_itself_answers(strategy, dtype):
    support, names, query, truth = draw(dtype=dtype)
    found = FewShotClassifier(strategy).fit(support, names)
    mean = np.mean([support[names == name].mean(axis=0) for name in NAMES], axis=0)
    np.testing.assert_allclose(found.base_mean_, mean, atol=1e-6)
    labels = torch.tensor([NAMES.tolist().index(name) for name in names])
    parts = (torch.from_numpy(part)[None] for part in (support, query))
    tasks = Episodes(next(parts), labels[None], next(parts), 4, base_mean=torch.from_numpy(mean.astype(dtype)))
    expected = strategy.predict(tasks).probabilities[0].numpy()
    np.testing.assert_allclose(found.predict_proba(query), expected, atol=1e-5)
    assert found.predict_proba(query).dtype == dtype
    assert (found.predict(query) == truth).mean() > 0.8
    assert found.score(query, truth) == (found.predict(query) == truth).mean()


def test_prototypes_are_the_means_of_support_and_of_what_was_labelled():
    support, names, query, _ = draw(spread=1.5)
    found = FewShotClassifier("laplacianshot").fit(support, names)

    def transformed(rows):
        rows = rows - found.base_mean_
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    for seen, others in ((0, query[:0]), (len(query), query)):
        if seen:
            assert found.refine(query) is found
        labels = found.predict(others) if seen else NAMES[:0]
        expected = [
            np.concatenate([transformed(support[names == name]), transformed(others[labels == name])]).mean(axis=0)
            for name in NAMES
        ]
        np.testing.assert_allclose(found.prototypes_, expected, atol=1e-5)
        assert found.refined_by_ == seen
        distances = ((transformed(query)[:, None] - np.array(expected)) ** 2).sum(axis=2)
        chances = np.exp(-distances) / np.exp(-distances).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.predict_proba(query, alone=True), chances, atol=1e-5)


def test_saved_and_read_back(tmp_path):
    support, names, query, _ = draw()
    path = tmp_path / "mine.safetensors"
    strategy = LaplacianShot(weight=0.3, shift=False)
    found = FewShotClassifier(strategy).fit(support, names).refine(query)
    found.save(path)
    again = FewShotClassifier.load(path)
    assert again.strategy_ == strategy
    assert again.classes_.tolist() == NAMES.tolist()
    for alone in (False, True):
        np.testing.assert_array_equal(again.predict_proba(query, alone=alone), found.predict_proba(query, alone=alone))
    assert FewShotClassifier.load(path, strategy="simpleshot").strategy_ == SimpleShot()
    assert clone(again).get_params()["strategy"] == strategy
    for place in (tmp_path, tmp_path / "nowhere" / "mine.safetensors"):
        with pytest.raises(InputError, match="file"):
            found.save(place)
    FewShotClassifier("simpleshot").fit(support, np.arange(len(support)) % 3).save(path)
    assert FewShotClassifier.load(path).predict(query).dtype.kind == "i"


@dataclasses.dataclass(frozen=True)
class Own(SimpleShot):
    """A strategy of somebody's own module."""


def test_a_file_chooses_no_module(tmp_path):
    support, names, query, _ = draw()
    path = tmp_path / "own.safetensors"
    FewShotClassifier(Own()).fit(support, names).save(path)
    with pytest.raises(InputError, match=r"test_classifiers:Own' .*trust"):
        FewShotClassifier.load(path)
    again = FewShotClassifier.load(path, strategy=Own())
    np.testing.assert_array_equal(
        again.predict(query), FewShotClassifier("simpleshot").fit(support, names).predict(query)
    )


def _without(key):
    def spoil(tensors, about):
        del tensors[key]

    return spoil


def _set(key, value):
    def spoil(tensors, about):
        about[key] = value

    return spoil


def _nan(tensors, about):
    tensors["prototypes"] = tensors["prototypes"] * float("nan")


@pytest.mark.parametrize(
    "spoil",
    [
        _without("support"),
        _nan,
        _set("classes", ["ant", "bee"]),
        _set("fields", {"wait": 3}),
        _set("fields", {"beta": -1}),
        _set("strategy", "os:system"),
        _set("strategy", ["simpleshot"]),
        _set("fields", []),
        _set("refined_by", -5),
        _set("refined_by", float("inf")),
        _set("classes", ["ant", "ant", "bee", "cat"]),
        _set("classes", ["dog", "cat", "bee", "ant"]),
        _set("classes", [None, "bee", "cat", "dog"]),
        _set("backbone", 5),
        _set("weights", ["x"]),
        _set("encoder", 5),
    ],
)
def test_files_that_are_not_whole(tmp_path, spoil):
    support, names, *_ = draw()
    path = tmp_path / "mine.safetensors"
    FewShotClassifier("simpleshot").fit(support, names).save(path)
    tensors, header = read_tensors(path, FORMAT, "")
    tensors, about = {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(header["classifier"])
    spoil(tensors, about)
    write_tensors(path, tensors, {**header, "classifier": json.dumps(about)})
    with pytest.raises(InputError, match=r"mine\.safetensors") as caught:
        FewShotClassifier.load(path)
    assert "has changed" not in str(caught.value)


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
def test_scikit_learn_takes_that_of_a_pile_for_a_classifier(estimator, check):
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


GENERATOR = np.random.default_rng(0)
Y = np.repeat([0, 1], 5)
X = GENERATOR.normal(size=(10, 3)) + 9 * Y[:, None]
DAYS = np.datetime64("2020-01-01") + np.arange(30).reshape(10, 3).astype("timedelta64[D]")


def test_dates_are_refused() -> None:
    with pytest.raises(InputError, match="datetime64"):
        FewShotClassifier().fit(DAYS, Y)
    with pytest.raises(InputError, match="datetime64"):
        FewShotClassifier().fit(X, Y).predict(DAYS)
    with pytest.raises(InputError, match=r"base_mean.*datetime64"):
        FewShotClassifier(base_mean=DAYS[0]).fit(X, Y)


def test_base_means_without_squares_are_refused() -> None:
    with pytest.raises(InputError, match=r"base_mean.*float64"):
        FewShotClassifier(base_mean=np.full(3, 1e300)).fit(X, Y)
    rows = torch.from_numpy(X)[None]
    labels = torch.from_numpy(Y)[None]
    for value, words in ((1e300, "squares"), (np.inf, "NaN or infinite")):
        with pytest.raises(InputError, match=f"base_mean.*{words}"):
            Episodes(rows, labels, rows, way=2, base_mean=torch.full((3,), value, dtype=torch.float64))


def test_features_without_squares_are_refused_and_one_column_of_such_changes_nothing() -> None:
    with pytest.raises(InputError, match="squares"):
        FewShotClassifier().fit(1e-320 * X, Y)
    with pytest.raises(InputError, match="squares exceed float64"):
        FewShotClassifier().fit(X, Y).predict(1e300 * X)
    rows, labels = torch.from_numpy(X)[None], torch.from_numpy(Y)[None]
    scaled = torch.cat([rows, 1e-320 * rows])
    with pytest.raises(InputError, match="task 1"):
        Episodes(scaled, labels.expand(2, -1), scaled, way=2)
    mixed = np.c_[X, 1e-320 * X[:, 0]]
    for strategy in ("simpleshot", "laplacianshot"):
        plain, other = (FewShotClassifier(strategy, device="cpu").fit(part, Y).predict(part) for part in (X, mixed))
        np.testing.assert_array_equal(plain, other)
