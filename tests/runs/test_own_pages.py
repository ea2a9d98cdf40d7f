"""What the pages about one's own data say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.datasets.table import Table
from fairness.datasets.table import Table as FairTable
from fairness.groups import groups_of
from runs.own_data.clusters_page import Found, clusters_page
from runs.own_data.fairness_page import FairClusters, fairness_page
from runs.own_data.page import Page, number, percent
from tests.runs.pages import text

BAD = "<script>alert(1)</script>"


def page(shown: Page, **changes) -> str:
    return replace(shown, **changes).html()


def clusters_pages(folder: Path, frame: pd.DataFrame, labels: list[int], **changes) -> Page:
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    own = np.array(labels)
    known = {"labels": own, "others": [own] * 3, "requested": len(set(own))}
    return clusters_page(Found(contents=Table(path=str(path)).contents(), **known | changes))


def fair_pages(
    folder: Path, frame: pd.DataFrame, unfair, labels, sensitive=("sex",), target=None, **changes
) -> FairClusters:
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    table = FairTable(path=str(path), sensitive=sensitive)
    groups = groups_of(table.read().sensitive, len(frame))
    known = {
        "contents": table.contents(),
        "requested": 1 + max(labels),
        "groups": groups if target is None else replace(groups, target=np.array(target)),
        "labels": np.array(labels),
        "unfair": np.array(unfair),
    }
    return FairClusters(**known | changes)


def said(found: FairClusters) -> str:
    return text(page(fairness_page(found)))


@pytest.fixture
def ages():
    return pd.DataFrame({"who": list("abcdef"), "age": [20, 22, 24, 60, 62, 64], "member": [0, 0, 1, 1, 1, 1]})


@pytest.fixture
def people_pages():
    """Eight people, four of each sex, whose incomes tell these apart."""
    return pd.DataFrame(
        {"income": [1, 2, 3, 4, 11, 12, 13, 14], "age": [5, 1, 4, 2, 5, 1, 4, 2], "sex": list("ffffmmmm")}
    )


APART, HALF, MIXED = [0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0, 1, 1]


def test_clusters_are_described_as_counting_gives(tmp_path, ages):
    frame = ages.assign(job=["cook"] * 3 + ["clerk"] * 3, since=["2020-01-01", "2020-01-03"] * 3)
    frame.loc[3:, "since"] = ["2021-05-01", "2021-05-02", "2021-05-03"]
    seen = text(page(clusters_pages(tmp_path, frame, [0, 0, 0, 1, 1, 1])))
    for words in (
        "The 6 rows were divided into 2 groups of similar rows.",
        "age 22 62 ",
        "member 0.333 1 ",
        "job: clerk 0 % 100 %",
        "since 2020-01-01 2021-05-02",
        "job (categories)",
        "4 times",
        "100 % of the rows were in the same group",
        "columns not used: who (text that differs in every row, such as names)",
    ):
        assert words in seen, words


def test_what_the_method_was_given_lost_groups_and_unstable_ones(tmp_path, ages):
    told = {"given": 2, "names": ["<old>"], "requested": 3}
    other = np.array([0, 1, 0, 1, 0, 1])
    seen = text(page(clusters_pages(tmp_path, ages, [0, 0, 0, 1, 1, 1], others=[other] * 3, **told)))
    assert "The method was given the groups of 2 rows." in seen
    assert "0 (<old>)" in seen
    assert "3 groups were requested, but 1 of them have no rows" in seen
    assert "67 % of the rows" in seen
    seen = text(page(clusters_pages(tmp_path, ages, [0, 0, -1, 1, 1, 1], others=[])))
    assert "1 rows are in no group" in seen
    assert "The method was run once" in seen


def test_fair_clusters_are_described_as_counting_gives(tmp_path, people_pages):
    seen = said(fair_pages(tmp_path, people_pages, APART, MIXED))
    assert "4 rows are in another cluster than without fairness" in seen
    assert re.search(r"sex = f 0 100 % 50 % \d+ to \d+ 50 % 1 ", seen)
    seen = said(
        fair_pages(tmp_path, people_pages, APART, HALF)
    )  # clusters are called like those with most rows in common
    assert "2 rows are in another cluster" in seen


def test_numbers_are_short():
    assert [number(v) for v in (0, 52_134.4, 2019.2, -3.14159, 0.00001)] == ["0", "52,134", "2019", "-3.14", "1e-05"]


@settings(max_examples=10)  # each is a file
@given(
    st.integers(4, 30).flatmap(
        lambda n: st.tuples(
            *[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2,
            st.lists(st.sampled_from("abc"), min_size=n, max_size=n).filter(lambda sex: len(set(sex)) > 1),
        )
    )
)
def test_shares_are_those_of_loops(tmp_path_factory, drawn):
    first, second, sex = drawn
    frame = pd.DataFrame({"x": np.arange(len(sex)) ** 2, "sex": sex})
    found = fair_pages(tmp_path_factory.mktemp("page"), frame, first, second, requested=4)
    before = found.before
    for row in found.shares.itertuples():
        for labels, value in ((before, row.before_share), (np.array(second), row.share)):
            inside = [s == row.group for s, k in zip(sex, labels, strict=True) if k == row.cluster]
            assert value == pytest.approx(np.mean(inside)) if inside else np.isnan(value)
        assert row.target == pytest.approx(sex.count(row.group) / len(sex))
    assert len(set(zip(before, first, strict=True))) == len(set(first))  # other names for the same clusters


def test_what_is_wrong_with_fair_clusters_is_said(tmp_path, people_pages):
    seen = said(fair_pages(tmp_path, people_pages, APART, APART, requested=3, settled=False))
    for words in (
        "cluster 0 has no row with sex = m",
        "3 clusters were requested, but 1 of them have no rows",
        "The clusters are the same as without fairness",
        "stopped at max_iter",
        "has no fairness_weight",
    ):
        assert words in seen, words
    labels = [0, 1, 2, 0, 1, 2, 0, 1]
    seen = said(fair_pages(tmp_path, people_pages.assign(sex=list("ffffmmxx")), labels, labels))
    assert "sex = x has 2 rows, which cannot be in each of 3 clusters" in seen
    seen = said(fair_pages(tmp_path, people_pages, APART, HALF, target=[0.25, 0.75]))
    assert re.search(r"sex = f 0 .* 25 % .* sex = m 0 .* 75 %", seen)


def test_nothing_is_loaded_and_no_cell_is_trusted(tmp_path, ages, people_pages):
    words = {"title": BAD, "method": BAD, "command": BAD, "facts": {BAD: BAD}}
    frame = ages.rename(columns={"age": BAD}).assign(who=[BAD] * 6)
    own = clusters_pages(tmp_path, frame, [0, 0, 0, 1, 1, 1], names=[BAD])
    frame = people_pages.rename(columns={"sex": BAD}).replace("f", BAD)
    of_fair = fairness_page(fair_pages(tmp_path, frame, APART, MIXED, sensitive=(BAD,)))
    for shown in (page(own, **words), page(of_fair, **words)):
        assert "<script" not in shown
        assert "alert(1)" in shown
        assert not re.search(r"(?:src|href)=\"(?!data:image)", shown)
        assert "url(" not in shown
        assert "@import" not in shown
        assert "default-src 'none'" in shown


@given(st.floats(0, 1))
def test_all_and_nothing_are_exact(share):
    assert (percent(share) == "0 %") == (share == 0)
    assert (percent(share) == "100 %") == (share == 1)
