"""`transduce label` and `transduce next`, with piles of pictures and tables; kill -9, and two processes at once."""

import csv
import json
import os
import signal
import sys
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest

from fsl.backbones.names import PACKAGE
from runs.cli import main
from runs.labelling.next_items import read_labels
from runs.labelling.pile import Pile
from tests.runs.children import started


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A table of 40 rows in two groups, with texts and pictures."""
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    side = np.arange(40) % 2
    rows = (side[:, None] * 6 + generator.normal(size=(40, 5))).astype(np.float32)
    (tmp_path / "pictures").mkdir()
    for row in range(40):
        Image.fromarray(np.full((8, 8, 3), 255 * side[row], np.uint8)).save(tmp_path / "pictures" / f"{row:02d}.png")
    frame = pd.DataFrame({"text": [f"=row {row}" for row in range(40)], "image": sorted(os.listdir("pictures"))})
    frame["image"] = "pictures/" + frame["image"]
    frame["emb"] = list(rows)
    frame["side"] = np.array(["a", "b"])[side]
    frame.to_parquet("table.parquet")
    numbers = pd.DataFrame(rows, columns=[f"e{i}" for i in range(5)])
    pd.concat([frame[["text"]], numbers], axis=1).to_csv("table.csv", index=False)
    np.save("features.npy", rows)
    return tmp_path


def ends(capsys, *arguments, code=0):
    assert main(list(arguments)) == code, capsys.readouterr().err
    return capsys.readouterr()


def ids(text):
    return [row["id"] for row in csv.DictReader(text.splitlines())]


def labels_file(path, rows):
    path.write_text("id,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    "pile",
    [
        ("table.parquet", "--features", "emb"),
        ("table.parquet",),
        ("table.csv", "--features", "e*"),
        ("table.csv", "--features", "e0,e1,e2,e3,e4"),
        ("features.npy",),
    ],
)
def test_the_next_items_of_every_kind_of_pile(here, capsys, pile):
    labels = labels_file(here / "labels.csv", range(6))
    found = ids(ends(capsys, "next", pile[0], labels, *pile[1:], "-n", "4", "--csv").out)
    assert len(set(found)) == 4
    assert not {*found} & set("012345")
    rows = json.loads(ends(capsys, "next", *pile, f"labels={labels}", "-n", "4", "--json").out)
    assert [row["id"] for row in rows] == found
    assert all(row["predicted"] == "ab"[int(row["id"]) % 2] for row in rows)
    assert len(ids(ends(capsys, "next", *pile, "--csv").out)) == 20  # without labels


@pytest.mark.parametrize(
    "text",
    [
        "id;label\r\n0;a\r\n1;b\r\n",
        "\ufeffid;label\r\n0;a\r\n1;b\r\n",
        "sep=;\r\nid;label\r\n0;a\r\n1;b\r\n",
        "sep=\t\nid\tlabel\n0\ta\n1\tb\n",
        'note;id;label\n"a, b, c";0;a\n"d, e";1;b\n',
        '"note; or, none",id,label\n"x;y;z",0,a\n,1,b\n',
        "Item,Class\n0.0,a\n1.00,b\n",
        "Row,Class\n1,a\n2.0,b\n",  # rows are counted from 1, as in transduce cluster
        "label,id\na,0\nb,1\n,2\n",
    ],
)
def test_labels_as_spreadsheets_save_them(here, capsys, text):
    (here / "labels.csv").write_bytes(text.encode())
    said = ends(capsys, "next", "features.npy", "labels.csv", "-n", "38", "--json")
    rows = json.loads(said.out)
    assert {row["id"] for row in rows}.isdisjoint("01")
    assert {row["predicted"] for row in rows} == {"a", "b"}


@pytest.mark.parametrize(
    ("id", "stored"),
    [("e\u0301/\u00e0.png", "\u00e9/a\u0300.png"), ("sub\\4.png", "sub/4.png"), ("SUB/4.PNG", "sub/4.png")],
)
def test_ids_as_other_systems_write_them(here, id, stored):
    names = [f"{row}.png" for row in range(4)] + ["4.png", stored]
    pile = Pile("p", tuple(names), tuple(names), np.zeros((6, 1), np.float32), is_folder=True, pictures=[None] * 6)
    (here / "labels.csv").write_text(f"file,label\n{id},a\n")
    assert read_labels(here / "labels.csv", pile, []).tolist() == [-1] * 5 + [0]


def test_numbers_of_a_table_are_not_guessed(here, capsys):
    lines = [f"{row % 2},{row % 3};{1 + row % 5}.{row % 7}00" for row in range(30)]
    (here / "european.csv").write_text("a;b\n" + "\n".join(lines))
    assert len(ids(ends(capsys, "next", "european.csv", "--features", "a", "--csv").out)) == 20
    said = ends(capsys, "next", "european.csv", "--features", "a,b", code=2).err
    assert "column 'b' has values such as 1.000, whose mark may group thousands" in said
    (here / "american.csv").write_text('a,b\n1,"1,234"\n2,"5,678"\n')
    assert "column 'b' has text in row 1" in ends(capsys, "next", "american.csv", "--features", "*", code=2).err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_units_of_columns_do_not_matter(here, capsys, suffix):
    frame = pd.read_csv("table.csv")
    labels, found = labels_file(here / "labels.csv", range(6)), []
    for factor in (1, 1000):
        frame["e0"] *= factor
        frame.to_csv("other.csv") if suffix == "csv" else frame.to_parquet("other.parquet")
        found.append(ids(ends(capsys, "next", f"other.{suffix}", labels, "--features", "e0,e1,e2", "--csv").out))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "labels.csv: has no rows"),
        ("a,b\n1,2\n", "has columns a, b; required are columns row,label"),
        ("id,label\n0,a\n99,b\n", "line 3: row '99' is not one of 0..39"),
        ("id,label\n0,a\n0,b\n", "line 2 and line 3 are the same point"),
        ("sep=;\nid;label\n0;a\n99;b\n", "line 4: row '99' is not one of 0..39"),
        ('id;label\n0;"a\n1;b\n2;a\n', "a quote in line 2 is not closed"),
        ('id,label\n"0,a\n1,b\n2,a\n', "a quote in line 2 is not closed"),
        ("id,label\n0,a\n1,nan\n", "line 3: the label 'nan' may mean none; clear the cell"),
        ("id,label\n0,a\n1,None\n", "line 3: the label 'None' may mean none"),
        ("id,label\n0,a\n1,-1\n", "line 3: the label '-1' may mean none"),
        ("label,id\na,0\nb\n", "line 3: row '' is not one of"),
        ("id,label\n1 000,a\n", "line 2: row '1 000' is not one of"),
        ("id,label\n0,a\x07\n", "line 2: the name of a class must have 1 to 200 printable"),
    ],
)
def test_wrong_labels(here, capsys, text, message):
    (here / "labels.csv").write_text(text)
    assert message in ends(capsys, "next", "features.npy", "labels.csv", code=2).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no pile given"),
        (("nothing",), "nothing: no such file or folder"),
        (("pictures",), "no network given for the pictures"),
        (("table.parquet", "--features", "embedding"), "unknown column 'embedding'; did you mean"),
        (("table.parquet", "--features", "text"), "features"),
        (("table.parquet", "--show", "words"), "unknown column 'words'"),
        (("table.csv",), "which columns are features? Choose with --features"),
        (("table.csv", "--features", "text"), "column 'text' has text in row 1"),
        (("features.npy", "--show", "text"), "show= applies to a table"),
        (("features.npy", "--classes", "a,a"), "classes: the class name 'a' is given twice"),
        (("features.npy", "--port", "70000"), "port must be between 0 and 65535"),
        (("features.npy", "strategy=simpleshot,laplacianshot"), "label accepts one value of every key"),
        (("one.npy",), "one.npy: has 1 row; give at least two"),
        (("head.csv", "--features", "e0"), "head.csv: has no rows"),
        (("nan.npy",), "nan.npy: the features of row 1 are missing or infinite; remove it"),
        (("features.npy", "--classes", "x" * 300), "must have 1 to 200 printable characters"),
        (("features.npy", "--classes", "a\tb,c"), "must have 1 to 200 printable characters"),
        (("features.npy", "--classes", "names.txt"), "classes: names.txt: no such file"),
        (("features.npy", "--text-features", "one.npy"), "class names; add --classes a,b,c, or omit it"),
        (("features.npy", "strategy=transclip"), "strategy=transclip requires class names: add --classes a,b,c"),
        (("features.npy", "strategy=transductive_fine_tuning"), "trains the network, and only features are used"),
        (("a", "b", "c"), "'c': transduce label takes a pile and labels"),
        (("features.npy", "b.csv"), "labels: b.csv: no such file"),
    ],
)
def test_mistakes_end_at_once(here, capsys, monkeypatch, arguments, message):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    np.save("one.npy", np.ones((1, 5)))
    np.save("nan.npy", [[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    (here / "head.csv").write_text("id,e0\n")
    said = ends(capsys, "label", *arguments, code=2).err
    assert message in said
    assert "Traceback" not in said
    assert not list(here.glob("results/labelling/*/journal.jsonl"))


def test_pictures_outside_of_the_folder_of_a_table(here, capsys):
    (here / "outside").mkdir()
    frame = pd.read_parquet("table.parquet")
    frame["image"] = ["../pictures/00.png"] * 40
    frame.to_parquet("outside/table.parquet")
    said = ends(capsys, "label", "outside/table.parquet", "--features", "emb", "--show", "image", code=2).err
    assert "column 'image' names '../pictures/00.png' in row 0, outside of the folder of the table" in said


def test_class_names_with_features_label_a_pile_without_labels(here, capsys):
    rows = np.load("features.npy") - 3  # one group would be at the origin, where cosines say nothing
    np.save("features.npy", rows)
    np.save("text.npy", [rows[side::2].mean(axis=0) for side in (0, 1)])
    names = ("--classes", "a,b", "--text-features", "text.npy", "-n", "40", "--json")
    found = json.loads(ends(capsys, "next", "features.npy", *names).out)
    right = [row["predicted"] == "ab"[int(row["id"]) % 2] for row in found]
    assert len(right) == 40
    assert np.mean(right) > 0.9
    zero_shot = json.loads(ends(capsys, "next", "features.npy", "strategy=zero_shot", *names).out)
    assert all(row["predicted"] for row in zero_shot)
    (here / "labels.csv").write_text("id,label\n0,a\n1,c\n")
    said = ends(capsys, "next", "features.npy", "labels.csv", *names).err
    assert "text_features: text.npy has no row for c, so the labels alone are used" in said


def test_labels_that_exist_are_the_first_answers(here, capsys, monkeypatch):
    monkeypatch.setattr("runs.labelling.server.serve", lambda *_: None)  # as if Ctrl-C came at once
    words = ("label", "features.npy", "--classes", "b", "--no-browser")
    ends(capsys, *words)  # the session begins with another order of classes, and without answers
    assert "6 answers so far" in ends(capsys, *words, labels_file(here / "labels.csv", range(6))).err
    (file,) = here.glob("results/labelling/*/features-labels.csv")
    found = pd.read_csv(file).dropna(subset="label")
    assert found["label"].tolist() == ["ab"[int(row) % 2] for row in found["id"]]
    assert len(found) == 6
    (here / "labels.csv").write_text("id,label\n30,new\n")
    said = ends(capsys, *words, "labels.csv").err
    assert "labels=labels.csv is not read: this session has answers" in said
    assert "6 answers so far" in said
    assert "p(new)" not in pd.read_csv(file).columns


class Page:
    """A client of a running `transduce label`."""

    def __init__(self, child):
        self.root, _, self.token = child.stdout.readline().strip().partition("/?token=")

    def ask(self, path, body=None):
        headers = {"X-Label-Token": self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.root + path, data, headers), timeout=60) as reply:
            return json.loads(reply.read())

    def ready(self):
        state = self.ask("/api/state")
        answered = all(item["state"] != "open" for item in state["batch"])
        return self.ask("/api/step", {})["state"] if answered else state

    def label(self, item):
        given = {"id": item["id"], "version": item["version"], "action": "label", "label": "ab"[int(item["title"]) % 2]}
        return self.ask("/api/answers", {"client": "me", "answers": [given]})


COMMAND = ["-m", "runs.cli", "label", "table.parquet", "--features", "emb", "--show", "text,image", "--no-browser"]


@pytest.mark.slow
def test_kill_9_loses_no_answer_and_ctrl_c_writes_the_labels(here, child_environment, capsys):
    environment = {**child_environment, "OMP_NUM_THREADS": "1"}
    saved = set()
    with started([*COMMAND, "--classes", "a,b"], environment) as child:
        page = Page(child)
        item = page.ready()["batch"][0]
        assert item["columns"]["text"].startswith("=row")
        assert item["picture"] == f"/api/picture/{item['id']}"
        for item in page.ready()["batch"][:7]:
            assert page.label(item)["conflicts"] == []
            saved.add(item["id"])
        second = main(list(COMMAND[2:]))
        said = capsys.readouterr()
        assert second == 2
        assert "this session is open in another process; its page is above" in said.err
        assert said.out.strip() == f"{page.root}/?token={page.token}"
        child.send_signal(signal.SIGKILL)
        child.wait(60)
    (journal,) = here.glob("results/labelling/*/journal.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"kind":"answers","client":"me","answers":[{"id":"')  # what a write that is cut off leaves
    with started(COMMAND, environment) as child:
        again = Page(child)
        assert (again.root, again.token) == (page.root, page.token)  # an open page goes on
        state = again.ready()
        assert state["labelled"] == 7
        assert {item["id"] for item in state["batch"] if item["state"] == "labelled"} == saved
        while state["labelled"] < 25:
            for item in state["batch"]:
                if item["state"] == "open":
                    again.label(item)
            state = again.ready()
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, messages = child.communicate(timeout=120)
        assert child.returncode == 0, messages
    (file,) = here.glob("results/labelling/*/table-labels.parquet")
    assert str(file) in messages
    found = pd.read_parquet(file).dropna(subset="label")
    assert len(found) >= 25
    assert (found["label"] == ["ab"[int(row) % 2] for row in found["id"]]).all()
