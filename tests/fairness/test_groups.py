"""Sensitive features: every form in which people have them, tables with such columns, targets, and what cannot be."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fairness.datasets.table import NOT_GIVEN, Table
from fairness.groups import groups_of


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


TEXT = "who,age,income,sex\nann,20,1.5,f\nbob,30,2.5,m\ncid,40,3,m\ndee,50,9,f\n"


@pytest.fixture
def table(tmp_path):
    def build(text=TEXT, **fields):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return Table(path=str(path), **{"sensitive": ("sex",), **fields})

    return build


def test_rows_are_clustered_by_numbers_and_fair_about_the_others(table):
    found = table().read()
    assert found.columns == ("age", "income")
    assert found.values.mean(axis=0) == pytest.approx(0)
    assert found.values.std(axis=0) == pytest.approx(1)
    assert {name: values.tolist() for name, values in found.sensitive.items()} == {"sex": ["f", "m", "m", "f"]}
    assert table(scale=None).read().values[:, 0].tolist() == [20, 30, 40, 50]


def test_rows_without_a_value(table):
    text = "a,sex,n\n1,f,1\n2,,2\n3, m ,\n4,?,1\n5,none,2\n"
    with pytest.raises(InputError, match=r"'sex' .*row 2; 2 of 5 rows .*missing_sensitive=own_group"):
        table(text).read()
    sex, n = table(text, sensitive=("sex", "n"), missing_sensitive="own_group").attributes().values()
    assert tuple(sex.categories) == ("f", "m", "none", NOT_GIVEN)
    assert sex.tolist() == ["f", NOT_GIVEN, "m", NOT_GIVEN, "none"]
    assert tuple(n.categories) == ("1", "2", NOT_GIVEN)
    assert n.tolist() == ["1", "2", NOT_GIVEN, "1", "2"]


def test_a_sensitive_column_is_clustered_by_where_it_is_named(table):
    by_age = table(sensitive=("age", "sex"))
    assert by_age.read().columns == ("income",)
    assert "sensitive" in by_age.contents().left_out["age"].why
    assert table(sensitive=("age",), columns=("age", "income")).read().columns == ("age", "income")


def test_numbers_are_groups_where_they_are_few_and_bins_where_asked(table):
    (few,) = table(sensitive=("age",)).attributes().values()
    assert tuple(few.categories) == ("20", "30", "40", "50")
    (halves,) = table(sensitive=("age",), bins=(2,)).attributes().values()
    assert tuple(halves.categories) == ("20 to 35", "36 to 50")
    assert halves.tolist() == ["20 to 35"] * 2 + ["36 to 50"] * 2
    (parts,) = table(sensitive=("age",), bins=(25, 60)).attributes().values()
    assert tuple(parts.categories) == ("up to 25", "26 to 60")
    text = "a,sex,age\n" + "".join(f"{i},{i % 2},{i}\n" for i in range(50))
    sex, age = table(text, sensitive=("sex", "age"), bins=(3,)).attributes().values()
    assert tuple(sex.categories) == ("0", "1")  # has no more numbers than bins
    assert len(age.categories) == 3


def test_rows_that_lack_a_value_are_left_out_of_groups_and_points_alike(table):
    text = "a,b,sex\n3,2,f\n1,,m\n4,4,\n1,1,m\n5,7,f\n"
    found = table(text, missing="drop", missing_sensitive="drop")
    assert found.contents().rows.tolist() == [0, 3, 4]
    assert [own.tolist() for own in found.attributes().values()] == [["f", "m", "f"]]
    assert found.read().values.shape == (3, 2)
    assert table(text, missing="mean", missing_sensitive="drop").contents().rows.tolist() == [0, 1, 3, 4]
    with pytest.raises(InputError, match="'b' has no value in row 2"):
        table(text, missing="error", missing_sensitive="drop").read()
    with pytest.raises(InputError, match=r"'sex' .*row 3"):
        table(text, missing="drop").read()
    (sex,) = (
        table(text.replace("4,4,", "4,,"), missing="drop").attributes().values()
    )  # a row that is left out may lack both
    assert sex.tolist() == ["f", "m", "f"]
    with pytest.raises(InputError, match=r"every row but one .*sensitive"):
        table("a,b,sex\n1,2,f\n2,3,\n3,1,\n", missing_sensitive="drop").contents()


def test_groups_are_in_the_order_of_their_numbers(table):
    """Not in that of their names, in which 10 comes before 2: shares without names follow the groups."""
    ages, debts = [2, 10, 9] * 4, [-5, 200, 900, 300] * 3
    text = "a,age,debt\n" + "".join(f"{i * 0.7},{ages[i]},{debts[i]}\n" for i in range(12))
    built = table(text, sensitive=("age", "debt"), bins=(0, 500))
    found = built.read()
    groups = groups_of(found.sensitive, 12)
    assert groups.names == tuple(name for own in built.attributes().values() for name in own.categories)
    assert groups.names == ("2", "9", "10", "up to 0", "1 to 500", "over 500")
    crossed = groups_of(found.sensitive, 12, intersectional=True)
    assert [names[0] for names in crossed.names] == sorted((names[0] for names in crossed.names), key=int)
    age = {"age": found.sensitive["age"]}
    with pytest.warns(UserWarning, match="the target of"):
        own = groups_of(age, 12, target=[0.2, 0.3, 0.5])
    assert dict(zip(own.names, own.target, strict=True)) == pytest.approx({"2": 0.2, "9": 0.3, "10": 0.5})


@pytest.mark.parametrize(
    ("text", "fields", "words"),
    [
        (TEXT, {"sensitive": ()}, "sensitive=COLUMN, .*who, age, income, sex"),
        (TEXT, {"sensitive": ("sax",)}, "'sex'"),
        (TEXT, {"sensitive": ("sex", "sex")}, "twice"),
        (TEXT.replace("m", "f"), {}, "'f' in every row"),
        ("a,g\n1,\n2,\n", {"sensitive": ("g",), "missing_sensitive": "own_group"}, "no values"),
        ("a,g\n" + "".join(f"{i},{i}\n" for i in range(21)), {"sensitive": ("g",)}, "21 different.*bins=4"),
        ("a,g\n" + "".join(f"{i},0\n" for i in range(90)) + "".join(f"{i},{i}\n" for i in range(9)),
         {"sensitive": ("g",), "bins": (2,)}, "in every row"),
        ("a,sex\n1,f\nx,m\n", {"columns": ("a",)}, "'a' .*row 2 .*'x'"),
        ("sex,old\nf,y\nm,n\n", {}, "no column"),
        ("a,sex\n", {}, "no rows"),
        (TEXT.replace("30", "inf"), {"sensitive": ("age",), "bins": (2,)}, "infinite in row 2"),
        (TEXT, {"bins": (1,)}, "bins=1"),
        (TEXT, {"bins": (3, 2)}, "increasing"),
        (TEXT, {"missing_sensitive": "mean"}, "missing_sensitive"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_says_why(table, text, fields, words):
    with pytest.raises(InputError, match=words):
        table(text, **fields).read()


SPELT = "a,sex\n1,Female\n2,female \n3,Male\n4,Female\n5,FEMALE\n"


def test_groups_in_several_spellings_are_asked_about(table):
    with pytest.raises(
        InputError, match=r"'sex' has 'Female' \(2\) and 'FEMALE' \(1\).*spellings=merge.*spellings=keep"
    ):
        table(SPELT).read()
    (merged,) = table(SPELT, spellings="merge").attributes().values()
    assert tuple(merged.categories) == ("Female", "Male")
    assert merged.tolist() == ["Female", "Female", "Male", "Female", "Female"]
    (kept,) = table(SPELT, spellings="keep").attributes().values()
    assert tuple(kept.categories) == ("FEMALE", "Female", "Male", "female")


def test_bins_of_a_column_with_a_cell_that_is_no_number_are_refused(table):
    ages = "".join(f"{age},{age % 3},{'fm'[age % 2]}\n" for age in range(20, 50))
    text = f"age,x,sex\n{ages}forty,1,f\n"
    for bins in ((3,), ()):
        with pytest.raises(InputError, match=r"'age'.*'forty' in row 31"):
            table(text, sensitive=("age",), bins=bins).attributes()
    mended = table(text.replace("forty", ""), sensitive=("age",), bins=(3,), missing_sensitive="drop")
    assert len(mended.attributes()) == 1
