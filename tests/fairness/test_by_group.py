"""Groups by cluster: what each number is by scipy, and that the table agrees with the metrics and with itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from clustering.foundation.errors import InputError
from fairness.by_group import ALL, ByGroup, by_group
from fairness.groups import groups_of
from fairness.metrics import balance, fairness_error

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
