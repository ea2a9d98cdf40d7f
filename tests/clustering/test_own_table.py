"""Tables of one's own as data sets: which columns are used, in what scale, and what is said of those that cannot be."""

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clustering.datasets.dataset import check
from clustering.datasets.table import Table
from clustering.foundation.errors import InputError
from runs.config.overrides import of_field

ROWS = "number,age,income,flag,city,same\n1,30,5e4,1,Rome,7\n2,50,3e4,0,Oslo,7\n3,40,4e4,0,Rome,7\n"


@pytest.fixture
def table(tmp_path):
    def written(text: str = ROWS) -> str:
        (tmp_path / "people.csv").write_text(text)
        return str(tmp_path / "people.csv")

    return written


def test_columns_of_numbers_that_tell_something_are_used(table):
    read = Table(path=table(), label="city")
    found = check("table", read.read())
    assert found.columns == ("age", "income", "flag")
    np.testing.assert_allclose(found.values.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found.values.var(axis=0), [1, 1, 0.5], atol=1e-6)
    assert found.class_names == ("Oslo", "Rome")
    assert found.labels.tolist() == [1, 0, 1]
    contents = read.contents()
    assert contents.values[:, 0].tolist() == [30, 50, 40]
    assert {name: reason.why for name, reason in contents.left_out.items()} == {
        "number": "counts the rows",
        "same": "the same in every row",
    }
    assert Table(path=table()).contents().columns == ("age", "income", "flag", "city")


def test_copies_of_rows_do_not_make_their_number_a_feature(table):
    lines = [f"{row},{row % 7},{row % 5}" for row in range(60)]
    contents = Table(path=table("\n".join(["id,a,b", *lines, *lines[:3]]))).contents()
    assert contents.left_out["id"].why == "counts the rows"


def test_columns_by_name_and_as_they_are(table):
    found = Table(path=table(), columns=("income", "number"), scale=None).read()
    assert found.values.tolist() == [[5e4, 1], [3e4, 2], [4e4, 3]]
    assert found.labels is None
    named = table(ROWS.replace("age", "2024"))
    assert Table(path=named, columns=(2024,)).read().columns == ("2024",)  # as the command line gives it


@pytest.mark.parametrize(
    ("text", "fields", "words"),
    [
        (ROWS, {"columns": ("age", "same")}, "'same'"),
        (ROWS, {"columns": ("age", "age")}, "'age' .*twice"),
        (ROWS, {"columns": ("age",), "label": "age"}, "'age' .*label"),
        (ROWS, {"scale": "robust"}, "scale"),
        (ROWS.replace("3e4", ""), {"missing": "error"}, "'income' .*row 2.*columns=age,flag"),
        (ROWS.replace("3e4", "inf"), {}, "'income' .*inf .*row 2"),
        (ROWS.replace("3e4", "n/a").replace("5e4", "?"), {"missing": "error"}, "row 1.*2 of 3 rows"),
        (ROWS.replace("Oslo", ""), {"label": "city"}, "'city' .*row 2"),
        ("a,b\nx,y\nz,w\n", {}, "no column .*'a'"),
        ("a,b\n1,2\n", {}, "one row"),
        ("a\n1\n3\n", {"label": "a"}, "only the label"),
        ("a,b\n1,yes\n3,\n4,yes\n", {"columns": ("b",), "missing": "median"}, "'b' .*has a value.*write no"),
        (ROWS.replace("3,40", "x,40"), {"columns": ("number",)}, "'number' .* differs in every row.*row 3 has 'x'"),
        ("a,b\n1,2\n3,\n,4\n", {"missing": "drop"}, "every row but one lacks a value.*missing=median"),
        ("a,b\n1,2\n3,\n,4\n", {"missing": "error"}, "missing=median .*missing=drop"),
    ],
)
def test_what_cannot_be_used_says_why(table, text, fields, words):
    with pytest.raises(InputError, match=words):
        Table(path=table(text), **fields).read()


