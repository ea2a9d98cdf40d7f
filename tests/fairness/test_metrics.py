"""Metrics of hard labels against sums over points, groups by cluster, fronts, and the exact values of data sets."""

import gzip
import itertools
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from clustering.foundation.errors import InputError
from fairness import metrics
from fairness.by_group import ALL, ByGroup, by_group
from fairness.datasets import DATASETS
from fairness.datasets.papers import Census
from fairness.groups import groups_of
from fairness.metrics import Fairness, balance, fairness_error
from fairness.objectives import kmeans_objective, kmedian_objective
from fairness.trade_off import pareto_front, path_weights, smallest_best

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


drawn = st.integers(2, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from("abc"), min_size=n, max_size=n),
        st.lists(st.sampled_from("xyz"), min_size=n, max_size=n),
    )
)


@settings(max_examples=30)
@given(drawn)
def test_every_row_is_what_counting_scipy_and_the_metrics_give(given_rows):
    labels, sex = (np.array(column) for column in given_rows)
    frame = by_group(labels, {"sex": sex}).to_frame()
    assert len(frame) == (len(set(labels)) + 1) * len(set(sex))
    for row in frame.itertuples():
        inside = np.full(len(labels), True) if row.cluster == ALL else labels == row.cluster
        assert row.attribute == "sex"
        assert row.size == inside.sum()
        assert row.members == (sex[inside] == row.group).sum()
        assert row.share == pytest.approx(row.members / row.size)
        assert row.target == pytest.approx(np.mean(sex == row.group))
        assert row.deviation == pytest.approx(row.share - row.target)
        assert row.low <= row.share <= row.high
    clusters, total = (frame[(frame["cluster"] == ALL) == whole] for whole in (False, True))
    for _, own in clusters.groupby("cluster"):
        expected = chisquare(own["members"], own["target"] * own["size"]).pvalue if len(own) > 1 else 1
        assert own["p_value"].to_numpy() == pytest.approx(expected)
    counts = clusters.pivot(index="group", columns="cluster", values="members")
    assert total["p_value"].to_numpy() == pytest.approx(chi2_contingency(counts, correction=False).pvalue)
    assert clusters.groupby("cluster")["error"].first().sum() == pytest.approx(fairness_error(labels, sex))
    assert clusters["balance"].min() == pytest.approx(balance(labels, sex))
    assert total["error"].to_numpy() == pytest.approx(0, abs=1e-12)


def test_several_attributes_count_separately_and_a_cluster_without_points_has_no_shares():
    groups = groups_of({"sex": ["f", "m"], "old": ["y", "y"]}, 2)
    frame = ByGroup.of(np.array([[1, 0], [1, 0], [2, 0]]), groups).to_frame()
    assert frame["attribute"].tolist() == ["sex", "sex", "old"] * 3
    assert frame["p_value"].tolist()[:3] == [1, 1, 1]
    empty = frame[frame["cluster"] == 1]
    assert empty[["size", "members"]].to_numpy().tolist() == [[0, 0]] * 3
    assert empty[["share", "low", "high", "error", "balance", "p_value"]].isna().all().all()
    assert (frame[frame["cluster"] == ALL]["p_value"] == 1).all()


@pytest.mark.parametrize(
    ("labels", "sex", "keys", "words"),
    [
        ([], [], {}, "empty"),
        ([0, 1], ["f"], {}, "2 rows"),
        ([0, 1], ["f", None], {}, "no value"),
        ([0, 1], ["f", "m"], {"confidence": 1.0}, "confidence"),
        ([0, 1], ["f", "m"], {"target": [0.2, 0.2]}, "sum to"),
    ],
)
def test_bad_input(labels, sex, keys, words):
    with pytest.raises(InputError, match=words):
        by_group(labels, sex, **keys)


pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


@given(pairs)
def test_nothing_beats_the_front_and_the_front_beats_all_else(points):
    objective, error = np.array(points, dtype=float).T
    front = pareto_front(objective, error)

    def beaten(i):
        no_worse = (objective <= objective[i]) & (error <= error[i])
        return bool((no_worse & ((objective < objective[i]) | (error < error[i]))).any())

    kept = {(objective[i], error[i]) for i in front}
    assert len(kept) == len(front)
    assert kept == {(objective[i], error[i]) for i in range(len(points)) if not beaten(i)}
    assert (np.diff(objective[front]) > 0).all()
    assert (np.diff(error[front]) < 0).all()


def test_what_is_not_known_is_on_no_front():
    assert pareto_front([np.nan, 1.0, 2.0], [0.0, 1.0, np.inf]).tolist() == [1]
    assert pareto_front([np.nan], [1.0]).tolist() == []


@given(st.lists(st.floats(0, 50), min_size=1, max_size=14))
def test_the_smallest_weight_that_is_as_fair_as_any(errors):
    chosen = smallest_best(np.arange(len(errors)), errors)
    least = min(errors)
    bound = least + max(0.01 * least, 1e-4)
    assert errors[chosen] <= bound
    assert all(error > bound for error in errors[:chosen])


@pytest.mark.parametrize("weights", [[], [-1.0], [np.inf], [np.nan]])
def test_weights_that_are_none(weights):
    with pytest.raises(InputError, match="weights"):
        path_weights(weights)


REAL = Path(os.environ.get("TRANSDUCE_DATA", "")) / "fair"
needs_data = pytest.mark.skipif(not (REAL / "synthetic.npz").is_file(), reason="TRANSDUCE_DATA is not set")
ROWS = np.repeat([0, 0, 1, 1], 100)
COLUMNS = np.tile(np.repeat([0, 1], 100), 2)
ONE = (np.arange(400) < 100).astype(int)


