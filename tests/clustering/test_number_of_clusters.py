"""The number of clusters that is found with n_clusters="auto"."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from clustering import SLK
from clustering.deep import EntropyClustering
from clustering.foundation.errors import InputError
from clustering.number_of_clusters import number_of_clusters


def blobs(clusters, seed, each=60, features=6):
    centres = 12 * np.random.default_rng(seed).permutation(np.indices([4] * 3).reshape(3, -1).T)[:clusters]
    centres = np.pad(centres, ((0, 0), (0, features - 3)))
    return make_blobs(clusters * each, features, centers=centres, random_state=seed)


@settings(deadline=None, max_examples=15)
@given(clusters=st.integers(2, 30), seed=st.integers(0, 1000), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_separate_groups_are_counted_at_any_scale(clusters, seed, scale):
    points, _ = blobs(clusters, seed)
    found = number_of_clusters(torch.from_numpy(points * scale), seed)
    assert found.n_clusters == clusters
    assert not found.doubts
    assert found.contrasts[0] == 0
    assert found.contrasts.max() <= 1


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 1000))
def test_points_without_groups_are_one_cluster_and_said_to_be(seed):
    points = np.random.default_rng(seed).normal(size=(600, 5))
    found = number_of_clusters(torch.from_numpy(points), seed)
    assert found.n_clusters == 1
    assert "1" in found.doubts
    with pytest.warns(UserWarning, match="n_clusters"):
        assert SLK("auto", random_state=0).fit(points).n_clusters_ == 1


@pytest.mark.parametrize("count", [1, 2, 39])
def test_few_points_are_refused(count):
    with pytest.raises(InputError, match=f"40 points or more, not {count}"):
        SLK("auto").fit(np.random.default_rng(0).normal(size=(count, 3)))
    assert number_of_clusters(torch.zeros(40, 3), 0).n_clusters == 1


@pytest.mark.parametrize("estimator", [SLK, EntropyClustering])
def test_a_fit_is_that_with_the_number(estimator):
    points, _ = blobs(4, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = estimator(n_clusters="auto", random_state=0).fit(points)
        known = estimator(n_clusters=4, random_state=0).fit(points)
    assert (auto.n_clusters, auto.n_clusters_, known.n_clusters_) == ("auto", 4, 4)
    assert auto.contrasts_.argmax() == 3
    assert np.array_equal(auto.labels_, known.labels_)
    assert np.array_equal(auto.predict(points), known.predict(points))


def test_labels_of_more_classes_raise_the_number():
    points, _ = blobs(3, 1)
    labels = np.full(len(points), -1)
    labels[:8] = np.arange(8) % 4
    assert EntropyClustering(n_clusters="auto", random_state=0).fit(points, partial_labels=labels).n_clusters_ == 4
