"""Groups by cluster: what each number is by scipy, and that the table agrees with the metrics and with itself."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2_contingency, chisquare

from clustering.foundation.errors import InputError
from fairness.by_group import ALL, ByGroup, by_group, wilson
from fairness.groups import groups_of
from fairness.metrics import balance, fairness_error

drawn = st.integers(2, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from("abc"), min_size=n, max_size=n),
        st.lists(st.sampled_from("xyz"), min_size=n, max_size=n),
    )
)


@settings(max_examples=30)
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0.5, 0.999))
def test_intervals_are_those_of_scipy(some, others, confidence):
    low, high = wilson(some, some + others, confidence)
    if some + others == 0:
        assert math.isnan(low)
        assert math.isnan(high)
        return
    wanted = binomtest(some, some + others).proportion_ci(confidence, method="wilson")
    assert (float(low), float(high)) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert low <= some / (some + others) <= high


@settings(max_examples=30)
@given(drawn)
def test_every_row_is_what_counting_gives(given_rows):
    labels, sex = (np.array(column) for column in given_rows)
    report = by_group(labels, {"sex": sex})
    for row in report.rows():
        inside = np.full(len(labels), True) if row.cluster == ALL else labels == row.cluster
        assert row.attribute == "sex"
        assert row.size == inside.sum()
        assert row.members == (sex[inside] == row.group).sum()
        assert row.share == pytest.approx(row.members / row.size)
        assert row.target == pytest.approx(np.mean(sex == row.group))
        assert row.deviation == pytest.approx(row.share - row.target)
        assert row.low <= row.share <= row.high
    assert len(report.rows()) == (len(set(labels)) + 1) * len(set(sex))


@settings(max_examples=30)
@given(drawn)
def test_p_values_are_those_of_scipy(given_rows):
    labels, sex = given_rows
    report = by_group(labels, sex)
    target = report.groups.target
    for k in range(len(report.clusters)):
        found = chisquare(report.counts[:, k], target * report.sizes[k])
        wanted = found.pvalue if len(target) > 1 else 1
        assert report.p_values[0, k] == pytest.approx(wanted)
    wanted = chi2_contingency(report.counts, correction=False).pvalue
    assert report.overall().p_values[0, 0] == pytest.approx(wanted)


@settings(max_examples=30)
@given(drawn)
def test_clusters_sum_to_what_the_metrics_say(given_rows):
    labels, sex = given_rows
    report = by_group(labels, sex)
    assert report.errors.sum() == pytest.approx(fairness_error(labels, sex))
    assert report.balances.min() == pytest.approx(balance(labels, sex))
    assert report.overall().errors.sum() == pytest.approx(0, abs=1e-12)


def test_a_cluster_without_points_has_no_shares():
    groups = groups_of(["f", "m"], 2)
    report = ByGroup.of(np.array([[1, 0], [1, 0]]), groups)
    assert np.isnan(report.shares[:, 1]).all()
    assert np.isnan(report.low[:, 1]).all()
    for of_cluster in (report.errors, report.balances, report.p_values):
        assert np.isnan(of_cluster[:, 1]).all()
    assert report.absent() == []
    assert report.overall().p_values[0, 0] == 1


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