@pytest.mark.parametrize(
    ("name", "preprocess", "labels", "means", "medoids", "error", "least", "mean"),
    [
        ("synthetic", "thesis", ROWS, 7.949, 52.409, 44.665, 0, 0),
        ("synthetic", "thesis", COLUMNS, 43.317, 130.470, 0, 1, 1),
        ("synthetic", "thesis", ONE, 45.343, 97.762, 22.392, 0, 0.25),
        ("synthetic", "aaai", ROWS, 195.864, 286.253, 44.665, 0, 0),
        ("synthetic", "aaai", COLUMNS, 207.804, 294.540, 0, 1, 1),
        ("synthetic", None, ROWS, 124.779, 222.37, 44.665, 0, 0),
        ("synthetic", None, COLUMNS, 1609.04, 804.54, 0, 1, 1),
        ("synthetic_unequal", "thesis", None, 11.741, 62.966, 44.927, 0, 0),
        ("synthetic_unequal", "thesis", "x", 23.823, 70.556, 0, 1 / 3, 1 / 3),
        ("synthetic_unequal", "thesis", "one", 32.528, 84.868, 11.000, 0, 1 / 3),
        ("synthetic_unequal", "aaai", None, 246.142, 319.470, 44.927, 0, 0),
        ("synthetic_unequal", "aaai", "x", 159.754, 174.818, 0, 1 / 3, 1 / 3),
    ],
)
def test_exact_values_of_partitions_by_blobs(name, preprocess, labels, means, medoids, error, least, mean):
    found = DATASETS.load(name)(preprocess=preprocess).read()
    groups = found.sensitive["row"]
    if name == "synthetic_unequal":
        blobs = np.repeat([0, 1, 2, 3], [150, 150, 50, 50])
        labels = {None: blobs // 2, "x": blobs % 2, "one": (blobs == 0).astype(int)}[labels]
    assert kmeans_objective(found.values, labels) == pytest.approx(means, abs=max(1e-3, 6e-6 * means))
    assert kmedian_objective(found.values, labels) == pytest.approx(medoids, abs=max(1e-3, 3e-5 * medoids))
    assert fairness_error(labels, groups) == pytest.approx(error, abs=1e-3)
    assert balance(labels, groups) == pytest.approx(least, abs=1e-3)
    assert balance(labels, groups, reduce="mean") == pytest.approx(mean, abs=1e-3)


@needs_data
def test_the_synthetic_sets_are_those_of_the_public_code():
    with np.load(REAL / "synthetic.npz") as stored:
        for name, end in (("synthetic", ""), ("synthetic_unequal", "_unequal")):
            found = DATASETS.load(name)(preprocess=None).read()
            np.testing.assert_allclose(found.values, stored[f"x{end}"], atol=1e-12)
            assert len(set(zip(found.sensitive["row"], stored[f"group{end}"], strict=True))) == 2


@needs_data
@pytest.mark.slow
def test_the_real_ones():
    adult = DATASETS.load("adult")(root=str(REAL)).read()
    assert adult.values.shape == (32_561, 5)
    assert np.unique(adult.sensitive["sex"], return_counts=True)[1].tolist() == [10_771, 21_790]
    assert np.linalg.norm(adult.values, axis=1) == pytest.approx(1)
    thesis = DATASETS.load("adult")(root=str(REAL), features="thesis", preprocess=None, sensitive="race").read()
    assert thesis.values.shape == (32_561, 4)
    assert thesis.values[0].tolist() == [39, 77516, 13, 40]
    assert len(set(thesis.sensitive["race"])) == 5
    bank = DATASETS.load("bank")(root=str(REAL), preprocess=None).read()
    assert bank.values.shape == (41_108, 6)
    assert dict(zip(*np.unique(bank.sensitive["marital"], return_counts=True), strict=True)) == {
        "divorced": 4612,
        "married": 24_928,
        "single": 11_568,
    }
    assert bank.values[0].tolist() == [56, 261, 4.857, 5191, 93.994, 1]


@needs_data
def test_adult_with_a_line_of_names(tmp_path):
    lines = gzip.decompress((REAL / "adult.data.csv.gz").read_bytes()).decode()
    (tmp_path / "adult.csv").write_text(
        "age,workclass,fnlwgt,education,education.num,marital.status,occupation,relationship,race,sex,capital.gain,"
        "capital.loss,hours.per.week,native.country,income\n" + lines
    )
    first, second = (DATASETS.load("adult")(root=str(root)) for root in (REAL, tmp_path))
    np.testing.assert_array_equal(first.read().values, second.read().values)
    assert first.source() != second.source()


def test_the_census_is_read_by_its_columns(tmp_path, monkeypatch):
    drawn = np.random.default_rng(0).integers(0, 9, (50, Census.width))
    drawn[:, Census.sex] %= 2
    np.savetxt(tmp_path / "USCensus1990raw.data.txt", drawn, fmt="%d", delimiter="\t")
    built = DATASETS.load("census")(root=str(tmp_path), preprocess=None)
    with pytest.raises(InputError, match=r"50 rows, .*2,458,285"):
        built.read()
    monkeypatch.setattr(Census, "rows", 50)
    monkeypatch.setattr(Census, "at_once", 17)
    found = built.read()
    np.testing.assert_array_equal(found.values, drawn[:, list(Census.columns)])
    np.testing.assert_array_equal(found.sensitive["sex"], drawn[:, 112])
    assert found.values.shape == (50, 25)
    np.savetxt(tmp_path / "USCensus1990raw.data.txt", drawn[:, :60], fmt="%d", delimiter="\t")
    with pytest.raises(InputError, match=r"60 columns, .*125"):
        built.read()
