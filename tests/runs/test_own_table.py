"""`transduce cluster dataset=table`: rows in, the same rows with clusters and a page out; mistakes leave nothing."""

import errno
import json

import numpy as np
import pandas as pd
import pytest

from runs.cli import main


@pytest.fixture
def people(tmp_path):
    """Sixty people of two kinds, whose heights and ages tell them apart."""
    generator = np.random.default_rng(0)
    kind = np.repeat(["child", "adult"], 30)
    height = np.where(kind == "child", 110, 172) + generator.normal(0, 6, 60)
    age = np.where(kind == "child", 6, 40) + generator.normal(0, 2, 60)
    path = tmp_path / "people.csv"
    pd.DataFrame({"who": [f"{i:03}" for i in range(60)], "height": height, "age": age, "kind": kind}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture
def cluster(people, store, capsys):
    def call(*settings, path=people):
        code = main(["cluster", "dataset=table", f"path={path}", f"results={store.root}", *settings])
        return code, capsys.readouterr()

    return call


def test_the_same_rows_come_out_with_clusters_and_a_page(cluster, people, tmp_path):
    code, seen = cluster("n_clusters=2", "starts=3", f"output={tmp_path / 'out.csv'}")
    assert code == 0, seen.err
    before, after = (pd.read_csv(path, dtype={"who": str}) for path in (people, tmp_path / "out.csv"))
    pd.testing.assert_frame_equal(after[list(before.columns)], before)
    assert list(after.columns[-2:]) == ["cluster", "confidence"]
    assert after.groupby("kind")["cluster"].nunique().tolist() == [1, 1]
    assert after["cluster"].nunique() == 2
    assert after["confidence"].between(0.5, 1).all()
    page = (tmp_path / "out.html").read_text()
    assert "Typical rows" in page
    assert "3 times" in page
    assert f"path={people}" in page
    assert str(tmp_path / "out.csv") in seen.err
    (tmp_path / "out.html").unlink()
    code, seen = cluster("n_clusters=2", "starts=3", f"output={tmp_path / 'out.csv'}")
    assert "reused" in seen.out
    assert (tmp_path / "out.html").read_text() == page


def test_rows_are_kept_if_their_page_cannot_be_written(cluster, tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    assert cluster("n_clusters=2", "starts=1", f"output={output}")[0] == 0
    before = output.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("runs.own_data.page.write_text", full)
    code, seen = cluster("n_clusters=3", "starts=1", f"output={output}")
    assert (code, output.read_bytes()) == (2, before)
    assert "out.html: cannot be written (No space left on device)" in seen.err


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_clusters_have_the_names_of_known_labels(cluster, people, tmp_path, ending):
    table = pd.read_csv(people)[["height", "age"]]
    path = tmp_path / f"mine.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    (tmp_path / "known.csv").write_text("row,label\n1,zebra\n60,adult\n")
    output = tmp_path / f"out.{ending}"
    given = [f"labels={tmp_path / 'known.csv'}", "starts=1", f"output={output}"]
    code, seen = cluster(*given, path=path)
    assert code == 0, seen.err
    found = (pd.read_csv if ending == "csv" else pd.read_parquet)(output)["cluster"].tolist()
    assert found == ["zebra"] * 30 + ["adult"] * 30
    page = (tmp_path / "out.html").read_text()
    assert "0 (adult)" in page
    assert "1 (zebra)" in page
    assert "The method was given the groups of 2 rows." in page
    code, seen = cluster(*given, "n_clusters=3", path=path)
    assert code == 0, seen.err


def test_several_methods_write_beside_each_other(cluster, store):
    code, seen = cluster("n_clusters=2", "starts=2", "method=slk_means,slk_byproduct", "label=kind", "selection=null")
    assert code == 0, seen.err
    folder = store.root / "clusters"
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 4
    assert sorted({name.split("-")[1] for name in names}) == ["slk_byproduct", "slk_means"]
    code, seen = cluster("n_clusters=2", "starts=2", "label=kind", "selection=null", "--json")
    (record,) = json.loads(seen.out)
    assert record["acc_hungarian"] == 1
    assert record["rows"].endswith(".csv")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((), ["n_clusters=3"]),
        (("n_clusters=2", "columns=hight"), ["hight", "height"]),
        (("n_clusters=2", "columns=age,kind", "missing=zero"), ["missing", "drop"]),
        (("n_clusters=61",), ["60 distinct rows for 61 clusters"]),
        (("n_clusters=2", "output=out.parquet"), ["ends with .csv"]),
        (("n_clusters=2,3", "output=out.csv"), ["2 clusterings"]),
        (("n_clusters=2", "output=no/such/out.csv"), ["no folder"]),
        (("n_clusters=2", "label=sort"), ["sort"]),
    ],
)
def test_mistakes_are_told_before_anything_is_written(cluster, store, settings, words):
    before = list(store.root.rglob("*"))
    code, seen = cluster(*settings)
    assert code == 2
    for word in words:
        assert word in seen.err
    assert list(store.root.rglob("*")) == before


def test_values_that_are_missing_and_files_that_are_not_there(cluster, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,sex\n1,2,m\n3,nan,f\n5,6,m\n")
    code, seen = cluster("n_clusters=2", "missing=error", path=tmp_path / "t.csv")
    assert (code, "column 'b' has no value in row 2" in seen.err) == (2, True)
    code, seen = cluster("n_clusters=2", path=tmp_path / "none.csv")
    assert (code, "none.csv" in seen.err) == (2, True)
    (tmp_path / "again.csv").write_text("a,cluster\n1,2\n3,4\n")
    code, seen = cluster("n_clusters=2", path=tmp_path / "again.csv")
    assert (code, "already has a column 'cluster'" in seen.err) == (2, True)


@pytest.mark.parametrize("words", [("cluster", "dataset=spirals"), ("fair", "dataset=synthetic")])
def test_an_output_needs_a_table(tmp_path, capsys, words):
    assert main([*words, "output=x.csv", f"results={tmp_path}"]) == 2
    assert "dataset=table" in capsys.readouterr().err
