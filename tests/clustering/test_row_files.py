"""Tables in files: what is read is what stands there, what is written is what was read, and what cannot be says why."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.files.tables import read_table
from clustering.foundation.errors import InputError

TEXT = 'id,name,size\n007,"a, b",1.50\n008,c,-2e3\n'


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    return path


def test_csv_is_written_as_it_was_read(csv_file, tmp_path):
    rows = read_table(csv_file)
    assert rows.names == ["id", "name", "size"]
    assert rows.numbers("size").tolist() == [1.5, -2000]
    out = rows.save(tmp_path / "out.csv", {"cluster": np.array([1, 0]), "confidence": np.array([0.5, np.nan])})
    assert out.read_text() == 'id,name,size,cluster,confidence\n007,"a, b",1.50,1,0.5\n008,c,-2e3,0,\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "t.csv"]  # nothing is left beside it


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.text("ab,;\"' \t0", max_size=5), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    ),
    st.sampled_from(",;\t"),
)
def test_cells_come_out_as_they_went_in(tmp_path_factory, cells, delimiter):
    folder = tmp_path_factory.mktemp("csv")
    frame = pd.DataFrame(cells, columns=["first", "second"])
    frame.to_csv(folder / "in.csv", sep=delimiter, index=False)
    rows = read_table(folder / "in.csv")
    assert rows.delimiter == delimiter
    np.testing.assert_array_equal(rows.numbers("second"), frame["second"])
    again = read_table(rows.save(folder / "out.csv", {"cluster": np.arange(len(frame))}))
    assert again.rows["first"].tolist() == frame["first"].tolist()
    assert again.rows["second"].tolist() == rows.rows["second"].tolist()
    assert again.numbers("cluster").tolist() == list(range(len(frame)))


def test_other_ways_to_write_a_table(tmp_path):
    (tmp_path / "excel.csv").write_bytes("\ufeffgröße;preis\r\n1,5;3\r\n2;4\r\n".encode())
    excel = read_table(tmp_path / "excel.csv")
    assert excel.numbers("größe").tolist() == [1.5, 2]  # a comma is no delimiter there
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as file:
        file.write("a\tb\n1\t\n")
    packed = read_table(tmp_path / "t.tsv.gz")
    assert packed.numbers("a").tolist() == [1]
    assert np.isnan(packed.numbers("b")).all()
    assert not packed.numeric("b")
    (tmp_path / "index.csv").write_text(",a\n0,5\n1,6\n")
    assert read_table(tmp_path / "index.csv").names == ["", "a"]


def test_parquet_keeps_its_kinds(tmp_path):
    frame = pd.DataFrame(
        {"n": [1, 2], "flag": [True, False], "word": ["x", None], "day": pd.to_datetime(["2020-01-01"] * 2)}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    rows = read_table(tmp_path / "t.parquet")
    assert rows.numbers("flag").tolist() == [1, 0]
    assert [name for name in rows.names if rows.numeric(name)] == ["n", "flag"]
    for name in ("word", "day"):
        with pytest.raises(InputError, match=rf"'{name}' .*row 1"):
            rows.numbers(name)
    out = rows.save(tmp_path / "o.parquet", {"cluster": np.array([0, 1])})
    pd.testing.assert_frame_equal(pd.read_parquet(out).drop(columns="cluster"), frame)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.xlsx", b"PK", ["t.xlsx", "CSV UTF-8"]),
        ("t.csv", b"", ["no rows"]),
        ("t.csv", b"a,b\n", ["no rows"]),
        ("t.csv", b"1,2\n3,4\n", ["numbers"]),
        ("t.csv", b"a,a\n1,2\n", ["'a'"]),
        ("t.csv", b"a,b\n1,2,3\n", ["2 names"]),
        ("t.csv", b"# of 2024\na,b\n1,2\n", ["above the header"]),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", ["CSV", "line 3"]),
        ("t.csv", b"a,,\n1,2,3\n", ["two columns have no name"]),
        ("t.csv", b"a,b\n1,2\n3,\0\n", ["line 3 has a NUL byte"]),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), ["UTF-8"]),
        ("t.csv", ",".join(f"c{i}" for i in range(100_000)).encode(), ["100,000 columns", "10,000"]),
        ("t.csv", "a,ü\n1,2\n".encode("latin-1"), ["UTF-8"]),
        ("t.parquet", b"junk", ["Parquet"]),
        ("t.npz", b"junk", ["must be a table"]),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    for word in words:
        with pytest.raises(InputError, match=word):
            read_table(tmp_path / name)


def test_wrong_columns_name_the_nearest(csv_file):
    with pytest.raises(InputError, match=r"'sizes'.* 'size'"):
        read_table(csv_file).numbers("sizes")
    with pytest.raises(InputError, match=r"'name' .*row 1 \('a, b'\)"):
        read_table(csv_file).numbers("name")
    with pytest.raises(InputError, match="no file"):
        read_table(csv_file.with_name("other.csv"))
    csv_file.write_text("\n".join(["a", *map(str, range(1500)), "many", "3"]))
    with pytest.raises(InputError, match=r"row 1501 \('many'\)"):
        read_table(csv_file).numbers("a")


def test_output_is_refused_before_anything_is_lost(csv_file, tmp_path):
    rows = read_table(csv_file)
    for path, word in (
        (csv_file, "the table itself"),
        (tmp_path / "o.parquet", "ends with"),
        (tmp_path / "no" / "o.csv", "no folder"),
    ):
        with pytest.raises(InputError, match=word):
            rows.check_output(path, ["cluster"])
    with pytest.raises(InputError, match="already has a column 'size'"):
        rows.check_output(tmp_path / "o.csv", ["size"])
    assert csv_file.read_text() == TEXT


def test_text_that_is_added_is_no_formula_and_the_file_stays_as_it_is(tmp_path):
    """The cells of a person's own file are theirs: a formula among them, blanks, a quote, a line end of either kind."""
    cells = ["=1+1", " 007", 'a "b"', "x\ny", "x\ry", "@me", "", "end"]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["own"], *([cell] for cell in cells)])
    rows = read_table(tmp_path / "t.csv")
    added = ["=1+1", "+x", "-x", "@x", "-1", "plain", "\tx", "\n=1"]
    out = rows.save(tmp_path / "o.csv", {"cluster": np.array(added)})
    with out.open(newline="") as file:
        lines = list(csv.reader(file))[1:]
    assert [line[0] for line in lines] == cells
    assert [line[1] for line in lines] == ["'=1+1", "'+x", "'-x", "'@x", "-1", "plain", "'\tx", "'\n=1"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_without_a_value_to_add_come_out_empty(tmp_path, ending):
    path, frame = tmp_path / f"t.{ending}", pd.DataFrame({"a": [5, 6, 7]})
    getattr(frame, f"to_{ending}")(path, **({"index": False} if ending == "csv" else {}))
    rows = np.array([0, 2])
    added = {"cluster": np.array([1, 0]), "name": np.array(["x", "y"]), "sure": np.array([0.5, 1], dtype=np.float32)}
    out = read_table(path).save(tmp_path / f"o.{ending}", added, rows)
    if ending == "csv":
        assert out.read_text() == "a,cluster,name,sure\n5,1,x,0.5\n6,,,\n7,0,y,1.0\n"
        return
    found = pd.read_parquet(out)
    assert found["a"].tolist() == [5, 6, 7]
    assert [value for value in found["cluster"].tolist() if not pd.isna(value)] == [1, 0]
    assert found["name"].tolist()[::2] == ["x", "y"]
    assert np.isnan(found["sure"][1])
