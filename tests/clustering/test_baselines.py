"""What SLK is compared with: scikit-learn's contract, slow and obvious oracles, and input that cannot be."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs

import clustering
from clustering import SLK, GaussianKModes, KernelKMeans, KMeans, Ncut
from clustering.foundation.errors import InputError
from clustering.graphs.relaxed_cut import joined
from clustering.graphs.spectrum import leading_eigenvectors
from clustering.metrics import graph_objectives

NAMES = ("KMeans", "GaussianKModes", "Ncut", "KernelKMeans")


def estimator(name: str, n_clusters: int = 3, **options: Any) -> Any:
    return getattr(clustering, name)(n_clusters, **{"random_state": 0, **options})


def blobs(dtype: str = "float64") -> tuple[Any, Any]:
    X, y = make_blobs(120, centers=10 * np.eye(3, 4), cluster_std=1.0, random_state=0)
    return X.astype(dtype), y


def components(*sizes: int, seed: int = 0) -> sparse.csr_array:
    """A graph of so many connected parts of these sizes."""
    generator = np.random.default_rng(seed)
    blocks = [np.triu((generator.random((n, n)) < 0.5) | np.eye(n, k=1, dtype=bool), 1) for n in sizes]
    upper = sparse.block_diag([block.astype(float) for block in blocks])
    return sparse.csr_array(upper + upper.T)


@pytest.mark.parametrize("name", NAMES)
def test_separate_blobs_are_found_in_either_precision_whatever_the_order_of_points(name: str) -> None:
    X, y = blobs()
    order = np.random.default_rng(0).permutation(len(X))
    model = estimator(name)
    for values, truth in ((X, y), (X.astype(np.float32), y), (X[order], y[order])):
        labels = model.fit_predict(pd.DataFrame(values, columns=list("abcd")))
        assert len(set(zip(labels, truth, strict=True))) == 3
        if hasattr(model, "predict"):
            np.testing.assert_array_equal(model.predict(pd.DataFrame(values, columns=list("abcd"))), labels)
    assert min(model.seconds_) >= 0
    assert model.n_iter_ >= 1


def test_k_modes_are_slk_without_a_graph() -> None:
    X, _ = make_blobs(300, centers=6, cluster_std=2.0, random_state=3)
    options: dict[str, Any] = {"random_state": 2, "n_init": 1}
    modes = GaussianKModes(4, tol=1e-12, max_iter=1000, **options).fit(X)
    slk = SLK(4, weight=0, temperature=1e-6, **options).fit(X)
    # By the formula, a point at a time.
    sigma = modes.bandwidth_
    kernel = np.array([np.exp(-((x - modes.cluster_centers_) ** 2).sum(axis=1) / (2 * sigma**2)).max() for x in X])
    np.testing.assert_allclose(modes.objective_, -kernel.sum(), rtol=1e-6)
    near = kernel > 1e-9  # what a point farther away would prefer is lost in the softmax of SLK
    assert near.mean() > 0.9
    np.testing.assert_array_equal(modes.labels_[near], slk.labels_[near])
    np.testing.assert_allclose(modes.cluster_centers_, slk.cluster_centers_, atol=1e-3)
    np.testing.assert_allclose(modes.objective_, slk.objective_, rtol=1e-6)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    K=st.integers(1, 6),
    k=st.integers(1, 8),
    init=st.sampled_from(["spectral", "k-means++"]),
)
def test_kernel_k_means_falls_on_graphs_that_are_not_positive(seed: int, K: int, k: int, init: str) -> None:
    X = np.random.default_rng(seed).normal(size=(40, 2))
    model = KernelKMeans(K, n_neighbors=k, init=init, n_init=2, random_state=seed).fit(X)
    expected = graph_objectives(model.labels_, model.graph_).average_association
    np.testing.assert_allclose(model.objective_, expected, rtol=1e-6)
    assert model.n_empty_ == 0
    shorter = KernelKMeans(K, n_neighbors=k, init=init, n_init=1, max_iter=1, random_state=seed).fit(X)
    longer = KernelKMeans(K, n_neighbors=k, init=init, n_init=1, random_state=seed).fit(X)
    assert longer.objective_ <= shorter.objective_ + 1e-9


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 6), regularization=st.sampled_from([0.0, 0.3]))
def test_eigenvectors_are_those_of_the_dense_matrix(seed: int, count: int, regularization: float) -> None:
    for graph in (components(60, seed=seed), components(150, 120, seed=seed)):
        parts, points = (1, 60) if graph.shape[0] == 60 else (2, 270)
        count = max(count, parts)
        generator = np.random.default_rng(seed)
        found = leading_eigenvectors(graph, count, regularization, generator)
        W = graph.toarray() + regularization * graph.sum() / points**2
        scale = W.sum(axis=1) ** -0.5
        values, vectors = np.linalg.eigh(scale[:, None] * W * scale)
        gap = values[-count] - values[-count - 1]
        np.testing.assert_allclose(found.T @ found, np.eye(count), atol=1e-6)
        if gap > 1e-3:  # else the space is not determined
            space = vectors[:, -count:]
            np.testing.assert_allclose(found @ found.T, space @ space.T, atol=1e-4)


def test_of_more_components_than_clusters_those_are_joined_and_points_without_arcs_follow_their_neighbours() -> None:
    X = np.r_[np.random.default_rng(0).normal(size=(60, 2)), [[50.0, 50.0]], [[50.0, 51.0]]]
    X[:20] += 49
    graph = sparse.block_diag([components(20, 30, 10), sparse.csr_array((2, 2))])
    with pytest.warns(UserWarning, match="3 components"):
        model = Ncut(2, random_state=0).fit(X, graph=graph)
    assert model.objective_ == 0
    assert set(np.bincount(model.labels_[:60])) == {30}
    assert (model.labels_[60:] == model.labels_[0]).all()
    np.testing.assert_array_equal(joined(np.array([1.0, 5.0, 2.0, 2.0]), 2), [1, 0, 1, 1])
    tied = Ncut(2, regularization=0.1, random_state=0).fit(X, graph=graph)
    assert len(set(tied.labels_)) == 2
    with pytest.raises(InputError, match="0 points"):
        Ncut(2).fit(X, graph=sparse.csr_array((62, 62)))
    assert (Ncut(1).fit(X, graph=sparse.csr_array((62, 62))).labels_ == 0).all()


@pytest.mark.parametrize("name", [*NAMES, "SLK", "PublishedSLK", "LaplacianKModes"])
def test_data_that_cannot_be(name: str) -> None:
    X, _ = blobs()
    broken = X.copy()
    broken[7, 1] = np.nan
    with pytest.raises(InputError, match="row 7"):
        estimator(name).fit(broken)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="every point coincides")
        with pytest.raises(InputError, match="1 distinct points"):
            estimator(name).fit(np.ones((30, 2)))
        with pytest.raises(InputError, match="2 distinct points"):
            estimator(name).fit(np.repeat(X[:2], 20, axis=0))
    with pytest.raises(InputError, match="n_samples=2"):
        estimator(name).fit(X[:2])
    with pytest.raises(InputError, match="n_clusters"):
        estimator(name, 0).fit(X)
    if name != "KMeans":
        with pytest.raises(InputError, match=r"\(5, 5\).*120 rows"):
            estimator(name).fit(X, graph=sparse.eye_array(5))


def test_parameters_that_cannot_be() -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match="k-means"):
        KMeans(3, init="rand").fit(X)
    with (
        pytest.warns(UserWarning, match="negative"),
        pytest.raises(InputError, match="not affinities"),
    ):
        Ncut(2).fit(X[:3], graph=-np.ones((3, 3)))


def test_a_weight_is_how_often_a_point_counts() -> None:
    X, y = blobs()
    counts = 1 + np.arange(len(X)) % 3
    init = np.stack([X[y == k][0] for k in range(3)])
    weighted = KMeans(3, init=init).fit(X, sample_weight=counts)
    repeated = KMeans(3, init=init).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    one = KMeans(3, n_init="auto", random_state=0).fit(X, sample_weight=(np.arange(len(X)) < 3) + 1e-9)
    np.testing.assert_allclose(np.sort(one.cluster_centers_, axis=0), np.sort(X[:3], axis=0), atol=1e-5)
    drawn = KMeans(3, init="random", n_init=20, random_state=0).fit(X)
    assert len(set(zip(drawn.labels_, y, strict=True))) == 3
    assert len(np.unique(drawn.start_objectives_.round(6))) > 1  # or the draws are not random
