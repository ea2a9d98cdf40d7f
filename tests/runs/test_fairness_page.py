"""The page about a table that was clustered fairly: it says what counting gives, and trusts no cell."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.datasets.table import Table
from fairness.groups import groups_of
from runs.own_data.fairness_page import SHOWN, FairnessPage
from runs.own_data.page import Command
from runs.own_data.plain_words import between, farther, of_hundred, weight_name
from tests.runs.pages import text


def found(
    folder: Path, frame: pd.DataFrame, labels: list[list[int]], sensitive=("sex",), target=None, **changes
) -> FairnessPage:
    """Labels of a table that is written to a file, at weights 0, 10, 20 and so on."""
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    table = Table(path=str(path), sensitive=sensitive)
    groups = groups_of(table.read().sensitive, len(frame))
    settings = {
        "contents": table.contents(),
        "groups": groups if target is None else replace(groups, target=np.array(target)),
        "targeted": target is not None,
        "points": table.read().values,
        "weights": [10.0 * i for i in range(len(labels))],
        "labels": np.array(labels, dtype=np.uint8),
        "chosen": len(labels) - 1,
        "clusters": 1 + max(map(max, labels)),
        "method": "Fair K-means",
        "command": Command("fair", ["dataset=table"]),
        "command_at": lambda weight: f"transduce fair fairness_weight={weight:g}",
        "output": "out.csv",
    }
    return FairnessPage(**settings | changes)


@pytest.fixture
def people():
    """Eight people, four of each sex, whose incomes tell these apart."""
    return pd.DataFrame(
        {"income": [1, 2, 3, 4, 11, 12, 13, 14], "age": [5, 1, 4, 2, 5, 1, 4, 2], "sex": list("ffffmmmm")}
    )


APART, HALF, MIXED = [0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0, 1, 1]


def test_it_says_what_is_so(tmp_path, people):
    seen = text(found(tmp_path, people, [APART, MIXED]).html())
    assert "The 8 rows were divided into 2 clusters of similar rows, compared in income , age ." in seen
    assert "Of 100 rows of the whole table, 50 have sex = f , 50 sex = m ." in seen
    assert "Without fairness, cluster 0 is farthest from that: 100 of 100 rows have sex = f ." in seen
    assert "With fairness it is 50 of 100." in seen
    assert "the share of every group in every cluster is within one row of 100 of the whole table" in seen
    assert "4 rows (50 %) are in another cluster than without fairness" in seen
    assert "Without fairness, cluster 0 has no row with sex = m , cluster 1 has no row with sex = f ." in seen
    assert "More fairness of this kind is not possible" in seen
    assert "For less fairness" not in seen  # that were none


def test_clusters_without_fairness_are_called_like_those_with_it(tmp_path, people):
    seen = text(found(tmp_path, people, [APART, HALF]).html())
    assert "2 rows (25 %) are in another cluster" in seen
    assert "With fairness it is 25 of 100, which is still the largest difference from the whole table." in seen
    assert "For more fairness: transduce fair fairness_weight=100" in seen
    middle = text(found(tmp_path, people, [APART, HALF, MIXED], chosen=1).html())
    assert "For more fairness: transduce fair fairness_weight=20" in middle
    last = text(found(tmp_path, people, [APART, HALF, MIXED]).html())
    assert "For less fairness: transduce fair fairness_weight=10" in last


@settings(max_examples=20)  # each is a file
@given(
    st.integers(4, 30).flatmap(
        lambda n: st.tuples(
            *[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2,
            st.lists(st.sampled_from("abc"), min_size=n, max_size=n).filter(lambda sex: len(set(sex)) > 1),
        )
    )
)
def test_shares_and_distances_are_those_of_loops(tmp_path_factory, drawn):
    first, second, sex = drawn
    frame = pd.DataFrame({"x": np.arange(len(sex)) ** 2, "sex": sex})
    given_rows = found(tmp_path_factory.mktemp("page"), frame, [first, second], clusters=4)
    before = given_rows.before
    for row in given_rows.shares.itertuples():
        for labels, value in ((before, row.before_share), (np.array(second), row.share)):
            inside = [s == row.group for s, k in zip(sex, labels, strict=True) if k == row.cluster]
            assert value == pytest.approx(np.mean(inside)) if inside else np.isnan(value)
        assert row.target == pytest.approx(sex.count(row.group) / len(sex))
    assert len(set(zip(before, first, strict=True))) == len(set(first))  # other names for the same clusters
    step = given_rows.steps.iloc[1]
    assert step["moved"] == (before != second).sum()
    far = []
    for labels in (first, second):
        x, labels = given_rows.points[:, 0], np.array(labels)
        far.append(np.mean([abs(x[i] - x[labels == labels[i]].mean()) for i in range(len(x))]))
    assert step["distance"] == pytest.approx(far[1] / far[0] if far[0] else 1 if not far[1] else np.inf)


def test_groups_that_a_cluster_lacks_and_clusters_that_are_lost(tmp_path, people):
    seen = text(found(tmp_path, people, [APART, APART], clusters=3).html())
    assert "Also with fairness cluster 0 has no row with sex = m" in seen
    assert "3 clusters were requested, but 1 of them has no rows" in seen
    assert "none. No row is in another cluster" in seen
    seen = text(found(tmp_path, people, [[0, 1, 2] * 2 + [0, 1], [2] * 8]).html())  # two are lost with fairness alone
    assert "3 clusters were requested, but 2 of them have no rows" in seen
    assert "nan" not in seen
    assert "Fairness had no weight here" in text(found(tmp_path, people, [APART, MIXED], chosen=0).html())


def test_several_columns_are_apart_and_one_of_them_is_clustered_by(tmp_path, people):
    frame = people.assign(old=[0, 0, 1, 1] * 2)
    given_rows = found(tmp_path, frame, [APART, MIXED], sensitive=("sex", "old"))
    seen = text(given_rows.html())
    assert "50 have old = 0 , 50 old = 1 ." in seen
    assert "Each of sex , old is considered separately" in seen
    path = str(tmp_path / "people.csv")
    named = Table(path=path, columns=("income", "old"), sensitive=("old",))
    groups = groups_of(named.read().sensitive, len(frame))
    seen = text(found(tmp_path, frame, [APART, MIXED], contents=named.contents(), groups=groups).html())
    assert "old was also used to compare rows" in seen


def test_of_many_groups_the_farthest_have_bars(tmp_path):
    sex = [f"g{i // 4:02}" for i in range(4 * 30)]
    frame = pd.DataFrame({"x": np.arange(len(sex)) % 7, "sex": sex})
    labels = [[int(i < 60) for i in range(len(sex))], [i % 2 for i in range(len(sex))]]
    page = found(tmp_path, frame, labels).html()
    assert page.count('class="bars"') == 2 * SHOWN
    assert page.count("<td>sex</td>") == 2 * 30
    assert f"Of 30 groups, the {SHOWN} farthest" in page


def test_other_shares_may_be_asked_for(tmp_path, people):
    target = [0.25, 0.75]  # f, m
    seen = text(found(tmp_path, people, [APART, HALF], target=target).html())
    assert "The target, of 100 rows of a cluster: 25 have sex = f , 75 sex = m ." in seen
    assert "With fairness it is 75 of 100, which is still the largest difference from the target." in seen


def test_shares_that_no_clusters_can_have_are_said_to_be_so(tmp_path, people):
    target = [0.25, 0.75]  # f, m
    seen = text(found(tmp_path, people, [APART, HALF], target=target).html())
    assert "Not all clusters can reach the target." in seen
    assert "about the shares" not in seen
    assert "Not all clusters can" not in text(found(tmp_path, people, [APART, HALF]).html())


def test_weights_that_lose_a_cluster_are_not_advised(tmp_path, people):
    lost = text(found(tmp_path, people, [APART, HALF, [0] * 8], chosen=1).html())
    assert "For more fairness" not in lost
    assert "The larger weights that were tried give no more fairness without losing clusters or groups." in lost
    assert "clusters without rows" in lost


def test_a_smaller_weight_that_is_as_near_and_cheaper_is_named(tmp_path, people):
    by_age = [0, 1, 0, 1, 0, 1, 0, 1]  # as fair as MIXED, of rows that are more alike
    seen = text(found(tmp_path, people, [APART, by_age, MIXED]).html())
    assert "no farther from the whole table: transduce fair fairness_weight=10" in seen
    assert "no farther from" not in text(found(tmp_path, people, [APART, MIXED, by_age]).html())


def test_labels_that_had_not_settled_are_said_to_be_so(tmp_path, people):
    seen = text(found(tmp_path, people, [APART, HALF], settled=[True, False]).html())
    assert "stopped at max_iter before it converged" in seen
    seen = text(found(tmp_path, people, [APART, HALF], settled=[True, True]).html())
    assert "converged" not in seen.lower()


def test_a_group_of_fewer_rows_than_clusters_is_beyond_any_weight(tmp_path, people):
    frame = people.assign(sex=list("ffffmmxx"))
    labels = [0, 1, 2, 0, 1, 2, 0, 1]
    seen = text(found(tmp_path, frame, [labels, labels]).html())
    assert "sex = x has 2 rows, which cannot be in each of 3 clusters, whatever the weight." in seen
    assert "Fewer clusters may help, or merging groups." in seen
    assert "A larger weight" not in seen
    frame, labels = people.assign(sex=list("fffmmmxx")), [0, 0, 0, 1, 1, 2, 0, 1]
    assert "A larger weight or fewer clusters may help with the others." in text(
        found(tmp_path, frame, [labels] * 2).html()
    )


def test_a_method_without_a_weight(tmp_path, people):
    seen = text(found(tmp_path, people, [APART, MIXED], weights=[0.0, np.nan], method="Backurs").html())
    assert "has no fairness_weight" in seen
    assert "nan" not in seen


def test_nothing_is_loaded_and_no_cell_is_trusted(tmp_path, people):
    bad = "<script>alert(1)</script>"
    frame = people.rename(columns={"sex": bad}).replace("f", bad)
    words = {"method": bad, "command": Command(bad, [bad]), "output": bad, "facts": {bad: bad}}
    page = found(tmp_path, frame, [APART, MIXED], sensitive=(bad,), command_at=lambda _: bad, **words).html()
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


@given(st.floats(0, 1))
def test_shares_round_to_none_and_all_only_where_it_is_so(share):
    assert (of_hundred(share) == "0") == (share == 0)
    assert (of_hundred(share) == "100") == (share == 1)


@given(st.floats(0.01, 50))
def test_words_for_distances_go_with_the_sign(ratio):
    said = farther(ratio)
    assert ("nearer" in said) == (ratio <= 0.995)
    assert ("farther" in said or "times" in said) == (ratio >= 1.005)


def test_small_words():
    assert (farther(float("inf")), farther(1.2), farther(7)) == ("farther", "20 % farther", "7.0 times as far")
    assert (between(0.1, 0.32), between(0, 0.001)) == ("10 to 32", "0")
    assert [weight_name(weight) for weight in (0, 0.1234567, 12345, 8617.7)] == ["0", "0.1235", "12345", "8618"]
