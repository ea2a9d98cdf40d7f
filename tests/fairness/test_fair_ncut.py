"""FairNcut and moves of points: costs by brute force, descent at any weight, bad input."""

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from clustering.foundation.errors import InputError
from clustering.metrics import graph_objectives
from fairness import FairNcut
from fairness.groups import groups_of
from fairness.objectives import objective_of
from fairness.optimiser.cut_moves import CutProblem
from fairness.optimiser.prototype_moves import PrototypeProblem
from tests.fairness.thesis_sets import draw, synthetic, unequal
from tests.oracles.fair_clustering import objective

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@quiet
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), exponent=st.floats(-6, 6), K=st.integers(1, 5), J=st.integers(2, 5))
def test_the_objective_never_rises(seed, exponent, K, J):
    X, groups = draw(seed, J=J)
    model = FairNcut(K, fairness_weight=10.0**exponent, n_neighbors=5, max_iter=20, n_init=1, small_groups="keep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.set_params(random_state=seed).fit(X, sensitive_features=groups)
    for before, after in zip(model.history_, model.history_[1:], strict=False):
        if before.weight == after.weight:
            assert after.objective <= before.objective + 1e-12 * (1 + after.weight) * 10 * K
    assert model.n_iter_ == max(1, len(model.history_))
    assert model.group_counts_.sum() == len(X)
    assert 0 <= model.objective_ <= K


@quiet
@pytest.mark.parametrize(("made", "fair", "cut"), [(synthetic, 1.0, 0.02), (unequal, 1 / 3, 0.2)])
def test_the_sets_of_the_thesis(made, fair, cut):
    """Table 3.3: error 0 and the balance of the data, for a small cut where there is one."""
    X, groups = made()
    model = FairNcut(2, n_init=1, max_iter=50, random_state=0)
    none, some = model.path(X, [0, 100], sensitive_features=groups)
    assert none.fairness_error_ > 10
    assert some.fairness_error_ < 1e-3
    assert some.balance_min_ == pytest.approx(fair, abs=0.02)
    assert some.objective_ < cut


@quiet
def test_it_is_the_same_for_a_given_graph_and_other_names():
    X, groups = draw(0, 60)
    options = {"fairness_weight": 3.0, "n_neighbors": 6, "random_state": 0, "n_init": 1, "max_iter": 20}
    first = FairNcut(3, **options).fit(X, sensitive_features=groups)
    again = FairNcut(3, **options).fit(X, sensitive_features=np.array(list("zxy"))[groups], graph=first.graph_)
    np.testing.assert_array_equal(first.labels_, again.labels_)
    assert again.objective_ == pytest.approx(first.objective_)
    both = FairNcut(3, **options).fit(X, sensitive_features={"a": groups, "b": np.arange(60) % 2})
    assert both.group_counts_.shape == (5, 3)
    labels = np.arange(60) % 3
    assert FairNcut(3, **{**options, "init": labels}).fit(X, sensitive_features=groups).n_iter_ >= 1


def test_a_cluster_whose_last_arc_goes_counts_as_one():
    """Rounding leaves a volume of about 1e-16 there, which must not divide what rounding leaves within."""
    W = np.zeros((8, 8))
    for p, q, weight in [(1, 3, 4.141), (2, 5, 8.281), (3, 4, 6.623), (5, 6, 5.857)]:
        W[p, q] = W[q, p] = weight
    model = FairNcut(3, fairness_weight=0.01, init=[2, 0, 1, 1, 2, 2, 1, 2])
    with pytest.warns(UserWarning, match="2 points have no arcs"):
        model.fit(np.arange(8.0)[:, None], sensitive_features=np.arange(8) % 2, graph=W)
    linked = len(set(model.labels_[1:7]))  # points 0 and 7 have no arcs
    E = model.objective_ + 3 - linked + 0.01 * model.fairness_error_
    assert model.history_[-1].objective == pytest.approx(E)


@pytest.mark.parametrize(
    ("options", "groups", "words"),
    [
        ({"n_clusters": 7}, None, "n_samples=6"),
        ({"init": [0, 1]}, None, "init"),
        ({"init": "random"}, None, "init"),
        ({"n_neighbors": 0}, None, "n_neighbors"),
        ({}, list("aaaaab"), "'b' .*1 points"),
    ],
)
def test_what_cannot_be_fitted_is_said(options, groups, words):
    with pytest.raises(InputError, match=words):
        FairNcut(**{"n_clusters": 2, "fairness_weight": 0, **options}).fit(
            np.arange(6.0)[:, None], sensitive_features=groups
        )
    with pytest.raises(InputError, match="weights"):
        FairNcut(2).path(np.eye(6), [])


KINDS = st.sampled_from(["kmeans", "kmedian", "ncut"])


def problem(seed, kind="kmeans", N=40, K=3, J=3, several=False):
    X, groups = draw(seed, N, J)
    random = np.random.default_rng(seed)
    groups = groups_of({"a": groups, "b": np.arange(N) % 2} if several else groups, N)
    if kind == "ncut":
        W = np.triu(random.random((N, N)) * (random.random((N, N)) < 0.2), 1)  # some points may have no arcs
        return CutProblem(groups, K, sparse.csr_array(W + W.T)), random.integers(0, K, N)
    return PrototypeProblem(groups, K, X - X.mean(axis=0), kind), random.integers(0, K, N)


def cost_of(of, labels):
    """Cost of labels with the best prototypes. A cluster without arcs counts as one."""
    if isinstance(of, CutProblem):
        arcs = np.bincount(labels, of.graph.sum(axis=1), of.clusters) > 0
        return graph_objectives(labels, of.graph).normalised_cut + (~arcs).sum()
    return objective_of(of.kind, of.values, labels)


def energy(of, labels, weight):
    """E of labels with the best prototypes; an absent group counts as in the fairness error."""
    return cost_of(of, labels) + weight * of.errors(of.counted(labels)).sum()


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(-4, 5), KINDS, st.integers(1, 6), st.booleans())
def test_the_objective_never_rises_and_is_that_of_the_labels(seed, exponent, kind, K, several):
    of, labels = problem(seed, kind, K=K, several=several)
    moves, weight = of.moves(labels), 10.0**exponent
    moves.descend(weight, 60, 0.0)
    values = [energy(of, labels, weight), *(update.objective for update in moves.history)]
    assert (np.diff(values) <= 1e-9 * max(values)).all()
    assert moves.objective == pytest.approx(energy(of, moves.labels, weight), rel=1e-9)
    np.testing.assert_array_equal(moves.counts, of.counted(moves.labels))
    assert set(labels) == set(moves.labels), "no cluster is emptied"


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["kmeans", "ncut"]))
def test_what_a_point_saves_and_pays_alone_is_exact(seed, kind):
    of, labels = problem(seed, kind, N=16)
    moves, each = of.moves(labels), slice(None)
    saved, paid = moves.alone(each, moves.costs(each))
    for p in range(16):
        for k in set(range(3)) - {labels[p]}:
            other = labels.copy()
            other[p] = k
            if len(set(other)) == len(set(labels)):
                assert cost_of(of, other) - cost_of(of, labels) == pytest.approx(paid[p, k] - saved[p], abs=1e-9)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_the_costs_of_a_cut_are_its_slope(seed):
    """With within / volume^2, and 2 (W S_k)_p of neighbours: what the thesis prints fails here."""
    of, labels = problem(seed, "ncut", N=9)
    W, S, slope = of.graph.toarray(), np.eye(3)[labels], of.moves(labels).costs(slice(None))

    def cut(S):
        volumes = W.sum(axis=1) @ S
        return sum(1 - S[:, k] @ W @ S[:, k] / volumes[k] for k in range(3) if volumes[k] > 0)

    for p in range(9):
        for k in np.flatnonzero(W.sum(axis=1) @ S):
            step = np.zeros_like(S)
            step[p, k] = 1e-5
            assert (cut(S + step) - cut(S - step)) / 2e-5 == pytest.approx(slope[p, k], rel=1e-5, abs=1e-8)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0.1, 100))
