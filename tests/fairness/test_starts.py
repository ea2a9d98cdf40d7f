"""Starts on a sample: what is drawn, and where all points end from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from fairness import FairKMeans, FairKMedian
from fairness.fair_kmeans import sample


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
