"""Moves of points between clusters: never a rise, E against loops, and what no move can improve at the end."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.groups import groups_of
from fairness.objectives import objective_of
from fairness.optimiser.moves import Moves, Problem
from tests.fairness.thesis_sets import draw
from tests.oracles.fair_clustering import objective

KINDS = st.sampled_from(["kmeans", "kmedian"])


def problem(seed, kind="kmeans", N=40, K=3, J=3, several=False):
    X, groups = draw(seed, N, J)
    features = {"a": groups, "b": np.arange(N) % 2} if several else groups
    return Problem(X - X.mean(axis=0), groups_of(features, N), K, kind), np.random.default_rng(seed).integers(0, K, N)


def energy(of, labels, weight):
    """E, and its cost, of labels with the best prototypes; an absent group counts as in the fairness error."""
    cost = objective_of(of.kind, of.values, labels)
    return cost + weight * of.errors(of.counted(labels)).sum()


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(-4, 5), KINDS, st.integers(1, 6), st.booleans())
def test_the_objective_never_rises_and_is_that_of_the_labels(seed, exponent, kind, K, several):
    of, labels = problem(seed, kind, K=K, several=several)
    moves, weight = Moves(of, labels), 10.0**exponent
    moves.descend(weight, 60, 0.0)
    values = [energy(of, labels, weight), *(update.objective for update in moves.history)]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert moves.objective == pytest.approx(energy(of, moves.labels, weight), rel=1e-9)
    np.testing.assert_array_equal(moves.counts, of.counted(moves.labels))
    assert set(labels) == set(moves.labels), "no cluster is emptied"


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0.1, 100))
def test_the_term_is_that_of_a_loop(seed, weight):
    of, _ = problem(seed)
    labels = np.arange(40) % 3  # each group is in each cluster for most seeds, else the floor applies
    counts = of.counted(labels)
    if (counts == 0).any():
        return
    costs = of.costs(slice(None), of.values[:3])
    expected = objective(np.eye(3)[labels], costs, of.groups.cells, weight)
    assert costs[np.arange(40), labels].sum() + weight * of.errors(counts).sum() == pytest.approx(expected)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(-2, 3), KINDS)
def test_at_the_end_no_single_move_lowers_the_objective(seed, exponent, kind):
    of, labels = problem(seed, kind, N=24)
    weight = 10.0**exponent
    moves = Moves(of, labels)
    assert moves.descend(weight, 1000, 0.0)
    fixed = of.costs(slice(None), moves.prototypes)
    least = energy(of, moves.labels, weight)
    for p in range(24):
        for k in range(3):
            other = moves.labels.copy()
            other[p] = k
            if len(set(other)) == len(set(moves.labels)):
                fair = weight * of.errors(of.counted(other)).sum()
                cost = objective_of(kind, of.values, other) if kind == "kmeans" else fixed[np.arange(24), other].sum()
                assert cost + fair >= least - 1e-6 * of.unit


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0, 3))
def test_prices_lead_back_to_nearly_all_labels(seed, exponent):
    of, labels = problem(seed, N=60)
    moves = Moves(of, labels)
    moves.descend(10.0**exponent, 1000, 0.0)
    prices = of.groups.membership @ of.prices(moves.labels, moves.prototypes)
    paid = of.costs(slice(None), moves.prototypes) + prices[of.groups.cells]
    excess = paid[np.arange(60), moves.labels] - paid.min(axis=1)
    assert excess.sum() <= 0.1 * of.unit
    np.testing.assert_array_equal(of.assigned(moves.prototypes, prices), paid.argmin(axis=1))


def test_clusters_of_one_group_each_become_fair_by_giving_shares():
    """Two blobs of one group each, at a weight at which no single move pays: points change places until both clusters
    have both groups."""
    drawn = np.random.default_rng(0)
    X = np.concatenate([drawn.normal(size=(50, 2)), drawn.normal(size=(50, 2)) + 3])
    of = Problem(X - X.mean(axis=0), groups_of(np.repeat([0, 1], 50), 100), 2, "kmeans")
    moves = Moves(of, np.repeat([0, 1], 50))
    moves.descend(10 * of.unit, 300, 0.0)
    assert of.errors(moves.counts).sum() < 0.01


def test_memory_does_not_grow_with_the_square_of_the_combinations_of_groups():
    drawn = np.random.default_rng(0)
    features = {name: drawn.integers(0, 7, 3000) for name in "abcd"}
    of = Problem(drawn.normal(size=(3000, 2)), groups_of(features, 3000), 10, "kmeans")
    assert len(of.groups.membership) > 1500
    moves = Moves(of, drawn.integers(0, 10, 3000))
    tracemalloc.start()
    moves.descend(of.unit, 1, 0.0)
    assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    tracemalloc.stop()
