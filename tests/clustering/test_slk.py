"""SLK: scikit-learn's contract, the invariants of its objective, a tiny exhaustive search, and input that cannot be."""

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from clustering import SLK
from clustering.foundation.errors import InputError
from clustering.graphs.neighbours import neighbours
from tests.oracles.sweeps import largest_rise, recorded_sweeps

RULES = ("mean", "mean_shift", "byproduct")


def blobs(seed: int = 0, points: int = 120, K: int = 3, dtype: str = "float64") -> tuple[NDArray[Any], NDArray[Any]]:
    X, y = make_blobs(points, centers=10 * np.eye(K, 4), cluster_std=1.0, random_state=seed)
    return X.astype(dtype), y


def draw(seed: int, points: int = 30) -> NDArray[np.float64]:
    """Points with duplicates and a constant column."""
    x = np.random.default_rng(seed).normal(size=(points, 3))
    x[points // 2 :: 3] = x[0]
    x[:, 2] = 1.0
    return x


def dense(model: SLK) -> NDArray[np.float64]:
    """(N, N) weights of the fitted graph."""
    graph = model.graph_
    parts = (graph.weights.numpy(), graph.columns.numpy(), graph.pointers.numpy())
    return np.asarray(sparse.csr_matrix(parts, shape=(graph.points,) * 2).todense(), dtype=np.float64)


def unary(model: SLK, X: NDArray[Any]) -> NDArray[np.float64]:
    """(N, K) what each point pays, one at a time."""
    cost = np.zeros((len(X), model.n_clusters))
    for p, k in itertools.product(range(len(X)), range(model.n_clusters)):
        squared = float(((X[p] - model.cluster_centers_[k]) ** 2).sum())
        kernel = -np.exp(-squared / (2 * model.bandwidth_**2))
        cost[p, k] = squared / (4 * model.bandwidth_**2) if model.prototypes == "mean" else kernel
    return cost


def energy(model: SLK, X: NDArray[Any]) -> float:
    """E of the labels, pair by pair."""
    cost, W, labels = unary(model, X), dense(model), model.labels_
    total = sum(cost[p, labels[p]] for p in range(len(X)))
    for p, q in itertools.product(range(len(X)), repeat=2):
        total += model.weight * W[p, q] * (labels[p] != labels[q])
    return float(total)


@settings(deadline=None, max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(RULES),
    weight=st.floats(0.01, 20),
    k=st.integers(1, 40),
)
def test_the_objective_never_rises(seed: int, rule: Any, weight: float, k: int) -> None:
    X = draw(seed)
    model = SLK(4, prototypes=rule, weight=weight, n_neighbors=k, n_init=3)
    with recorded_sweeps() as traces, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(random_state=seed).fit(X)
    assert max(map(largest_rise, traces)) < 1e-12
    assert model.n_reseeded_ or largest_rise(torch.from_numpy(model.objective_trace_)[:, None]) < 1e-12
    np.testing.assert_allclose(model.assignments_.sum(axis=1), 1, atol=1e-12)
    assert (model.assignments_ >= 0).all()
    np.testing.assert_array_equal(model.labels_, model.assignments_.argmax(axis=1))


@pytest.mark.parametrize("rule", RULES)
def test_objectives_against_sums_over_pairs(rule: Any) -> None:
    X = draw(3)
    model = SLK(3, prototypes=rule, weight=0.4, random_state=0).fit(X)
    np.testing.assert_allclose(model.objective_, energy(model, X), rtol=1e-6)
    S, W, cost = model.assignments_, dense(model), unary(model, X)
    entropy = (S * np.log(np.maximum(S, 1e-300))).sum()
    R = (S * cost).sum() + model.temperature_ * entropy - 0.4 * (S * (W @ S)).sum()
    np.testing.assert_allclose(model.relaxed_objective_, R, rtol=1e-6)
    # On one-hot rows, R is E less what does not depend on them.
    hot = np.eye(3)[model.labels_]
    np.testing.assert_allclose(
        (hot * cost).sum() - 0.4 * (hot * (W @ hot)).sum(), model.objective_ - 0.4 * W.sum(), rtol=1e-6
    )


@pytest.mark.parametrize("rule", RULES)
def test_separate_blobs_are_found(rule: Any) -> None:
    X, y = blobs()
    for start in ({}, {"n_init": 1}, {"n_init": "auto", "init": "random"}):
        model = SLK(3, prototypes=rule, weight=0.5, random_state=1, **start)
        labels = model.fit_predict(X)
        assert len(set(zip(labels, y, strict=True))) == 3
        for by in ("graph", "prototypes"):
            np.testing.assert_array_equal(model.predict(X, by=by), labels)


@pytest.mark.parametrize("rule", RULES)
def test_order_of_points_and_names_of_clusters_do_not_matter(rule: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    init = X[[3, 17, 40]]
    options: dict[str, Any] = {"prototypes": rule, "weight": 0.5}
    first = SLK(3, init=init, **options).fit(X)
    order = np.random.default_rng(1).permutation(60)
    moved = SLK(3, init=init[[2, 0, 1]], **options).fit(X[order])
    np.testing.assert_array_equal(np.array([1, 2, 0])[first.labels_[order]], moved.labels_)
    np.testing.assert_allclose(first.assignments_[order][:, [2, 0, 1]], moved.assignments_, atol=1e-9)
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    turned = SLK(3, init=init @ Q + 5, **options).fit(X @ Q + 5)
    np.testing.assert_array_equal(first.labels_, turned.labels_)


@pytest.mark.parametrize("rule", RULES)
def test_known_labels_are_kept_and_name_the_clusters(rule: Any) -> None:
    X, y = blobs(seed=4)
    known = np.where(np.arange(len(y)) % 10 == 0, (y + 1) % 3, -1)
    model = SLK(3, prototypes=rule, weight=0.5, random_state=0).fit(X, partial_labels=known)
    np.testing.assert_array_equal(model.assignments_[known >= 0], np.eye(3)[known[known >= 0]])
    np.testing.assert_array_equal(model.labels_, (y + 1) % 3)


@pytest.mark.parametrize("rule", RULES)
def test_a_given_graph_is_the_built_one(rule: Any) -> None:
    X, _ = blobs()
    options: dict[str, Any] = {"prototypes": rule, "weight": 0.4, "n_init": 2, "random_state": 0}
    built = SLK(3, **options).fit(X)
    for graph in (built.graph_, sparse.csr_array(dense(built)), dense(built)):
        given = SLK(3, **options).fit(X, graph=graph)
        np.testing.assert_allclose(given.bandwidth_, built.bandwidth_)
        np.testing.assert_allclose(given.assignments_, built.assignments_, atol=1e-9)
    near = neighbours(X, built.n_neighbors, symmetry="directed")
    for graph in (near, near.graph):
        with pytest.warns(UserWarning, match="not symmetric"):
            averaged = SLK(3, **options).fit(X, graph=graph)
        np.testing.assert_allclose(averaged.assignments_, built.assignments_, atol=1e-9)


def test_no_labelling_of_eight_points_is_better() -> None:
    X = np.concatenate([np.random.default_rng(0).normal(size=(4, 2)), np.random.default_rng(1).normal(size=(4, 2)) + 4])
    model = SLK(2, prototypes="byproduct", weight=0.3, n_neighbors=2, n_init=20, random_state=0)
    model.fit(X)
    W = dense(model)
    g = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * model.bandwidth_**2))
    lowest = np.inf
    for labels in itertools.product((0, 1), repeat=8):
        own = np.array(labels)
        modes = sum(g[own == k].sum(axis=0).max() for k in (0, 1) if (own == k).any())
        lowest = min(lowest, -modes + 0.3 * W[own[:, None] != own].sum())
    assert lowest - 1e-9 <= model.objective_ <= lowest + 0.01 * abs(lowest)


