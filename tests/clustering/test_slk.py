"""SLK: its invariants, a tiny exhaustive search, the public code label by label, starts that race, joined clusters."""

import itertools
import warnings
from itertools import combinations
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
from sklearn.preprocessing import normalize

import clustering.slk.race
from clustering import SLK, PublishedSLK
from clustering.foundation.errors import InputError
from clustering.graphs.neighbours import neighbours
from clustering.graphs.sparse_graph import SparseGraph
from clustering.metrics import accuracy
from clustering.optimiser.alternation import Sweeps
from clustering.optimiser.prototypes import Means, Modes
from clustering.optimiser.rows import Rows
from clustering.seeding import prototypes_about, prototypes_of
from clustering.slk.fit import Ends, Problem
from clustering.slk.race import race
from clustering.slk.split_merge import changes, split_and_merged
from tests.oracles import published_slk_loops
from tests.oracles.sweeps import largest_rise, recorded_sweeps

pytestmark = pytest.mark.filterwarnings("ignore:assignments are nearly uniform")
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


def dense(graph: SparseGraph) -> NDArray[np.float64]:
    """(N, N) weights."""
    return np.asarray(graph.matrix().toarray(), dtype=np.float64)


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
    cost, W, labels = unary(model, X), dense(model.graph_), model.labels_
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
    S, W, cost = model.assignments_, dense(model.graph_), unary(model, X)
    entropy = (S * np.log(np.maximum(S, 1e-300))).sum()
    R = (S * cost).sum() + model.temperature_ * entropy - 0.4 * (S * (W @ S)).sum()
    np.testing.assert_allclose(model.relaxed_objective_, R, rtol=1e-6)
    # On one-hot rows, R is E less what does not depend on them.
    hot = np.eye(3)[model.labels_]
    np.testing.assert_allclose(
        (hot * cost).sum() - 0.4 * (hot * (W @ hot)).sum(), model.objective_ - 0.4 * W.sum(), rtol=1e-6
    )


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
def test_a_given_graph_is_the_built_one(rule: Any) -> None:
    X, _ = blobs()
    options: dict[str, Any] = {"prototypes": rule, "weight": 0.4, "n_init": 2, "random_state": 0}
    built = SLK(3, **options).fit(X)
    for graph in (built.graph_, sparse.csr_array(dense(built.graph_)), dense(built.graph_)):
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
    model = SLK(2, prototypes="byproduct", weight=0.3, n_neighbors=2, n_init=20, random_state=0).fit(X)
    W = dense(model.graph_)
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
        ({"weight": -1.0}, "weight"),
        ({"prototypes": "modes"}, "prototypes"),
        ({"init": "rand"}, "k-means"),
        ({"init": np.zeros((2, 4))}, r"\(3, 4\)"),
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
def test_neither_unit_nor_origin_nor_format_of_the_data_matters(rule: Any) -> None:
    X = np.random.default_rng(5).normal(size=(80, 3))
    model, other = (SLK(3, prototypes=rule, n_init=4, random_state=0).fit(scale * X) for scale in (1, 64))
    np.testing.assert_array_equal(model.labels_, other.labels_)
    np.testing.assert_allclose(model.assignments_, other.assignments_, atol=1e-6)
    far = SLK(3, prototypes=rule, n_init=4, random_state=0).fit((X + 1000).astype(np.float32))
    np.testing.assert_array_equal(model.labels_, far.labels_)
    np.testing.assert_allclose(model.cluster_centers_, far.cluster_centers_ - 1000, atol=1e-2)
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


PRESETS = {"slk2018-ms": "mean_shift", "slk2018-bo": "byproduct", "journal-means": "mean"}


