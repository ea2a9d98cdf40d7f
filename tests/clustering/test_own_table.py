"""Tables of one's own as data sets: which columns are used, in what scale, and what is said of those that cannot be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clustering.datasets.dataset import check
from clustering.datasets.table import Table
from clustering.errors import InputError

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
    np.testing.assert_allclose(found.values.std(axis=0), 1, atol=1e-6)
    assert found.class_names == ("Oslo", "Rome")
    assert found.labels.tolist() == [1, 0, 1]
    contents = read.contents()
    assert contents.values[:, 0].tolist() == [30, 50, 40]
    assert contents.left_out == {"number": "counts the rows", "same": "the same in every row"}
    assert Table(path=table()).contents().left_out["city"] == "text, or no values"


def test_columns_by_name_and_as_they_are(table):
    found = Table(path=table(), columns=("income", "number"), scale=None).read()
    assert found.values.tolist() == [[5e4, 1], [3e4, 2], [4e4, 3]]
    assert found.labels is None
    named = table(ROWS.replace("age", "2024"))
    assert Table(path=named, columns=(2024,)).read().columns == ("2024",)  # as the command line gives it


def test_the_unit_of_a_column_does_not_matter(table):
    metres = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3.0, 1.0, 2.0]})
    first = Table(path=table(metres.to_csv(index=False))).read().values
    again = Table(path=table((metres * [1000, 0.01] + [7, -3]).to_csv(index=False))).read().values
    np.testing.assert_allclose(first, again, atol=1e-6)


def test_identity_is_of_the_content(table, tmp_path):
    first = Table(path=table()).source()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(Path(table()).read_bytes())
    assert Table(path=str(copy)).source() == first
    assert Table(path=table(ROWS.replace("30", "31"))).source() != first


@pytest.mark.parametrize(
    ("text", "fields", "words"),
    [
        (ROWS, {"columns": ("incom",)}, "'incom'.*'income'"),
        (ROWS, {"columns": ("city",)}, r"'city' .*row 1 \('Rome'\)"),
        (ROWS, {"columns": ("age", "same")}, "'same'"),
        (ROWS, {"columns": ("age", "age")}, "'age' .*twice"),
        (ROWS, {"columns": ("age",), "label": "age"}, "'age' .*label"),
        (ROWS, {"label": "town"}, "'town'"),
        (ROWS, {"scale": "robust"}, "scale"),
        (ROWS.replace("3e4", ""), {}, "'income' .*row 2.*columns=age,flag"),
        (ROWS.replace("3e4", "inf"), {}, "'income' .*inf .*row 2"),
        (ROWS.replace("3e4", "n/a").replace("5e4", "?"), {}, "row 1.*2 of 3 rows"),
        (ROWS.replace("Oslo", ""), {"label": "city"}, "'city' .*row 2"),
        ("a,b\nx,y\nz,w\n", {}, "no column .*'a'"),
        ("a,b\n1,2\n", {}, "one row"),
        ("a\n1\n3\n", {"label": "a"}, "label alone"),
    ],
)
def test_what_cannot_be_used_says_why(table, text, fields, words):
    with pytest.raises(InputError, match=words):
        Table(path=table(text), **fields).read()


def test_no_file(tmp_path):
    for ask in ("source", "read"):
        with pytest.raises(InputError, match="path=FILE"):
            getattr(Table(), ask)()
        with pytest.raises(InputError, match=r"none\.csv"):
            getattr(Table(path=str(tmp_path / "none.csv")), ask)()