def column(frame: dict, tmp_path: Path, **fields) -> tuple:
    """The columns used and the contents of a table with one column of numbers besides."""
    path = tmp_path / "t.csv"
    rows = len(next(iter(frame.values())))
    pd.DataFrame({"n": np.arange(rows) ** 2, **frame}).to_csv(path, index=False)
    contents = Table(path=str(path), **fields).contents()
    return contents.columns, contents


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["ann", "bob", "cid", "dee"] * 15, None),
        ([f"id{i}" for i in range(60)], "differs in every row"),
        ([f"w{i % 55}" for i in range(60)], "55 different values, at most 50"),
        ([""] * 60, "no values"),
        (["3/4/2020", "5/6/2020"] * 30, "ambiguous dates such as '3/4/2020'"),
        (["3/4/2020", "5/6/2020"] * 29 + ["none", "5/6/2020"], "ambiguous dates such as '3/4/2020'"),
        (
            ["2020-02-01", "none"] * 20 + ["2020-04-01"] * 19 + ["soon"],
            "1 of 40 cells is not a date, first 'soon' in row 60",
        ),
        (["2020-02-01", "2020-03-05"] * 29 + ["2020-04-01", "soon"], "'soon' in row 60"),
        (
            [*map(str, range(16)), "forty", *map(str, range(43))],
            "1 of 60 cells is not a number, first 'forty' in row 17",
        ),
        (["a"] * 60, "the same in every row"),
        (["yes", ""] * 30, "the same in every row that has a value"),
    ],
)
def test_text_is_categories_unless_there_is_a_reason(tmp_path, cells, why):
    columns, contents = column({"x": cells}, tmp_path)
    assert ("x" in columns) == (why is None)
    assert why is None or why in contents.left_out["x"].why
    if why is not None and " in row " in why:
        assert contents.left_out["x"].mistakes
        assert "missing=" in contents.left_out["x"].why
        with pytest.raises(InputError, match=f"'x' .*{why}"):
            column({"x": cells}, tmp_path, columns=("x",))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1970-01-02", "1971-01-01", "1969-12-31"], [1, 365, -1]),
        (["1.2.1970", "31.1.1970", "2.1.1970"], [31, 30, 1]),
        (["31/1/1970", "1/2/1970", "2/1/1970"], [30, 31, 1]),
        (["1/31/1970", "2/1/1970", "1/2/1970"], [30, 31, 1]),
        (["1970-01-01 12:00", "1970-01-02 00:00", "1970-01-03 06:00:00"], [0.5, 1, 2.25]),
    ],
)
def test_dates_are_days(tmp_path, cells, expected):
    _, contents = column({"when": cells}, tmp_path, columns=("when",))
    assert contents.features[0].kind == "dates"
    np.testing.assert_allclose(contents.values[:, 0], expected)


def test_dates_of_parquet_and_nested_values(tmp_path):
    frame = pd.DataFrame({"n": [1, 5, 7], "day": pd.to_datetime(["2020-01-01", "2020-01-03", None])})
    frame["plain"] = [stamp.date() for stamp in pd.to_datetime(["2020-01-01", "2020-01-03", "2020-01-05"])]
    frame["list"], frame["record"] = [[1], [2, 3], []], [{"a": 1}, {"a": 2}, {"a": 3}]
    frame["yes"] = pd.array([True, None, False], dtype="object")
    frame["kind"] = pd.Categorical(["x", "y", "x"])
    frame.to_parquet(tmp_path / "t.parquet")
    contents = Table(path=str(tmp_path / "t.parquet"), missing="mean").contents()
    assert contents.columns == ("n", "day", "plain", "yes", "kind")
    np.testing.assert_allclose(contents.values[:, 1] - contents.values[0, 1], [0, 2, 1])
    assert contents.values[:, 3].tolist() == [1, 0.5, 0]
    assert "nor text" in contents.left_out["list"].why
    assert contents.filled == {"day": 1, "yes": 1}


def test_a_column_of_categories_has_half_the_variance_of_one_of_numbers(tmp_path):
    """One-hot columns, each in its own standard deviation, would count a column once for each of its categories."""
    generator = np.random.default_rng(0)
    word, other = generator.choice(list("abcde"), 200), generator.choice(["no", "yes"], 200)
    _, contents = column({"word": word, "other": other}, tmp_path)
    table = Table(path=str(contents.file.path))
    points = table.points(contents)
    np.testing.assert_allclose(np.bincount(contents.column_of, points.var(axis=0)), [1, 0.5, 0.5])
    # two categories are as far apart as the two values of a column of 0 and 1
    first, second = points[other == "no"][0, -2:], points[other == "yes"][0, -2:]
    assert np.linalg.norm(first - second) == pytest.approx(0.5**0.5 / (other == "yes").std())
    coded = Table(path=str(contents.file.path), columns=("n",)).points
    assert coded(column({"n": (other == "yes").astype(int)}, tmp_path, columns=("n",))[1]).var() == pytest.approx(0.5)


def test_a_category_does_not_outweigh_ten_columns_of_numbers(tmp_path):
    from clustering import KMeans, metrics

    generator = np.random.default_rng(0)
    sex = generator.choice(["f", "m"], 400)
    _, contents = column({"sex": sex, **{f"x{i}": generator.normal(size=400) for i in range(10)}}, tmp_path)
    points = Table(path=str(contents.file.path)).points(contents)
    assert metrics.ari(sex, KMeans(2, random_state=0).fit(points).labels_) < 0.1


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([*range(20, 79), 999], "'x' has 999 in row 60, and 20 to 78 elsewhere"),
        ([-999, *(0.1 * i for i in range(59))], "-999 in row 1"),
        ([*range(950, 1009), 999], ""),
        (["North", "north ", "South"] * 20, "'North' and 'north', which differ only"),
        ([*range(59), 58], ""),
    ],
)
def test_what_may_be_a_mistake_is_named(tmp_path, cells, told):
    _, contents = column({"x": cells}, tmp_path)
    assert [told in remark for remark in contents.remarks] == [True] * bool(told)
    rows = pd.read_csv(contents.file.path).iloc[[*range(60), 3]]
    rows.to_csv(tmp_path / "t.csv", index=False)
    assert "2 rows agree with others" in Table(path=str(tmp_path / "t.csv")).contents().remarks[-1]