def agree(preset: str, X: Any, seeds: Any, weight: float) -> PublishedSLK:
    model = SLK.preset(preset, n_clusters=len(seeds), weight=weight, init=seeds).fit(X)
    given = X, dense(model.graph_), seeds
    labels, prototypes = published_slk_loops.slk(PRESETS[preset], *given, 2 * weight, model.bandwidth_**2)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.cluster_centers_, prototypes, atol=1e-9)
    return model


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**16), weight=st.just(0.0) | st.floats(0.01, 2.0), clusters=st.integers(1, 6))
def test_labels_and_prototypes_are_those_of_the_public_code(
    preset: str, seed: int, weight: float, clusters: int
) -> None:
    rng = np.random.default_rng(seed)
    X = normalize(rng.normal(size=(60, 4)) + 2 * np.eye(4)[rng.integers(0, 4, 60)])
    agree(preset, X, X[rng.choice(60, clusters, replace=False)], weight)


@pytest.mark.parametrize(("preset", "updates"), [("slk2018-ms", 1), ("slk2018-bo", 1), ("journal-means", 3)])
def test_an_update_that_empties_a_cluster_is_taken_back_and_is_the_last(preset: str, updates: int) -> None:
    rng = np.random.default_rng(8)
    X = normalize(rng.normal(size=(60, 4)) + 2 * np.eye(4)[rng.integers(0, 4, 60)])
    model = agree(preset, X, X[:6], 1.0)
    assert not model.converged_
    assert model.n_iter_ == updates
    assert len(np.unique(model.labels_)) == 6


K, WEIGHT = 5, 0.3