def test_an_empty_cluster_begins_again_and_is_reported() -> None:
    X, _ = blobs()
    init = np.concatenate([X[:2], np.full((1, 4), 1e3)])
    model = SLK(3, init=init, weight=0.3).fit(X)
    assert model.n_reseeded_ > 0
    assert model.n_empty_ == 0
    known = np.zeros(len(X), dtype=int)
    known[:2] = 1, -1  # the third cluster gets no point
    with pytest.warns(ConvergenceWarning, match="1 of 3 clusters"):
        lost = SLK(3, init=init, weight=5.0).fit(X, partial_labels=known)
    assert lost.n_empty_ == 1


@pytest.mark.parametrize("select", ["information", "energy"])
def test_the_criterion_chooses_the_start(select: Any) -> None:
    X, _ = blobs(points=60)
    model = SLK(3, n_init=5, select=select, random_state=0).fit(X)
    shares = np.bincount(model.labels_) / len(X)
    information = model.relaxed_objective_ + 2 * len(X) * float((shares * np.log(shares)).sum())
    assert model.criterion_ == pytest.approx(model.objective_ if select == "energy" else information)


def test_presets_and_names_of_columns() -> None:
    X, _ = blobs()
    frame = pd.DataFrame(X, columns=list("abcd"))
    for name in ("slk2018-ms", "slk2018-bo", "journal-means"):
        model = SLK.preset(name, n_clusters=3, random_state=0).fit(frame)
        assert list(model.feature_names_in_) == list("abcd")
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, atol=0.2)
    with pytest.raises(InputError, match="slk2018-ms"):
        SLK.preset("slk")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"weight": -1.0}, "weight"),
        ({"prototypes": "modes"}, "prototypes"),
        ({"init": "rand"}, "k-means"),
        ({"init": np.zeros((2, 4))}, r"\(3, 4\)"),
        ({"n_clusters": 500}, "n_samples=120"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": 1e-20}, "bandwidth"),
    ],
)
def test_parameters_that_cannot_be(change: dict[str, Any], message: str) -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match=message):
        SLK(**{"n_clusters": 3, **change}).fit(X)


