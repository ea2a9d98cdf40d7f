"""Sensitive features: every form in which people have them, targets, and what cannot be."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness.groups import groups_of, smallest_group


@pytest.mark.parametrize(
    "form",
    [
        ["b", "a", "b", "c"],
        np.array(["b", "a", "b", "c"]),
        pd.Series(["b", "a", "b", "c"], index=[7, 3, 5, 1]),
        pd.Series(["b", "a", "b", "c"], dtype="category"),
        pd.DataFrame({"sex": ["b", "a", "b", "c"]}),
        {"sex": ["b", "a", "b", "c"]},
        np.array([["b"], ["a"], ["b"], ["c"]]),
    ],
)
def test_one_attribute_in_every_form(form):
    groups = groups_of(form, 4)
    assert groups.names == ("a", "b", "c")
    assert groups.cells.tolist() == [1, 0, 1, 2]
    assert groups.sizes.tolist() == [1, 2, 1]
    assert groups.target.tolist() == [0.25, 0.5, 0.25]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([3, 1, 2]), st.booleans()), min_size=1, max_size=30))
def test_cells_tell_the_groups_of_every_attribute(rows):
    frame = pd.DataFrame(rows, columns=["sex", "race", "old"])
    groups = groups_of(frame, len(rows))
    for p, row in enumerate(rows):
        own = np.flatnonzero(groups.membership[groups.cells[p]])
        assert [groups.names[j] for j in own] == list(row)
        assert [groups.attributes[groups.attribute_of[j]] for j in own] == ["sex", "race", "old"]
    assert len(groups.membership) == len(set(rows))
    for attribute in range(3):
        assert groups.target[groups.attribute_of == attribute].sum() == pytest.approx(1)
    crossed = groups_of(frame, len(rows), intersectional=True)
    assert set(crossed.names) == set(rows)
    assert [crossed.names[cell] for cell in crossed.cells] == rows


def test_combinations_are_called_as_people_write_them():
    rows = {"sex": ["man", "woman", "man"], "region": ["north", "north", "south"]}
    shares = {"man / north": 0.5, "man / south": 0.2, "woman / north": 0.3}
    with pytest.warns(UserWarning, match="differs from the shares in the data"):
        groups = groups_of(rows, 3, intersectional=True, target=shares)
    assert groups.labels() == tuple(shares)
    assert groups.target.tolist() == list(shares.values())
    with pytest.raises(InputError, match=r"'woman / north'.*\['man / north', "):
        groups_of(rows, 3, intersectional=True, target={"man / north": 0.5, "man / south": 0.5})
    with pytest.raises(InputError, match="'man / east'"):
        groups.of_others({"sex": ["man"], "region": ["east"]}, 1)


def test_missing_values_are_refused():
    for values in (["a", None, "b"], [1.0, np.nan, 2.0], pd.Series(["a", pd.NA, "b"], dtype="string")):
        with pytest.raises(InputError, match=r"1 of 3 rows.*row 1.*fillna"):
            groups_of(values, 3)


def test_bins_of_pandas_are_groups_in_order():
    groups = groups_of({"age": pd.qcut([20.0, 90.0, 5.0, 7.0], 2), "old": pd.Categorical([1, 10, 2, 1])}, 4)
    assert groups.labels()[:2] == ("age=(4.999, 13.5]", "age=(13.5, 90.0]")
    assert groups.sizes.tolist() == [2, 2, 2, 1, 1]
    with pytest.raises(InputError, match=r"101 different values.*pandas\.qcut"):
        groups_of(np.arange(101), 101)


def test_targets_by_order_and_by_name():
    values = list("aaab")
    assert groups_of(values, 4, target={"b": 0.25, "a": 0.75}).target.tolist() == [0.75, 0.25]
    with pytest.warns(UserWarning, match=r"at least 0\.1438"):
        assert groups_of(values, 4, target=[0.5, 0.5]).target.tolist() == [0.5, 0.5]
    both = groups_of({"x": values, "y": list("cdcd")}, 4, target={"y": [0.5, 0.5]})
    assert both.target.tolist() == [0.75, 0.25, 0.5, 0.5]


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (list("aab"), {"target": [0.5, 0.4]}, r"0\.9, not 1"),
        (list("aab"), {"target": {"a": 0.5, "b": 0.3, "c": 0.2}}, "'c'"),
        (list("aab"), {"target": [1.0, 0.0]}, "above 0"),
        (list("aab"), {"target": "even"}, "2 shares"),
        ({"x": list("aab"), "y": list("cdd")}, {"target": [0.5, 0.5]}, "several attributes"),
        ({"x": list("aab"), "y": list("cdd")}, {"target": {"z": [0.5, 0.5]}}, "'z'"),
        ({}, {}, "no columns"),
        ([["a"], ["b"], ["b", "c"]], {}, "different lengths"),
        (pd.DataFrame([[1, 2], [3, 4], [5, 6]], columns=["x", "x"]), {}, "same name"),
    ],
)
def test_what_cannot_be_is_said(values, options, words):
    with pytest.raises(InputError, match=words):
        groups_of(values, 3, **options)


def test_a_group_smaller_than_the_number_of_clusters_is_named():
    with pytest.raises(InputError, match=r"SomeMethod: .*'b' .*1 points.*small_groups='keep'"):
        smallest_group(groups_of(list("aaab"), 4), 2, "SomeMethod")
    smallest_group(groups_of(None, 1), 2, "SomeMethod")
