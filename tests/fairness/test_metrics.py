"""Metrics of hard labels against sums over points, and the exact values of the two synthetic sets."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness import metrics
from fairness.groups import groups_of
from fairness.metrics import Fairness
from fairness.objectives import kmeans_objective, kmedian_objective

LABELLED = st.integers(2, 5).flatmap(
    lambda J: st.lists(st.tuples(st.integers(0, 3), st.integers(0, J - 1)), min_size=1, max_size=25)
)


@settings(max_examples=30)
@given(LABELLED)
def test_metrics_against_loops(rows):
    labels, groups = (list(part) for part in zip(*rows, strict=True))
    names, total = sorted(set(groups)), len(rows)
    mu = {j: groups.count(j) / total for j in names}
    errors, balances, violation = [], [], 0.0
    for k in sorted(set(labels)):
        size = labels.count(k)
        count = {j: sum(row == (k, j) for row in rows) for j in names}
        errors.append(sum(mu[j] * math.log(mu[j] / max(count[j] / size, 1e-20)) for j in names))
        pairs = [count[i] / count[j] for i, j in itertools.permutations(names, 2) if count[j]]
        balances.append(min(pairs, default=1.0) if len(names) > 1 else 1.0)
        for j in names:
            violation = max(violation, count[j] - mu[j] * size / 0.9, mu[j] * size * 0.9 - count[j])
    assert metrics.fairness_error(labels, groups) == pytest.approx(sum(errors), abs=1e-12)
    assert metrics.fairness_error(labels, groups, reduce="mean") == pytest.approx(np.mean(errors), abs=1e-12)
    assert metrics.balance(labels, groups) == pytest.approx(min(balances))
    assert metrics.balance(labels, groups, reduce=None) == pytest.approx(balances)
    whole, codes = groups_of(groups, total), np.unique(labels, return_inverse=True)[1]
    counts = whole.counts(codes, int(codes.max()) + 1)
    assert metrics.largest_violation(counts, whole, 0.1) == pytest.approx(violation, abs=1e-12)
    assert metrics.balance(labels, groups, relative=True) <= 1 + 1e-12
    renamed = [f"group {9 - j}" for j in groups]
    assert metrics.fairness_error(labels, renamed) == pytest.approx(sum(errors), abs=1e-12)


def test_an_absent_group_costs_what_the_papers_print_or_infinity():
    labels, groups = np.repeat([0, 1], [100, 300]), np.repeat(["a", "b"], 200)
    assert metrics.fairness_error(labels, groups) == pytest.approx(22.392, abs=1e-3)
    assert metrics.fairness_error(groups, groups) == pytest.approx(44.665, abs=1e-3)
    assert metrics.fairness_error(labels, groups, floor=None) == math.inf
    assert metrics.balance(labels, groups) == 0
    assert metrics.balance(labels, groups, reduce="mean") == 0.25
    unequal = np.repeat(["a", "b"], [300, 100])
    assert metrics.fairness_error(unequal, unequal) == pytest.approx(44.927, abs=1e-3)
    assert metrics.fairness_error(np.repeat([0, 1], [150, 250]), unequal) == pytest.approx(11.000, abs=1e-3)


def test_empty_clusters_and_absent_groups_are_told():
    groups = groups_of(list("aabb"), 4)
    found = Fairness.of(groups.counts(np.array([0, 0, 0, 2]), 3), groups)
    assert found.empty == 1
    assert found.absent == (("a", 2),)
    assert found.counts.tolist() == [[2, 0, 0], [1, 0, 1]]
    assert (found.balance_min, found.balance_mean) == (0, 0.25)


def test_metrics_by_group_as_fairlearn_calls_them():
    labels, sex = np.array([0, 0, 1, 1]), pd.Series(list("abab"))
    frame = pd.DataFrame({"y": labels, "d": [1.0, 2.0, 3.0, 6.0]}).groupby(sex)
    rates = frame.apply(lambda own: metrics.cluster_rate(1)(own["y"], own["y"]))
    costs = frame.apply(lambda own: metrics.mean_cost(own["y"], own["y"], distances=own["d"]))
    assert rates.to_dict() == {"a": 0.5, "b": 0.5}
    assert costs.to_dict() == {"a": 2.0, "b": 4.0}


def test_the_price_of_fairness():
    assert metrics.price_of_fairness(3.0, 2.0) == 1.5
    assert metrics.price_of_fairness(0.0, 0.0) == 1
    assert metrics.price_of_fairness(1.0, 0.0) == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: metrics.fairness_error([], []),
        lambda: metrics.fairness_error([0, 1], ["a", None]),
        lambda: metrics.balance([0, 1], ["a", "b"], reduce="median"),
        lambda: metrics.price_of_fairness(-1, 2),
        lambda: kmeans_objective(np.zeros((2, 1)), [0]),
        lambda: kmeans_objective(np.zeros((2, 1)), [-1, 0]),
    ],
)
def test_what_cannot_be_measured_is_said(wrong):
    with pytest.raises(InputError):
        wrong()


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_objectives_against_loops(seed, clusters):
    drawn = np.random.default_rng(seed)
    X, labels = drawn.normal(size=(20, 3)) + 1e4, drawn.integers(0, clusters, 20)
    squares = medians = 0.0
    for k in set(labels.tolist()):
        own = X[labels == k]
        squares += float(((own - own.mean(axis=0)) ** 2).sum())
        medians += min(sum(float(np.linalg.norm(x - y)) for x in own) for y in own)
    assert kmeans_objective(X, labels) == pytest.approx(squares, rel=1e-6)
    assert kmedian_objective(X, labels) == pytest.approx(medians, rel=1e-6)
