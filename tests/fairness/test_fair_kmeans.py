"""FairKMeans and FairKMedian: limits of the weight, the thesis's rows, invariances, starts on a sample, bad input."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clustering.foundation.errors import InputError
from fairness import FairKMeans, FairKMedian, FairNcut
from fairness.fair_kmeans import sample
from tests.fairness.thesis_sets import by_group, draw, synthetic, unequal
from tests.oracles.fair_assignment_lp import fair_lp

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {"n_init": 1, "random_state": 0}


@pytest.mark.filterwarnings("ignore:FairKMeans. no sensitive_features")
@settings(max_examples=30)
@given(seed=st.integers(0, 1000), K=st.integers(1, 5))
def test_weight_zero_is_k_means(seed, K):
    X, groups = draw(seed)
    init = X[np.unique(X, axis=0, return_index=True)[1][:K]]
    ours = FairKMeans(K, init=init, fairness_weight=0, small_groups="keep").fit(X, sensitive_features=groups)
    theirs = KMeans(K, init=init, n_init=1).fit(X)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-9)
    assert ours.objective_ == pytest.approx(theirs.inertia_)
    np.testing.assert_array_equal(ours.labels_, FairKMeans(K, init=init).fit(X).labels_)


@quiet
def test_the_largest_weight_is_near_the_fair_programme():
    X, _ = make_blobs(600, 2, centers=6, random_state=4)
    groups = np.random.default_rng(0).random(600) < 0.3 + 0.4 * (X[:, 0] > 0)
    model = FairKMeans(4, fairness_weight=1e6, random_state=0).fit(X, sensitive_features=groups)
    a = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    assert model.fairness_error_ <= 1e-3
    least, _ = fair_lp(a, np.stack([~groups, groups], axis=1), model.target_, model.target_)
    assert a[np.arange(600), model.labels_].sum() <= 1.03 * least


@quiet
def test_names_of_groups_order_of_points_and_clusters_do_not_matter():
    X, groups = draw(0, 60)
    init, options = X[[3, 17, 40]], {"fairness_weight": 8.0, "n_init": 1}
    first = FairKMeans(3, init=init, **options).fit(X, sensitive_features=groups)
    renamed = FairKMeans(3, init=init, **options).fit(X, sensitive_features=np.array(["z", "x", "y"])[groups])
    np.testing.assert_array_equal(first.labels_, renamed.labels_)
    assert renamed.fairness_error_ == pytest.approx(first.fairness_error_)
    order = np.random.default_rng(1).permutation(60)
    moved = FairKMeans(3, init=init[[2, 0, 1]], **options).fit(X[order], sensitive_features=groups[order])
    np.testing.assert_array_equal(np.array([1, 2, 0])[first.labels_[order]], moved.labels_)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    turned = FairKMeans(3, init=init @ turn + 100, **options).fit(X @ turn + 100, sensitive_features=groups)
    np.testing.assert_array_equal(first.labels_, turned.labels_)


@quiet
def test_the_weight_goes_with_the_square_of_the_scale_and_precision_does_not_matter():
    X, groups = draw(1, 60)
    once = FairKMeans(3, fairness_weight=5.0, init=X[[3, 17, 40]]).fit(X, sensitive_features=groups)
    wide = FairKMeans(3, fairness_weight=80.0, init=4 * X[[3, 17, 40]]).fit(4 * X, sensitive_features=groups)
    np.testing.assert_array_equal(wide.labels_, once.labels_)
    single = FairKMeans(3, fairness_weight=5.0, init=X[[3, 17, 40]]).fit(X.astype("f"), sensitive_features=groups)
    assert single.cluster_centers_.dtype == np.float32
    np.testing.assert_array_equal(single.labels_, once.labels_)


@quiet
def test_fitted_points_are_predicted_and_others_need_known_groups():
    X, groups = unequal()
    frame = pd.DataFrame({"sex": groups, "age": pd.cut(np.linspace(20, 60, 400), [0, 40, 100])})
    model = FairKMeans(3, target={"sex": {"low": 0.75, "high": 0.25}}, **BRIEF)
    model.fit(X, sensitive_features=frame)
    assert (model.predict(X, sensitive_features=frame) == model.labels_).mean() > 0.9
    new = pd.DataFrame({"age": pd.cut([99.0], [0, 40, 100]), "sex": ["high"]})
    assert model.predict(X[:1], sensitive_features=new).shape == (1,)
    assert model.predict(X).shape == (400,)
    with pytest.raises(InputError, match="'other'"):
        model.predict(X[:1], sensitive_features=new.assign(sex="other"))
    with pytest.raises(InputError, match="the fit had"):
        model.predict(X[:1], sensitive_features=["high"])
    crossed = FairKMeans(2, intersectional=True, **BRIEF)
    crossed.fit(X, sensitive_features=frame)
    assert crossed.predict(X, sensitive_features=frame).shape == (400,)


@quiet
def test_a_path_is_a_fit_at_each_weight_with_the_seeds_of_one():
    X, groups = unequal()
    weights = [60, 0, 5]
    model = FairKMeans(3, **{**BRIEF, "n_init": 2})
    models = model.path(pd.DataFrame(X, columns=["a", "b"]), weights, sensitive_features=groups)
    assert [model.fairness_weight for model in models] == weights
    assert list(models[0].feature_names_in_) == ["a", "b"]
    alone = FairKMeans(3, fairness_weight=0, **{**BRIEF, "n_init": 2}).fit(X, sensitive_features=groups)
    np.testing.assert_array_equal(models[1].labels_, alone.labels_)
    errors = {model.fairness_weight: model.fairness_error_ for model in models}
    assert errors[60] < errors[5] < errors[0]
    assert models[0].predict(pd.DataFrame(X, columns=["a", "b"]), sensitive_features=groups).shape == (400,)


@pytest.mark.parametrize(
    ("options", "X", "groups", "words"),
    [
        ({"fairness_weight": -1.0}, np.eye(4), None, "fairness_weight"),
        ({"n_clusters": 5}, np.eye(4), None, "n_samples=4 .*n_clusters=5"),
        ({}, np.array([[0.0], [np.inf]]), None, "row 1"),
        ({}, np.eye(4), ["a", "b", None, "a"], "1 of 4 rows"),
        ({}, np.eye(4), "sex", "sensitive_features"),
        ({}, np.eye(4), ["a", "a", "a", "b"], "'b' .*1 points"),
        ({"target": {"a": 1.0}}, np.eye(4), ["a", "b", "a", "b"], "'b'"),
        ({}, np.ones((4, 1)), None, "1 distinct points"),
    ],
)
def test_what_cannot_be_fitted_is_said(options, X, groups, words):
    with pytest.raises(InputError, match=words):
        FairKMeans(**{"n_clusters": 2, **options}).fit(X, sensitive_features=groups)


@quiet
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_group_of_one_percent_at_any_weight(dtype):
    """Counts of nearly nothing overflow no logarithm, and rows add up to what there is."""
    drawn = np.random.default_rng(0)
    X, groups = drawn.normal(size=(300, 3)).astype(dtype), np.r_[np.zeros(3), np.ones(297)]
    model = FairKMeans(8, small_groups="keep", **{**BRIEF, "max_iter": 2})
    for found in model.path(X, [1e-8, 1.0, 1e6], sensitive_features=groups):
        assert np.isfinite([step.objective for step in found.history_]).all()
        assert np.isfinite(found.group_prices_).all()
        assert found.group_counts_.sum() == 300


@pytest.mark.parametrize("kind", [FairKMeans, FairKMedian, FairNcut])
def test_a_weight_without_groups_is_worth_a_warning(kind):
    X, _ = draw(0, 20)
    options = {"n_init": 1, "random_state": 0, "max_iter": 2}
    with pytest.warns(UserWarning, match=r"no sensitive_features .*fairness_weight=10 .*sensitive_features="):
        kind(2, fairness_weight=10, **options).fit(X)
    with pytest.warns(UserWarning, match="a single group, 'f'"):
        kind(2, fairness_weight=10, **options).fit(X, sensitive_features=["f"] * 20)
    with pytest.warns(UserWarning, match="no sensitive_features"):
        kind(2, **options).path(X, [0, 1])
    with pytest.warns(UserWarning, match="no sensitive_features"):
        kind(2, fairness_weight={"max_error": 0.1}, **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        kind(2, fairness_weight=0, **options).fit(X)


@quiet
def test_it_is_a_transformer_as_k_means_is_and_goes_into_pipelines_and_grids():
    X, groups = unequal()
    model = FairKMeans(3, **BRIEF).fit(X, sensitive_features=groups)
    distances = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(X), distances, atol=1e-9)
    assert model.inertia_ == model.objective_ == pytest.approx((distances[range(400), model.labels_] ** 2).sum())
    assert list(model.get_feature_names_out()) == ["fairkmeans0", "fairkmeans1", "fairkmeans2"]
    steps = make_pipeline(StandardScaler(), FairKMeans(2, **BRIEF))
    labels = steps.fit_predict(X, fairkmeans__sensitive_features=groups)
    assert set(labels) == {0, 1}
    search = GridSearchCV(
        FairKMeans(2, **BRIEF), {"fairness_weight": [0, 5]}, scoring=lambda fit, X, y=None: -fit.inertia_
    )
    search.fit(X, sensitive_features=groups)
    assert search.best_params_ == {"fairness_weight": 0}


@pytest.mark.parametrize("kind", [FairKMeans, FairKMedian])
def test_a_fit_without_a_tolerance_ends(kind):
    X, groups = unequal()
    model = kind(3, tol=0, fairness_weight=20.0, **BRIEF).fit(X, sensitive_features=groups)
    assert model.converged_
    assert model.n_iter_ == len(model.history_) < model.max_iter


@quiet
def test_medoids_are_rows_and_new_points_are_predicted():
    X, groups = unequal()
    model = FairKMedian(3, **BRIEF).fit(X, sensitive_features=groups)
    paid = np.linalg.norm(X - X[model.medoid_indices_][model.labels_], axis=1).sum()
    assert model.objective_ == pytest.approx(paid)
    assert model.medoid_excess_ == 0
    np.testing.assert_allclose(model.cluster_centers_, X[model.medoid_indices_])
    assert (model.predict(X, sensitive_features=groups) == model.labels_).mean() > 0.9


def scaled(made):
    """The points as the authors' later code has them: columns in standard deviations, then rows of unit length."""
    X, groups = made
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), groups