def test_gaps_are_filled_by_default_and_times_keep_their_digits(tmp_path):
    _, contents = column({"x": [1.0, None, 4.0, 9.0, 4.0], "full": [3, 1, 2, 2, 3]}, tmp_path)
    assert contents.values[1, 1] == 4
    with pytest.raises(InputError, match=r"column 'x' has no value in row 2. .*missing=median"):  # of more than a fifth
        column({"x": [1.0, None, 4.0, None, 4.0], "full": [3, 1, 2, 2, 3]}, tmp_path)
    _, contents = column({"x": [1.0, None, 4.0, 9.0, 4.0], "full": [3, 1, 2, 2, 3]}, tmp_path)
    assert (contents.filled, contents.filled_by, contents.complete) == ({"x": 1}, "median", "n,full")
    times = 1_700_000_000_000 + np.arange(9) ** 2
    _, contents = column({"time": times}, tmp_path, columns=("time",))
    assert Table(path=str(contents.file.path), columns=("time",), scale=None).read().values[:, 0].tolist() == [*times]


@pytest.mark.parametrize(
    "cells",
    [
        ["980", "1.020"],
        ["5 kg", "12 kg"],
        ["\u22121.5", "3"],
        ["1,020", "980"],
        ["1.234,50"],
        ["20,50 €", "3 €"],
        ["$3"],
        ["12 %"],
        ["1 020", "3"],
        ["1'020"],
        ["(12)"],
    ],
)
def test_amounts_are_asked_about(tmp_path, cells):
    columns, contents = column({"price": (cells * 60)[:60]}, tmp_path)
    assert (columns, contents.left_out["price"].mistakes) == (("n",), True)
    assert "write them" in contents.left_out["price"].why


def test_files_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "~t.csv").write_text(ROWS)
    file = Table(path="~t.csv").contents().file
    assert file.check_output("~/out.csv", ["cluster"]) == tmp_path / "out.csv"


def test_advice_quotes_names_that_need_it(tmp_path):
    frame = {"a,b": [1, 5, 3, 2, 6], "null": [4, 1, 9, 3, 5], "gap": [1, None, 3, 2, 5]}
    frame |= {name: [2, 7, 1, 8, 2] for name in ("Temp [C]", "x]", " outer ", "it's")}
    _, contents = column(frame, tmp_path)
    assert contents.complete == "n,'a,b','null','Temp [C]','x]',' outer ','it''s'"
    used = tuple(name for name in contents.columns if name != "gap")
    assert of_field("columns", contents.complete, tuple[str, ...]) == [used]
    with pytest.raises(InputError, match="is quoted, also for the shell: 'a,b'"):
        column(frame, tmp_path, columns=("a", "b"))


def test_missing_values_are_dropped_or_filled(tmp_path):
    text = "a,b,word\n1,10,x\n2,,y\n,30,x\n9,40,\n5,20,x\n"
    (tmp_path / "t.csv").write_text(text)
    build = lambda **fields: Table(path=str(tmp_path / "t.csv"), **fields).contents()  # noqa: E731
    dropped = build(missing="drop", columns=("a", "b"))
    assert dropped.rows.tolist() == [0, 3, 4]
    mean, median, frequent = (build(missing=how) for how in ("mean", "median", "most_frequent"))
    assert mean.values[2, 0] == 17 / 4
    assert median.values[2, 0] == 3.5
    assert frequent.values[2, 0] == 1
    for found in (mean, median, frequent):
        assert [feature.name for feature in found.features] == ["a", "b", "word = x", "word = y"]
        assert found.values[3, 2:].tolist() == [1, 0]  # the most frequent word
        assert found.filled == {"a": 1, "b": 1, "word": 1}
        assert len(found.rows) == 5


def test_one_long_cell_does_not_cost_its_memory_in_every_row(tmp_path):
    rows = 2000
    notes = ["x y " * 5000, *(f"note {i}" for i in range(1, rows))]
    (tmp_path / "t.csv").write_text("\n".join(["age,note", *(f"{i % 60},{note}" for i, note in enumerate(notes))]))
    tracemalloc.start()
    contents = Table(path=str(tmp_path / "t.csv")).contents()
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()
    assert "differs in every row" in contents.left_out["note"].why