def test_the_term_is_that_of_a_loop(seed, weight):
    of, _ = problem(seed)
    labels = np.arange(40) % 3  # each group is in each cluster for most seeds, else the floor applies
    counts = of.counted(labels)
    assume((counts > 0).all())
    costs = of.costs(slice(None), of.values[:3])
    expected = objective(np.eye(3)[labels], costs, of.groups.cells, weight)
    assert costs[np.arange(40), labels].sum() + weight * of.errors(counts).sum() == pytest.approx(expected)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(-2, 3), KINDS)
def test_at_the_end_no_single_move_lowers_the_objective(seed, exponent, kind):
    of, labels = problem(seed, kind, N=24)
    weight, each = 10.0**exponent, np.arange(24)
    moves = of.moves(labels)
    assert moves.descend(weight, 1000, 0.0)
    fixed, least = moves.costs(slice(None)), energy(of, moves.labels, weight)
    for p in range(24):
        for k in range(3):
            other = moves.labels.copy()
            other[p] = k
            if len(set(other)) == len(set(moves.labels)):
                fair = weight * of.errors(of.counted(other)).sum()
                cost = fixed[each, other].sum() if kind == "kmedian" else cost_of(of, other)
                assert cost + fair >= least - 1e-6 * of.unit


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0, 3))
def test_prices_lead_back_to_nearly_all_labels(seed, exponent):
    of, labels = problem(seed, N=60)
    moves = of.moves(labels)
    moves.descend(10.0**exponent, 1000, 0.0)
    prices = of.groups.membership @ of.prices(moves.labels, moves.prototypes)
    paid = of.costs(slice(None), moves.prototypes) + prices[of.groups.cells]
    excess = paid[np.arange(60), moves.labels] - paid.min(axis=1)
    assert excess.sum() <= 0.1 * of.unit
    np.testing.assert_array_equal(of.assigned(moves.prototypes, prices), paid.argmin(axis=1))


def test_memory_does_not_grow_with_the_square_of_the_combinations_of_groups():
    drawn = np.random.default_rng(0)
    features = {name: drawn.integers(0, 7, 3000) for name in "abcd"}
    of = PrototypeProblem(groups_of(features, 3000), 10, drawn.normal(size=(3000, 2)), "kmeans")
    assert len(of.groups.membership) > 1500
    moves = of.moves(drawn.integers(0, 10, 3000))
    tracemalloc.start()
    moves.descend(of.unit, 1, 0.0)
    assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    tracemalloc.stop()