@quiet
@pytest.mark.parametrize(
    ("weight", "objective", "error"), [(10, 287.281, 0.1561), (60, 290.154, 0.0199), (500, 293.444, 0.0005)]
)
def test_labels_are_no_dearer_than_those_of_the_public_code(weight, objective, error):
    """E of the best of 12 seeds of the authors' algorithm, and the objective alone."""
    X, groups = scaled(synthetic())
    model = FairKMedian(2, fairness_weight=weight, random_state=0).fit(X, sensitive_features=groups)
    assert model.objective_ <= objective
    assert model.objective_ + weight * model.fairness_error_ <= objective + weight * error + 0.01


@quiet
@pytest.mark.parametrize(
    ("made", "weight", "error", "balance", "objective"),
    [(synthetic, 85, 0.18, 0.45, 86.03), (unequal, 60, 0.067, 0.338, 60.36)],
)
def test_the_printed_rows(made, weight, error, balance, objective):
    """Thesis Table 3.2, whose balance is the mean over clusters."""
    X, groups = made()
    model = FairKMedian(2, fairness_weight=weight, init=by_group(X, groups), normalize="l2")
    model.fit(X, sensitive_features=groups)
    assert model.fairness_error_ == pytest.approx(error, abs=0.02)
    assert model.balance_mean_ == pytest.approx(balance, abs=0.02)
    assert model.objective_ == pytest.approx(objective, abs=1)
    assert model.converged_


