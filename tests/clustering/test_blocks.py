"""SLK and K-modes of a dask array on a real Dask cluster of two workers: as in memory, also when a worker is
killed in the middle; input that cannot be."""

import os
import signal
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from clustering import SLK, GaussianKModes
from clustering.blocks import is_dask_array
from clustering.blocks.cluster import Cluster
from clustering.blocks.graph import BlockGraph
from clustering.blocks.rows import BlockRows
from clustering.foundation.errors import InputError
from clustering.graphs.neighbours import neighbours

dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

RULES = ("mean", "mean_shift", "byproduct")
BRIEF: dict[str, Any] = {"max_iter": 2, "max_sweeps": 4, "n_init": 1, "random_state": 0}
WIDE: dict[str, Any] = {"temperature": 20.0, "weight": 13.0}
"""For squared distances, which are larger than what modes tell them by."""


def points(K: int = 4, count: int = 150, seed: int = 0) -> NDArray[np.float64]:
    """Clusters that overlap, far from zero, some points twice."""
    X, _ = make_blobs(count, 3, centers=K, cluster_std=3.0, center_box=(90, 110), random_state=seed)
    X[:20:2] = X[1:20:2]
    return np.asarray(X)


def cut(X: NDArray[Any], blocks: int) -> Any:
    return dask_array.from_array(X, chunks=(-(-len(X) // blocks), 2))  # columns are cut too, and joined again


def assert_alike(found: SLK, expected: SLK) -> None:
    assert is_dask_array(found.labels_)
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_allclose(np.asarray(found.assignments_), expected.assignments_, atol=1e-8)
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-8)
    np.testing.assert_allclose(found.start_objectives_, expected.start_objectives_, rtol=1e-9)
    np.testing.assert_allclose(found.objective_trace_, expected.objective_trace_, rtol=1e-9)
    np.testing.assert_allclose(found.mode_movements_, expected.mode_movements_, atol=1e-6)
    for name in ("n_iter_", "n_reseeded_", "n_empty_", "converged_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name), name
    np.testing.assert_allclose(
        [found.criterion_, found.objective_, found.relaxed_objective_, found.bandwidth_],
        [expected.criterion_, expected.objective_, expected.relaxed_objective_, expected.bandwidth_],
        rtol=1e-9,
    )
    if expected.prototypes == "byproduct":
        np.testing.assert_array_equal(found.mode_indices_, expected.mode_indices_)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("rule", RULES)
def test_the_same_as_in_memory(client: Any, rule: Any, blocks: int) -> None:
    X = points()
    graph = neighbours(X, 5)
    settings = {**BRIEF, "prototypes": rule, **(WIDE if rule == "mean" else {})}
    assert_alike(SLK(4, **settings).fit(cut(X, blocks), graph=graph), SLK(4, **settings).fit(X, graph=graph))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "changes",
    [
        {"n_init": 3, "normalize": "l2", "bandwidth": "published"},
        {"n_init": 2, "weight_path": [0.2], "warm_start": True, "mode_weights": "hard", "select": "energy"},
        {
            "weight": 30.0,
            "n_clusters": 9,
            "max_iter": 8,
            "max_sweeps": 30,
        },  # steps are taken back, clusters begin again
        {"weight": 30.0, "n_clusters": 9, "on_empty": "drop"},
        {"weight": 0.0, "bandwidth": 1.0, "init": points()[:4]},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_every_setting_does_what_it_does_in_memory(client: Any, changes: dict[str, Any]) -> None:
    X = points()
    graph = neighbours(X, 5)
    settings = {"n_clusters": 4, **BRIEF, **changes}
    assert_alike(SLK(**settings).fit(cut(X, 3), graph=graph), SLK(**settings).fit(X, graph=graph))


@pytest.mark.slow
def test_starts_race_on_the_same_sample(client: Any) -> None:
    X = points(3, 16_500)[:, :2]
    graph = neighbours(X, 5)
    settings = {**BRIEF, "n_init": 3, "prototypes": "mean", **WIDE}
    assert_alike(SLK(3, **settings).fit(cut(X, 2), graph=graph), SLK(3, **settings).fit(X, graph=graph))


@pytest.mark.slow
def test_a_sample_of_too_few_distinct_rows_is_left_for_all(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustering.slk.race._SAMPLE", 10)
    monkeypatch.setattr("clustering.slk.race._MEMBERS", 1)
    X = np.repeat([[0.0, 0.0], [9.0, 0.0]], 40, axis=0)
    X[3] = 0, 9
    X[60] = 9, 9
    settings: dict[str, Any] = {
        **BRIEF,
        "bandwidth": 1.0,
        "weight": 0.01,
        "prototypes": "mean",
        "n_init": 2,
        "max_iter": 1,
    }
    model = SLK(4, **settings).fit(cut(X, 2), graph=sparse.csr_array((80, 80)))
    assert len(set(np.asarray(model.labels_))) == 4
    assert len(model.start_objectives_) == 2


@pytest.mark.parametrize("path", [None, pytest.param([2.0], marks=pytest.mark.slow)])
def test_k_modes(client: Any, path: Any) -> None:
    X = points(count=40)  # modes of few points settle in few steps, each of which is a round of tasks
    settings: dict[str, Any] = {"n_init": 1 if path else 2, "max_iter": 2, "random_state": 0, "bandwidth_path": path}
    settings["bandwidth"] = "estimate" if path else 8.0
    found, expected = GaussianKModes(4, **settings).fit(cut(X, 3)), GaussianKModes(4, **settings).fit(X)
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-8)
    np.testing.assert_allclose(found.start_objectives_, expected.start_objectives_, rtol=1e-9)
    for name in ("n_iter_", "n_reseeded_", "n_empty_", "converged_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.bandwidth_ == pytest.approx(expected.bandwidth_)


@pytest.mark.parametrize("symmetry", ["average", "union", "mutual", "directed"])
def test_the_graph_of_blocks_is_that_of_all_rows(client: Any, symmetry: Any) -> None:
    X = np.random.default_rng(0).integers(0, 6, size=(60, 3)).astype(float)  # duplicates, and ties
    X += 1e-3 * np.random.default_rng(1).normal(size=X.shape) * (np.arange(60) % 3 > 0)[:, None]
    expected = neighbours(X, 4, symmetry=symmetry)
    rows = BlockRows.of(cut(X, 4), normalize=False)
    found = BlockGraph.built(rows, 4, symmetry)
    assert found.mean_squared_distance == pytest.approx(expected.mean_squared_distance)
    np.testing.assert_allclose(whole(found, rows), whole_of(expected.graph))


def whole(graph: BlockGraph, rows: BlockRows) -> NDArray[Any]:
    """(N, N) from the blocks, the columns of a halo put back where they belong."""
    W = np.zeros((rows.points, rows.points))
    for block, part in enumerate(graph.cluster.client.gather(graph.parts)):
        first, last = rows.offsets[block], rows.offsets[block + 1]
        boundaries = graph.cluster.client.gather([graph.boundary[owner] for owner in graph.owners[block]])
        whole_ids = [each + rows.offsets[owner] for owner, each in zip(graph.owners[block], boundaries, strict=True)]
        columns = np.concatenate([np.arange(first, last), part.value.halo(whole_ids)])
        W[first:last, columns] = whole_of(part.value.graph)[: last - first]
    return W


def whole_of(graph: Any) -> NDArray[Any]:
    parts = (graph.weights.numpy(), graph.columns.numpy(), graph.pointers.numpy())
    return np.asarray(sparse.csr_matrix(parts, shape=(graph.points,) * 2).todense())


@pytest.mark.slow
@pytest.mark.parametrize("n_init", [1, 2])  # after a race S goes on from where it was
def test_a_worker_is_killed_in_the_middle(
    client_of_processes: Any, monkeypatch: pytest.MonkeyPatch, n_init: int
) -> None:
    client = client_of_processes
    X = points()
    settings = {**BRIEF, "prototypes": "byproduct", "max_iter": 5, "n_init": n_init}
    expected = SLK(4, **settings).fit(X)
    gather, calls = Cluster.gather, 0

    def gather_and_kill(self: Cluster, futures: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (6, 18):  # among what comes first, and among the steps
            worker = sorted(self.client.run(os.getpid).items())[0][1]
            os.kill(worker, signal.SIGKILL)
        return gather(self, futures)

    monkeypatch.setattr(Cluster, "gather", gather_and_kill)
    before = set(client.run(os.getpid).values())
    found = SLK(4, **settings).fit(cut(X, 3))
    assert calls > 20
    client.wait_for_workers(2, timeout=300)
    assert len(before & set(client.run(os.getpid).values())) < 2
    assert_alike(found, expected)


def test_new_points(client: Any) -> None:
    X = points(count=40)
    settings = {**BRIEF, "prototypes": "mean", **WIDE, "max_iter": 1}
    model, expected = SLK(4, **settings).fit(cut(X, 2)), SLK(4, **settings).fit(X)
    np.testing.assert_array_equal(model.predict(X, by="prototypes"), expected.predict(X, by="prototypes"))
    with pytest.raises(InputError, match="by='prototypes'"):
        model.predict(X)


@pytest.mark.filterwarnings("ignore:every point coincides")
def test_input_that_cannot_be(client: Any) -> None:
    X = points()
    X[77, 1] = np.nan
    with pytest.raises(InputError, match="row 77"):
        SLK(4).fit(cut(X, 3))
    X = points()
    for bad, settings, message in (
        (cut(X, 3)[:3], {}, "n_samples=3"),
        (cut(X, 3)[:0], {}, "0 sample"),
        (cut(X, 3)[:, 0], {}, "2D array"),
        (cut(np.repeat(X[-3:], 10, axis=0), 3), {}, "at most 3"),
        (cut(1e200 * X, 3), {}, "rescale"),
        (cut(1e-200 * X, 3), {}, "squares underflow"),
        (cut(X, 3).astype(str), {}, "real numbers"),
        (cut(X, 3), {"prototypes": "medoid"}, "medoid"),
        (cut(X, 3), {"device": "cuda"}, "cuda"),
        (cut(X, 3), {"weight": -1.0}, "weight"),
        (cut(X, 3), {"init": X[:3]}, "init"),
    ):
        with pytest.raises(InputError, match=message):
            SLK(4, random_state=0).set_params(**settings).fit(bad)
    with pytest.raises(InputError, match="partial_labels"):
        SLK(4).fit(cut(X, 3), partial_labels=np.full(len(X), -1))
    with pytest.raises(InputError, match="150 rows"):
        SLK(4).fit(cut(X, 3), graph=sparse.eye_array(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        lonely = SLK(1, **BRIEF).fit(cut(X[:1], 1), graph=sparse.csr_array((1, 1)))
    np.testing.assert_array_equal(np.asarray(lonely.labels_), [0])


def test_chunks_of_unknown_and_of_no_rows(client: Any) -> None:
    X = points()
    some = cut(X, 3)
    unknown = some[dask_array.from_array(np.arange(len(X)) >= 50, chunks=some.chunks[0])]  # of which the first is empty
    settings = {**BRIEF, "prototypes": "mean", **WIDE}
    found = SLK(4, **settings).fit(unknown)
    np.testing.assert_array_equal(np.asarray(found.labels_), SLK(4, **settings).fit(X[50:]).labels_)


def test_without_the_package_or_a_client_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.get_client", lambda: (_ for _ in ()).throw(ValueError("no global client")))
    with pytest.raises(InputError, match=r"distributed\.Client"):
        SLK(4).fit(cut(points(), 2))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"transduce\[dask\]"):
        SLK(4).fit(cut(points(), 2))
