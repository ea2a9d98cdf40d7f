"""The page about a person's own table: what it says is so, it asks nothing of any other file, and it trusts no cell."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.datasets.table import Table
from clustering.evaluation.profiles import Profile, Trait
from runs.own_data.clusters_page import DOTS, ClustersPage
from runs.own_data.page import Command
from runs.own_data.plain_words import Kind, compared, described, in_a_line, number, percent
from tests.runs.pages import text


def found(folder: Path, frame: pd.DataFrame, labels: list[int], **changes) -> ClustersPage:
    """Labels of a table that is written to a file."""
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    settings = {
        "contents": Table(path=str(path)).contents(),
        "labels": np.array(labels),
        "confidence": np.linspace(0.4, 1, len(labels)),
        "others": [np.array(labels)] * 3,
        "clusters": len(set(labels)),
        "method": "K-means",
        "command": Command("cluster", ["dataset=table"]),
        "other_method": "other",
        "output": "out.csv",
    }
    return ClustersPage(**settings | changes)


@pytest.fixture
def ages():
    return pd.DataFrame({"who": list("abcdef"), "age": [20, 22, 24, 60, 62, 64], "member": [0, 0, 1, 1, 1, 1]})


def test_it_says_what_is_so(tmp_path, ages):
    seen = text(found(tmp_path, ages, [0, 0, 0, 1, 1, 1]).html())
    assert "The 6 rows were divided into 2 groups of similar rows, compared in 2 columns (age, member)" in seen
    assert "age is much higher: 62 on average, 22 in the other rows." in seen
    assert "member is much more often 1: 100 % of its rows, 33 % of the other rows." in seen
    assert "4 times" in seen
    assert "100 % of the rows were in the same group" in seen
    assert "1 row is below 50 %" in seen
    assert "Not used: who (text that differs in every row, such as names)" in seen
    assert "transduce cluster dataset=table n_clusters=3" in seen


def test_what_the_computer_was_told_is_said_and_names_are_beside_the_numbers(tmp_path, ages):
    labels, classes = [1, 1, 1, 0, 0, 2], np.array(["young"] * 3 + ["old"] * 3)
    told = {"given": ["the groups of 2 rows", "of 3 pairs of rows whether they belong together"]}
    seen = text(found(tmp_path, ages, labels, classes=classes, names=["<old>", "young"], **told).html())
    assert (
        "The method was given the groups of 2 rows, and of 3 pairs of rows whether they belong together; for the other"
        in seen
    )
    assert "The method used only these columns" not in seen
    assert "classes were not used" not in seen
    assert "random start with the same given knowledge" in seen
    assert "Group 0 (<old>): 2 rows" in seen
    assert "Group 2: 1 row" in seen
    seen = text(found(tmp_path, ages, labels, classes=classes).html())
    assert "The method used only these columns" in seen
    assert "The classes were not used to find the groups." in seen


def test_known_classes_lost_groups_and_silent_methods(tmp_path, ages):
    nothing = np.full(6, np.nan)
    classes = np.array(["young"] * 3 + ["old"] * 3)
    labels = [1, 1, 1, 1, 0, 0]
    seen = text(found(tmp_path, ages, labels, confidence=nothing, clusters=3, others=[], classes=classes).html())
    assert "3 groups were requested, but 1 of them has no rows" in seen
    assert "class group 1 group 0 old 1 2 young 3 0" in seen
    assert "This method does not report how clearly" in seen
    assert "The method was run once" in seen


def test_rows_in_no_group(tmp_path, ages):
    others = [np.array([0, 0, -1, 1, 1, 1])]
    page = found(tmp_path, ages, [0, 0, -1, 1, 1, 1], others=others).html()
    assert "divided into 2 groups" in text(page)
    assert "1 row is in no group" in text(page)
    assert "100 % of the rows were in the same group" in text(page)
    assert "Group -1" not in page


def test_groups_that_depend_on_the_start_come_with_advice(tmp_path, ages):
    labels, other = [0, 0, 0, 1, 1, 1], np.array([0, 1, 0, 1, 0, 1])
    assert "method=other" not in text(found(tmp_path, ages, labels).html())
    seen = text(found(tmp_path, ages, labels, others=[other] * 3).html())
    assert "67 % of the rows" in seen
    assert "not stable" in seen
    assert "method=other" in seen


def test_nothing_is_loaded_and_no_cell_is_trusted(tmp_path, ages):
    bad = "<script>alert(1)</script>"
    frame = ages.rename(columns={"age": bad}).assign(who=[bad] * 6)
    page = found(
        tmp_path, frame, [0, 0, 0, 1, 1, 1], method=bad, command=Command(bad, [bad]), output=bad, facts={bad: bad}
    ).html()
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_categories_are_described_by_their_shares_and_dates_as_dates(tmp_path, ages):
    frame = ages.assign(job=["cook"] * 3 + ["clerk"] * 3, since=["2020-01-01", "2020-01-03"] * 3)
    frame.loc[3:, "since"] = ["2021-05-01", "2021-05-02", "2021-05-03"]
    seen = text(found(tmp_path, frame, [0, 0, 0, 1, 1, 1]).html())
    assert "in 4 columns (age, member, job, since)" in seen
    assert "job is much more often clerk: 100 % of its rows, 0 % of the other rows." in seen
    assert "since is much later: 2021-05-02 on average, 2020-01-01 in the other rows." in seen
    assert "Used as categories: job ." in seen
    assert "Used as dates, in days since 1970-01-01: since ." in seen


@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 1]])
def test_unusual_groups(tmp_path, ages, labels):
    page = found(tmp_path, ages, labels).html()
    assert page.count('<section class="group"') == len(set(labels))


def test_the_picture_of_many_rows_stays_small(tmp_path):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(5000, 3)), columns=list("abc"))
    page = found(tmp_path, frame, generator.integers(0, 9, 5000).tolist()).html()
    assert len(page) < 300_000
    assert f"{DOTS:,} rows" in page


@given(st.floats(-3, 3), st.floats(0, 1))
def test_words_go_with_the_sign_and_the_size(difference, share):
    phrase = compared(Trait("age", 2, 1, difference), Kind("age"))
    assert ("higher" in phrase.words) == (difference >= 0.2)
    assert ("lower" in phrase.words) == (difference <= -0.2)
    assert ("much" in phrase.words) == (abs(difference) >= 0.8)
    assert (percent(share) == "0 %") == (share == 0)
    assert (percent(share) == "100 %") == (share == 1)


NUMBERS = {name: Kind(name) for name in ("age", "size")}


def test_a_group_like_the_others_is_given_no_traits():
    profile = Profile(0, 1, 0.5, (Trait("age", 1, 1, 0.1),), ())
    assert described(profile, NUMBERS) == []
    strong = Profile(0, 1, 0.5, (Trait("age", 1, 1, 2.0), Trait("size", 1, 1, -0.3)), ())
    assert in_a_line(described(strong, NUMBERS)) == "much higher age"  # what is slight is left out beside it


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (52_134.4, "52,134"), (2019.2, "2019"), (-3.14159, "-3.14"), (0.00001, "1.0e-05")]
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown
