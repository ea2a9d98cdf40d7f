"""Starts on a sample: what is drawn, and where all points end from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from fairness import FairKMeans, FairKMedian
from fairness.optimiser.starts import sample


@pytest.fixture
def samples_are_small(monkeypatch):
    monkeypatch.setattr("fairness.optimiser.starts._SAMPLE", 200)
    monkeypatch.setattr("fairness.optimiser.starts._MEMBERS", 1)


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), C=st.integers(1, 9), few=st.integers(1, 3))
def test_a_sample_has_every_cell_in_proportion(seed, C, few):
    drawn = np.random.default_rng(seed)
    cells = drawn.permutation(np.r_[np.repeat(np.arange(C), few), drawn.integers(0, C, 900)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fairness.optimiser.starts._SAMPLE", 100)
        patched.setattr("fairness.optimiser.starts._MEMBERS", 1)
        found = sample(cells, 2, seed)
        assert found is not None
        assert sample(cells[:199], 2, seed) is None
        np.testing.assert_array_equal(found, sample(cells, 2, seed))
    assert (np.diff(found) > 0).all()
    expected = np.bincount(cells) * 100 / len(cells)
    taken = np.bincount(cells[found], minlength=C)
    assert ((taken >= expected) & (taken < expected + 1)).all()
    assert (taken >= 1).all()


def overlapping(count=1200):
    X, kind = make_blobs(count, 2, centers=6, cluster_std=1.5, random_state=0)
    return X, (np.random.default_rng(0).random(count) < 0.2 + 0.1 * kind).astype(int)


@pytest.mark.parametrize("method", [FairKMeans, pytest.param(FairKMedian, marks=pytest.mark.slow)])
def test_all_points_end_where_they_would_without_a_sample(samples_are_small, monkeypatch, method):
    X, groups = overlapping()
    weights, options = [0.0, 100.0], {"n_init": 2, "rungs": 2, "tol": 1e-7, "random_state": 0}
    sampled = method(4, **options).path(X, weights, sensitive_features=groups)
    monkeypatch.setattr("fairness.optimiser.starts._SAMPLE", 10_000)
    whole = method(4, **options).path(X, weights, sensitive_features=groups)
    for ours, theirs in zip(sampled, whole, strict=True):
        assert ours.fairness_weight_ == theirs.fairness_weight_
        assert ours.relaxed_objective_ == pytest.approx(theirs.relaxed_objective_, rel=1e-3)
        assert ours.converged_
        assert ours.gap_ <= ours.gap_tol * ours.relaxed_objective_
        assert (np.diff([step.objective for step in ours.history_]) <= 1e-9 * ours.relaxed_objective_).all()
        assert {step.weight for step in ours.history_} == {ours.fairness_weight_}
        assert len(ours.labels_) == len(X)


def test_at_weight_zero_the_unfair_method_goes_on_to_its_end(samples_are_small):
    X, groups = overlapping()
    model = FairKMeans(4, fairness_weight=0, tol=0, random_state=1).fit(X, sensitive_features=groups)
    means = np.stack([X[model.labels_ == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(model.cluster_centers_, means)
    distances = np.linalg.norm(X[:, None] - means, axis=2)
    np.testing.assert_array_equal(model.labels_, distances.argmin(axis=1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cluster_of_outliers_that_lacks_a_group_begins_elsewhere():
    """One outlier, at which a prototype is seeded, is of one group: no weight would give its cluster the other."""
    drawn = np.random.default_rng(0)
    X = np.concatenate([drawn.normal(size=(60, 2)), drawn.normal(size=(60, 2)) + 6, [[9.0, -9.0]]])
    groups = np.r_[np.arange(120) % 2, 0]
    init = np.array([[0.0, 0.0], [6.0, 6.0], [9.0, -9.0]])
    model = FairKMedian(3, fairness_weight=20.0, init=init, rungs=0).fit(X, sensitive_features=groups)
    assert not model.absent_groups_
    assert model.fairness_error_ < 0.1
    assert model.n_empty_ == 0
