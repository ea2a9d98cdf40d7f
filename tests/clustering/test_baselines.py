"""What SLK is compared with: slow and obvious oracles, invariants, the number that is found, input that cannot be."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import make_blobs

import clustering
from clustering import SLK, GaussianKModes, KernelKMeans, KMeans, LaplacianKModes, Ncut, SeededKMeans
from clustering.deep import EntropyClustering
from clustering.foundation.errors import InputError
from clustering.graphs.relaxed_cut import joined
from clustering.graphs.row_graph import given_graph, scipy_graph
from clustering.graphs.smoothing import Smoothness, smoothed
from clustering.graphs.spectrum import leading_eigenvectors
from clustering.metrics import graph_objectives
from clustering.number_of_clusters import number_of_clusters
from clustering.optimiser.simplex import project
from tests.clustering.test_slk import blobs

NAMES = ("KMeans", "GaussianKModes", "Ncut", "KernelKMeans")


def estimator(name: str, n_clusters: int = 3, **options: Any) -> Any:
    return getattr(clustering, name)(n_clusters, **{"random_state": 0, **options})


def components(*sizes: int, seed: int = 0) -> sparse.csr_array:
    """A graph of so many connected parts of these sizes."""
    generator = np.random.default_rng(seed)
    blocks = [np.triu((generator.random((n, n)) < 0.5) | np.eye(n, k=1, dtype=bool), 1) for n in sizes]
    upper = sparse.block_diag([block.astype(float) for block in blocks])
    return sparse.csr_array(upper + upper.T)


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


def weights(seed: int, points: int) -> Any:
    """Symmetric and >= 0, some points without arcs."""
    upper = np.triu(np.random.default_rng(seed).exponential(size=(points, points)), 1)
    upper *= np.random.default_rng(seed + 1).random((points, points)) < 0.4
    return upper + upper.T


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), K=st.integers(1, 7), scale=st.sampled_from([1e-3, 1.0, 1e3, 1e9]))
def test_projection_against_all_faces_of_the_simplex(seed: int, K: int, scale: float) -> None:
    values = np.random.default_rng(seed).normal(size=K) * scale
    values[K // 2 :: 3] = values[0]  # ties
    best, nearest = np.inf, np.zeros(K)
    for face in itertools.product((False, True), repeat=K):
        inside = np.array(face)
        if inside.any():
            point = np.where(inside, values - (values[inside].sum() - 1) / inside.sum(), 0.0)
            distance = float(((point - values) ** 2).sum())
            if point.min() >= -1e-12 * max(1, scale) and distance < best:
                best, nearest = distance, point
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-6)):
        shifted = torch.from_numpy(values).to(dtype)
        found = project(shifted[None, :, None].expand(2, -1, 3))[1, :, 2].double().numpy()
        np.testing.assert_allclose(found.sum(), 1, atol=tolerance)
        assert (found >= 0).all()
        if dtype == torch.float64:
            np.testing.assert_allclose(found, nearest, atol=tolerance * max(1, scale))


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000), weight=st.sampled_from([0.01, 0.5, 20.0]))
def test_assignments_against_a_general_solver(seed: int, weight: float) -> None:
    points, K = 6, 2
    W, cost = weights(seed, points), np.random.default_rng(seed + 2).uniform(-1, 0, size=(K, points))
    L = np.diag(W.sum(axis=1)) - W

    def objective(first: Any) -> float:
        S = np.stack([first, 1 - first])
        return float((cost * S).sum() + weight * np.einsum("kn,nm,km->", S, L, S))

    solved = min(
        minimize(objective, start, bounds=[(0, 1)] * points, method="L-BFGS-B", options={"ftol": 1e-15}).fun
        for start in (np.full(points, 0.5), cost[0] < cost[1])
    )
    smoothness = Smoothness(given_graph(W, points), weight)
    start = torch.full((1, K, points), 0.5, dtype=torch.float64)
    found = smoothed(torch.from_numpy(cost)[None], smoothness, start, max_iterations=20_000, tolerance=1e-9)
    S = found.assignments[0].numpy()
    np.testing.assert_allclose(float(found.objective), objective(S[0]), rtol=1e-9)
    assert abs(float(found.objective) - solved) < 1e-6
    assert float(found.objective) - solved <= float(found.gap) + 1e-9  # the gap bounds the distance to the minimum


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.01, 20), k=st.integers(1, 40))
def test_the_objective_never_rises(seed: int, weight: float, k: int) -> None:
    X = np.random.default_rng(seed).normal(size=(30, 3))
    X[15::3], X[:, 2] = X[0], 1.0  # duplicates and a constant column
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*clusters have no points")
        model = LaplacianKModes(4, weight=weight, n_neighbors=k, n_init=2, random_state=seed, tol=1e-6).fit(X)
    trace = model.objective_trace_
    assert (np.diff(trace) <= 1e-9 * np.abs(trace).max()).all()
    S, L = model.assignments_, scipy_graph(model.graph_).toarray()
    L = np.diag(L.sum(axis=1)) - L
    kernel = np.exp(-((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2) / (2 * model.bandwidth_**2))
    expected = weight * np.trace(S.T @ L @ S) - (S * kernel).sum()
    np.testing.assert_allclose(model.relaxed_objective_, expected, rtol=1e-6, atol=1e-9)
    hot = np.eye(4)[model.labels_]
    np.testing.assert_allclose(model.objective_, weight * np.trace(hot.T @ L @ hot) - (hot * kernel).sum(), rtol=1e-6)
    np.testing.assert_allclose(S.sum(axis=1), 1)
    np.testing.assert_array_equal(model.labels_, S.argmax(axis=1))


def test_what_laplacian_k_modes_refuse() -> None:
    X, _ = blobs(points=90)
    with pytest.warns(UserWarning, match="negative"), pytest.raises(InputError, match="not convex"):
        LaplacianKModes(2).fit(X[:3], graph=-np.ones((3, 3)))
    with pytest.raises(InputError, match="weight"):
        LaplacianKModes(3, weight=-1.0).fit(X)
    with pytest.raises(InputError, match="graph or prototypes"):
        LaplacianKModes(3).fit(X).predict(X, by="mode")  # type: ignore[arg-type]


METRICS = ("linear", "inverse_covariance", "gaussian")


def blobs_seeded(seed: int = 0, points: int = 90, spread: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    return 4 * np.eye(3, 5)[classes] + spread * generator.normal(size=(points, 5)), classes


def similarity(X: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """(N, N) as the definition has it."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    if metric == "linear":
        return np.asarray(Z @ Z.T)
    if metric == "inverse_covariance":
        C = Z.T @ Z / (len(Z) - 1)
        return np.asarray(Z @ np.linalg.inv(C + np.linalg.eigvalsh(C)[-1] / np.trace(C) * np.eye(len(C))) @ Z.T)
    squared = ((Z[:, None] - Z) ** 2).sum(axis=2)
    return np.asarray(np.exp(-squared / (4 * np.median(squared[np.triu_indices(len(Z), 1)]))))


