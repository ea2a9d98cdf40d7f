"""Fair clustering of a dask array on a real Dask cluster of two workers: as in memory, also when a worker is
killed in the middle; input that cannot be."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from clustering.blocks import is_dask_array
from clustering.blocks.cluster import Cluster
from clustering.foundation.errors import InputError
from fairness import FairKMeans, FairKMedian

dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BRIEF: dict[str, Any] = {
    "fairness_weight": 40.0,
    "n_init": 1,
    "rungs": 0,
    "max_iter": 2,
    "max_sweeps": 4,
    "random_state": 0,
}


def points(count=210, seed=0):
    """Clusters that overlap, far from zero, some points twice; groups and ages, not by chance alone."""
    X, kind = make_blobs(count, 3, centers=4, cluster_std=3.0, center_box=(90, 110), random_state=seed)
    X[:20:2] = X[1:20:2]
    drawn = np.random.default_rng(seed)
    return X, {"sex": np.where(drawn.random(count) < 0.2 + 0.2 * kind, "f", "m"), "old": drawn.random(count) < 0.3}


def cut(X, blocks):
    return dask_array.from_array(X, chunks=(-(-len(X) // blocks), 2))  # columns are cut too, and joined again


def assert_alike(found, expected):
    assert is_dask_array(found.labels_)
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-7)
    np.testing.assert_allclose(found.group_prices_, expected.group_prices_, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.group_counts_, expected.group_counts_)
    for name in ("n_iter_", "n_empty_", "converged_", "n_features_in_", "fairness_weight_", "group_names_"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in ("objective_", "relaxed_objective_", "fairness_error_", "soft_fairness_error_", "balance_min_"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-7), name
    assert [step.sweeps for step in found.history_] == [step.sweeps for step in expected.history_]


@quiet
@pytest.mark.parametrize(
    ("method", "blocks"),
    [
        (FairKMeans, 2),
        *(pytest.param(FairKMeans, blocks, marks=pytest.mark.slow) for blocks in (1, 7)),
        *(pytest.param(FairKMedian, blocks, marks=pytest.mark.slow) for blocks in (1, 2, 7)),
    ],
)
def test_the_same_as_in_memory(client, method, blocks):
    X, groups = points()
    found = method(3, **BRIEF).fit(cut(X, blocks), sensitive_features=groups)
    expected = method(3, **BRIEF).fit(X, sensitive_features=groups)
    assert_alike(found, expected)
    np.testing.assert_array_equal(
        found.predict(X, sensitive_features=groups), expected.predict(X, sensitive_features=groups)
    )
    if method is FairKMedian:  # of 64 candidates in every cluster; in memory, of all its points
        paid = np.linalg.norm(X - X[found.medoid_indices_][expected.labels_], axis=1).sum()
        assert found.objective_ == pytest.approx(paid)
        assert 0 <= found.medoid_excess_ < 0.05


@quiet
@pytest.mark.slow
def test_a_sample_first_and_a_path_of_weights(client, monkeypatch):
    monkeypatch.setattr("fairness.optimiser.starts._SAMPLE", 60)
    monkeypatch.setattr("fairness.optimiser.starts._MEMBERS", 1)
    X, groups = points()
    settings = {**BRIEF, "normalize": "l2"}
    sex = dask_array.from_array((groups["sex"] == "f").astype(int), chunks=50)
    found = FairKMeans(3, **settings).path(cut(X, 3), [0, 1e-3, 0.1], sensitive_features=sex)
    expected = FairKMeans(3, **settings).path(X, [0, 1e-3, 0.1], sensitive_features=np.asarray(sex))
    for ours, theirs in zip(found, expected, strict=True):
        assert_alike(ours, theirs)


@quiet
@pytest.mark.slow
def test_clusters_that_empty_begin_again(client):
    X, groups = points()
    init = np.r_[X[:3], X[3:5] + 1e6]
    settings = {**BRIEF, "init": init, "small_groups": "keep"}
    found = FairKMeans(5, **settings).fit(cut(X, 3), sensitive_features=groups["sex"])
    assert_alike(found, FairKMeans(5, **settings).fit(X, sensitive_features=groups["sex"]))
    assert found.n_empty_ == 0


@quiet
@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(client_of_processes, monkeypatch):
    client = client_of_processes
    X, groups = points()
    longer = {**BRIEF, "rungs": 1, "max_iter": 3, "max_sweeps": 8}
    expected = FairKMedian(3, **longer).fit(X, sensitive_features=groups)
    gather, calls = Cluster.gather, 0

    def gather_and_kill(self, futures):
        nonlocal calls
        calls += 1
        if calls in (8, 60):  # among the first prototypes, and among the steps
            os.kill(sorted(self.client.run(os.getpid).items())[0][1], signal.SIGKILL)
        return gather(self, futures)

    monkeypatch.setattr(Cluster, "gather", gather_and_kill)
    before = set(client.run(os.getpid).values())
    found = FairKMedian(3, **longer).fit(cut(X, 3), sensitive_features=groups)
    assert calls > 80
    client.wait_for_workers(2, timeout=300)
    assert len(before & set(client.run(os.getpid).values())) < 2
    assert_alike(found, expected)


def test_input_that_cannot_be(client):
    X, groups = points()
    for bad, settings, features, message in (
        (cut(X, 3), {"rounding": "flow"}, groups, "rounding='flow'"),
        (cut(X, 3), {"fairness_weight": -1.0}, groups, "fairness_weight"),
        (cut(X, 3), {"fairness_weight": "auto", "max_error": 0.1}, groups, "auto"),
        (cut(X, 3), {"device": "cuda"}, groups, "cuda"),
        (cut(X, 3), {}, groups["sex"][:9], "9"),
        (cut(X, 3)[:2], {}, groups["sex"][:2], "n_samples=2"),
        (cut(np.where(np.arange(len(X))[:, None] == 77, np.nan, X), 3), {}, groups, "row 77"),
    ):
        with pytest.raises(InputError, match=message):
            FairKMeans(3, **{**BRIEF, **settings}).fit(bad, sensitive_features=features)


@pytest.mark.slow
def test_importing_it_imports_no_dask():
    code = (
        "import sys, fairness, fairness.blocks.fit; FairKMeans = fairness.FairKMeans; assert 'dask' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