def test_data_that_cannot_be() -> None:
    X, _ = blobs()
    for scale in (1e-20, 1e18):
        with pytest.raises(InputError, match="rescale"):
            SLK(3).fit((X * scale).astype(np.float32))
    with pytest.raises(InputError, match="NaN"):
        SLK(3).fit(X, graph=sparse.csr_array(np.full((120, 120), np.nan)))
    with pytest.raises(InputError, match="120 integers"):
        SLK(3).fit(X, partial_labels=[0, 1])
    with pytest.raises(InputError, match=r"0\.\.2, not -1\.\.9"):
        SLK(3).fit(X, partial_labels=np.r_[np.full(119, -1), 9])


@pytest.mark.parametrize("prototypes", RULES)
@pytest.mark.parametrize("by", ["graph", "prototypes"])
def test_probabilities_of_new_points_agree_with_predict(prototypes: Any, by: Any) -> None:
    X, _ = blobs()
    model = SLK(3, prototypes=prototypes, n_init=2, random_state=0).fit(X[:80])
    found = model.predict_proba(X[80:], by=by)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(found.argmax(axis=1), model.predict(X[80:], by=by))


@pytest.mark.parametrize("rule", RULES)
def test_neither_the_unit_nor_the_format_of_the_data_matters(rule: Any) -> None:
    X = np.random.default_rng(5).normal(size=(80, 3))
    model, other = (SLK(3, prototypes=rule, n_init=4, random_state=0).fit(scale * X) for scale in (1, 64))
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_allclose(model.assignments_, other.assignments_, atol=1e-6)
    single = SLK(3, prototypes=rule, n_init=4, random_state=0).fit(X.astype(np.float32))
    new = X[:9].astype(np.float32)
    first = single.predict_proba(new)
    for form in (new.astype(np.float64), np.asfortranarray(new), new.tolist(), pd.DataFrame(new)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(single.predict_proba(form), first)
    np.testing.assert_allclose(
        model.transform(X), np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2), atol=1e-9
    )