def by_similarities(S: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Kernel K-means from the labelled points of every cluster, which stay; a point's squared distance to the mean of a
    cluster is written with similarities alone."""
    clusters, found = int(labels.max()) + 1, labels.copy()
    for _ in range(100):
        distances = np.empty((len(S), clusters))
        for k in range(clusters):
            members = np.flatnonzero(found == k)
            for p in range(len(S)):
                distances[p, k] = S[p, p] - 2 * S[p, members].mean() + S[np.ix_(members, members)].mean()
        after = np.where(labels >= 0, labels, distances.argmin(axis=1))
        if (after == found).all():
            break
        found = after
    return found


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), labelled=st.integers(3, 12))
def test_it_is_k_means_by_similarities_alone(metric: Any, seed: int, labelled: int) -> None:
    X, classes = blobs_seeded(seed, 30, spread=2.5)
    labels = np.where(np.arange(30) < labelled, classes, -1)
    model = SeededKMeans(3, metric=metric, random_state=0).fit(X, partial_labels=labels)
    np.testing.assert_array_equal(model.labels_, by_similarities(similarity(X, metric), labels))


@pytest.mark.parametrize("metric", METRICS)
def test_labels_stay_and_name_the_clusters(metric: Any) -> None:
    X, classes = blobs_seeded(spread=1.5)
    wrong = np.full(90, -1)
    wrong[:9] = classes[:9]
    wrong[30] = (classes[30] + 1) % 3
    model = SeededKMeans(3, metric=metric, random_state=0).fit(X, partial_labels=wrong)
    assert model.labels_[30] == wrong[30]
    assert (model.labels_ == classes).mean() > 0.9
    fresh, truth = blobs_seeded(1)
    assert (model.predict(fresh) == truth).mean() > 0.95


@pytest.mark.parametrize(
    ("settings_", "given_", "said"),
    [
        ({"metric": "cosine"}, {}, "metric"),
        ({"landmarks": 0}, {}, "landmarks"),
        ({}, {"partial_labels": np.full(90, 3)}, r"partial_labels .*0\.\.2"),
        ({"n_clusters": 91}, {}, "n_samples=90 .*n_clusters=91"),
    ],
)
def test_what_cannot_be_is_named(settings_: dict[str, Any], given_: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        SeededKMeans(**{"n_clusters": 3, **settings_}).fit(blobs_seeded()[0], **given_)


def blobs_number(clusters, seed, each=60, features=6):
    centres = 12 * np.random.default_rng(seed).permutation(np.indices([4] * 3).reshape(3, -1).T)[:clusters]
    centres = np.pad(centres, ((0, 0), (0, features - 3)))
    return make_blobs(clusters * each, features, centers=centres, random_state=seed)


@settings(deadline=None, max_examples=15)
@given(clusters=st.integers(2, 30), seed=st.integers(0, 1000), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_separate_groups_are_counted_at_any_scale(clusters, seed, scale):
    points, _ = blobs_number(clusters, seed)
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
    points, _ = blobs_number(4, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = estimator(n_clusters="auto", random_state=0).fit(points)
        known = estimator(n_clusters=4, random_state=0).fit(points)
    assert (auto.n_clusters, auto.n_clusters_, known.n_clusters_) == ("auto", 4, 4)
    assert auto.contrasts_.argmax() == 3
    assert np.array_equal(auto.labels_, known.labels_)
    assert np.array_equal(auto.predict(points), known.predict(points))


def test_labels_of_more_classes_raise_the_number():
    points, _ = blobs_number(3, 1)
    labels = np.full(len(points), -1)
    labels[:8] = np.arange(8) % 4
    assert EntropyClustering(n_clusters="auto", random_state=0).fit(points, partial_labels=labels).n_clusters_ == 4