@pytest.fixture
def samples_are_small(monkeypatch):
    monkeypatch.setattr("fairness.fair_kmeans._SAMPLE", {"kmeans": 200, "kmedian": 200})
    monkeypatch.setattr("fairness.fair_kmeans._MEMBERS", 1)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), C=st.integers(1, 9), few=st.integers(1, 3))
def test_a_sample_has_every_cell_in_proportion(seed, C, few):
    drawn = np.random.default_rng(seed)
    cells = drawn.permutation(np.r_[np.repeat(np.arange(C), few), drawn.integers(0, C, 900)])
    found = sample(cells, 100, seed)
    assert found is not None
    assert sample(cells[:199], 100, seed) is None
    np.testing.assert_array_equal(found, sample(cells, 100, seed))
    assert (np.diff(found) > 0).all()
    expected = np.bincount(cells) * 100 / len(cells)
    taken = np.bincount(cells[found], minlength=C)
    assert ((taken >= expected) & (taken < expected + 1)).all()
    assert (taken >= 1).all()


def overlapping(count=1200):
    X, kind = make_blobs(count, 2, centers=6, cluster_std=1.5, random_state=0)
    return X, (np.random.default_rng(0).random(count) < 0.2 + 0.1 * kind).astype(int)


@pytest.mark.parametrize("method", [FairKMeans, FairKMedian])
def test_all_points_end_where_they_would_without_a_sample(samples_are_small, monkeypatch, method):
    X, groups = overlapping()
    weights, options = [0.0, 100.0], {"n_init": 2, "tol": 1e-7, "random_state": 0}
    sampled = method(4, **options).path(X, weights, sensitive_features=groups)
    monkeypatch.setattr("fairness.fair_kmeans._SAMPLE", {"kmeans": 10_000, "kmedian": 10_000})
    whole = method(4, **options).path(X, weights, sensitive_features=groups)
    for ours, theirs in zip(sampled, whole, strict=True):
        assert ours.fairness_weight_ == theirs.fairness_weight_
        E = [model.objective_ + model.fairness_weight_ * model.fairness_error_ for model in (ours, theirs)]
        assert E[0] == pytest.approx(E[1], rel=1e-2)
        assert ours.converged_
        assert {step.weight for step in ours.history_} <= {ours.fairness_weight_}
        assert len(ours.labels_) == len(X)
    searched = method(4, fairness_weight={"max_error": 0.1}, **options).fit(X, sensitive_features=groups)
    assert searched.fairness_error_ <= 0.1