def problem(seed: int = 0, points: int = 100) -> tuple[Rows, SparseGraph, np.ndarray]:
    """Points in five groups, their graph and the groups."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(points) % K
    x = torch.randn(points, 3, generator=generator, dtype=torch.float64) + 6 * torch.eye(K, 3)[y]
    x[y == 4] -= 5
    rows = Rows.of(x)
    near = rows.squared_distances(rows.at(torch.arange(points))[None])[0].fill_diagonal_(torch.inf)
    near = near.topk(4, largest=False).indices
    return rows, SparseGraph.of_arcs(near[None], torch.ones(1, points, 4, dtype=torch.float64)), y.numpy()


@pytest.mark.parametrize("select", ["energy", "information"])
def test_the_best_of_all_goes_on_where_none_is_left_behind(select: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering.slk.race, "_KEPT", 1.0)
    rows, graph, _ = problem()
    seeds = rows.at(torch.from_numpy(np.random.default_rng(3).integers(0, 100, (9, K))))  # many with two in one group
    whole = Problem(SLK(K, prototypes="mean", weight=WEIGHT, select=select), rows, graph, 0.25)
    prototypes, energies = race(whole, seeds)
    W = dense(graph)
    criteria = []
    for start in seeds:
        rule = Means(rows)  # as SLK's at variance 0.25
        found = whole.run(rule, prototypes_about(start[None], rows, rule), Sweeps())
        S, labels = found.assignments[0].numpy(), found.labels[0].numpy()
        cost = ((rows.at(torch.arange(100)).numpy()[:, None] - found.coefficients[0].numpy()) ** 2).sum(axis=2)
        if select == "energy":
            cut = W[labels[:, None] != labels].sum()
            criteria.append(cost[np.arange(100), labels].sum() + WEIGHT * cut)
        else:
            shares = np.bincount(labels, minlength=5) / 100
            R = (S * cost).sum() + (S * np.log(S + 1e-300)).sum() - WEIGHT * (S * (W @ S)).sum()
            criteria.append(R + 100 * (shares * np.log(np.maximum(shares, 1e-300))).sum())
    assert len(energies) == len(seeds)
    expected = race(whole, seeds[[int(np.argmin(criteria))]])
    apart = torch.cdist(prototypes[0], expected[0][0])  # equally good starts may name their clusters otherwise
    assert float(apart.min(dim=0).values.max()) < 1e-2
    assert float(energies.std()) > 1  # or there was nothing to choose


@pytest.mark.parametrize("rule", RULES)
def test_a_race_on_a_sample_finds_the_groups_of_all(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering.slk.race, "_SAMPLE", 60)
    monkeypatch.setattr(clustering.slk.race, "_MEMBERS", 1)
    raced: list[int] = []
    monkeypatch.setattr(
        "clustering.slk.estimator.race", lambda part, seeds: raced.append(len(part.rows.values)) or race(part, seeds)
    )
    y = np.arange(300) % 4
    X = np.random.default_rng(0).normal(size=(300, 4)) + 12 * np.eye(4)[y] + 50
    model = SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X)
    assert len(set(zip(model.labels_, y, strict=True))) == 4
    assert len(model.start_objectives_) == 6
    again = SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, graph=model.graph_)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, graph=model.graph_.matrix())
    SLK(4, prototypes=rule, n_init=6, random_state=0).fit(X, partial_labels=np.where(y == 0, 0, -1))
    assert raced == [60, 60, 300, 300]


def ends_at(rule: Any, graph: SparseGraph, labels: np.ndarray, select: Any) -> Ends:
    """Labels as they are, about their prototypes."""
    found = torch.from_numpy(labels)[None]
    about = prototypes_of(found, rule, rule.rows.at(torch.arange(K))[None])
    return run(rule, graph, select, about, sweeps=1)._replace(labels=found)


def run(rule: Any, graph: SparseGraph, select: Any, start: torch.Tensor, sweeps: int = 100) -> Ends:
    whole = Problem(SLK(K, weight=WEIGHT, select=select), rule.rows, graph, 1.0)
    return whole.ranked(rule, whole.run(rule, start, Sweeps(), updates=sweeps))


@pytest.mark.parametrize("select", ["energy", "information"])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_change_is_the_best_of_all(select: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, graph, _ = problem(seed)
    rule, labels = Means(rows), np.random.default_rng(seed).integers(0, K, 100)
    half = torch.from_numpy(np.random.default_rng(seed + 9).integers(0, 2, 100))
    monkeypatch.setattr("clustering.slk.split_merge._halves", lambda *_: half)
    ends = ends_at(rule, graph, labels, select)
    new = changes(rule, graph, ends, 0, WEIGHT, select, np.inf, np.random.default_rng(0))
    assert len(new) == 6
    x = rows.at(torch.arange(100)).numpy()
    W = dense(graph)

    def criterion(labels: np.ndarray) -> float:
        cost = sum(((x[labels == k] - x[labels == k].mean(axis=0)) ** 2).sum() for k in range(K))
        shares = np.bincount(labels, minlength=K) / 100
        E = cost + WEIGHT * W[labels[:, None] != labels].sum()
        return float(E + (200 * (shares * np.log(shares)).sum() if select == "information" else 0))

    every = {}
    for a, b in combinations(range(K), 2):
        for c in {*range(K)} - {a, b}:
            moved = np.where(labels == b, a, labels)
            every[a, b, c] = np.where((labels == c) & (half.numpy() == 0), b, moved)
    order = sorted(every, key=lambda choice: criterion(every[choice]))
    for prototypes, choice in zip(new.numpy(), order, strict=False):
        for k in {*choice}:
            np.testing.assert_allclose(prototypes[k], x[every[choice] == k].mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("select", ["energy", "information"])
@pytest.mark.parametrize("modes", [False, True])
def test_two_groups_in_one_cluster_and_one_in_two_are_mended(select: Any, modes: bool) -> None:
    rows, graph, y = problem()
    rule = Modes(rows, 4.0, steps=1) if modes else Means(rows)
    wrong = np.where(y == 1, 0, y)
    wrong[(y == 2) & (rows.values[:, 0].numpy() > 0)] = 1
    ends = run(rule, graph, select, ends_at(rule, graph, wrong, select).prototypes)
    assert accuracy(y, ends.labels[0].numpy()) < 0.9
    found = split_and_merged(rule, graph, ends, WEIGHT, select, lambda start: run(rule, graph, select, start))
    assert accuracy(y, found.labels[0].numpy()) > 0.95
