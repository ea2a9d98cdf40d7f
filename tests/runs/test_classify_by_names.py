"""`transduce classify` by class names: with a network of open_clip of random weights, or with features in files."""

import csv
import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

from fsl.backbones.names import PACKAGE
from fsl.few_shot_classifier import FewShotClassifier
from fsl.picture_folders import unlabelled_pictures
from runs.cli import main
from tests.open_clip_files import NAME, small_network
from tests.runs.pages import text

TINTS = {"red": (200, 40, 40), "blue": (40, 40, 200)}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    return small_network(tmp_path_factory.mktemp("open_clip"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Reddish and bluish pictures: 2 labelled ones of each, 5 and 3 in folders called like the classes."""
    generator = np.random.default_rng(1)
    monkeypatch.chdir(tmp_path)
    for part, counts in {"support": {"red": 2, "blue": 2}, "query": {"red": 5, "blue": 3}}.items():
        for name, count in counts.items():
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.array(TINTS[name]) + generator.integers(-40, 40, (40 + i, 31, 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(tmp_path / part / name / f"{i}.png")
    (tmp_path / "names.txt").write_text("red\nblue\ngreen\n")
    (tmp_path / "prompts.txt").write_text("a photo of a {}.\nthe {}\n")
    return tmp_path


@pytest.fixture
def network(weights):
    return "--backbone", f"open_clip:{NAME}", "--pretrained", str(weights)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_class_names_alone(classify, here, network, weights):
    names = ("--query", "query", "--classes", "red,blue,green", "--strategy", "zero_shot")
    code, seen = classify(*names, *network, "--output", "found.csv", "--json")
    assert code == 0, seen.err
    said, rows = json.loads(seen.out), rows_of(here / "found.csv")
    assert said["classes"] == ["blue", "green", "red"]
    by_hand = FewShotClassifier("zero_shot", backbone=f"open_clip:{NAME}", weights=str(weights))
    want = by_hand.fit(class_names=["red", "blue", "green"]).predict_proba(unlabelled_pictures("query"))
    found = np.array([[float(row[f"p({name})"]) for name in said["classes"]] for row in rows])
    np.testing.assert_allclose(found, want, atol=2e-6)
    assert [row["class"] for row in rows] == [said["classes"][k] for k in want.argmax(axis=1)]
    assert said["accuracy"] == np.mean([row["class"] == row["picture"].split("/")[0] for row in rows])
    page = (here / "found.html").read_text()
    assert "8 pictures, classified into 3 classes from the class names alone" in text(page)
    assert "prompts itap of a {}." in text(page)
    assert page.count('<img src="data:image/jpeg;base64,') == 8


def test_one_result_whatever_the_names_are_written_in(classify, network):
    names = ("--query", "query", *network, "--json")
    seen = classify(*names, "--classes", "red,green,blue")[1]
    first = json.loads(seen.out)
    assert "encoding class names" in seen.err
    seen = classify(*names, "--classes", "names.txt")[1]
    again = json.loads(seen.out)
    assert "encoding class names" not in seen.err
    assert again["key"] == first["key"]
    for other in (("--prompts", "prompts.txt"), ("logit_scale=30",)):
        changed = json.loads(classify(*names, "--classes", "names.txt", *other)[1].out)
        assert changed["key"] != first["key"]


def test_labelled_pictures_and_names_and_a_saved_classifier(classify, here, network, weights):
    names = ("--classes", "names.txt", "--prompts", "prompts.txt")
    given = ("--query", "query", "--support", "support", *names, *network)
    code, seen = classify(*given, "--output", "found.csv", "--save", "mine.safetensors")
    assert code == 0, seen.err
    by_hand = FewShotClassifier(
        backbone=f"open_clip:{NAME}", weights=str(weights), prompts=["a photo of a {}.", "the {}"]
    ).fit("support", class_names=["blue", "green", "red"])
    found = [row["class"] for row in rows_of(here / "found.csv")]
    assert found == by_hand.predict("query").tolist()
    for name in by_hand.classes_:
        labelled = 0 if name == "green" else 2
        assert re.search(rf"{name} +{labelled} +{found.count(name)} ", seen.out)
    page = text((here / "found.html").read_text())
    assert "from the class names and a few labelled pictures" in page
    assert "prompts a photo of a {}. the {}" in page
    code, seen = classify("--classifier", "mine.safetensors", "--query", "query", "--output", "later.csv")
    assert code == 0, seen.err
    assert "independently, by the class names" in seen.err
    loaded = FewShotClassifier.load("mine.safetensors")
    want = loaded.predict(unlabelled_pictures("query"), alone=True)
    assert [row["class"] for row in rows_of(here / "later.csv")] == want.tolist()


def test_a_taxonomy_and_stated_proportions_are_told(classify, here, network):
    (here / "query" / "warm").mkdir()
    (here / "query" / "red").rename(here / "query" / "warm" / "red")
    given = ("--query", "query", "--classes", "warm/red,warm/pink,blue", "--strategy", "zero_shot", *network)
    code, seen = classify(*given, "proportions=[3,0,5]", "--output", "found.csv")
    assert code == 0, seen.err
    assert "proportions that you stated: blue 37.5 %, warm/pink 0 %, warm/red 62.5 %" in seen.err
    rows = rows_of(here / "found.csv")
    warm = [float(row["p(warm/red)"]) + float(row["p(warm/pink)"]) > float(row["p(blue)"]) for row in rows]
    right = sum(one == row["picture"].startswith("warm") for one, row in zip(warm, rows, strict=True))
    assert f"blue {8 - sum(warm)}, warm {sum(warm)}; {100 * right / 8:.1f} % agree with the folder" in seen.err


def test_a_strategy_that_does_not_use_the_names_says_so(classify, network):
    given = ("--query", "query", "--support", "support", "--classes", "red,blue", *network)
    code, seen = classify(*given, "--strategy", "alpha_tim")
    assert code == 0, seen.err
    assert "warning: alpha_tim does not use class names" in seen.err


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--query query --classes red,blue", "no network given for the pictures: add --backbone timm:NAME, --backbone"),
        ("--query query --classes red,blue --backbone timm:resnet18", "no text tower"),
        (
            "--query query --classes nothing.txt {}",
            "classes: nothing.txt: no such file; give names",
        ),
        ("--query query --classes empty.txt {}", "classes: empty.txt: has no lines"),
        ("--query query --classes one.txt {}", "classes: at least two class names"),
        ("--query query --classes twice.txt {}", "classes: the class name 'red' is given twice"),
        ("--query query --classes red,blue,red {}", "the class name 'red' is given twice"),
        ("--query query --classes red,,blue {}", "a value is empty"),
        (
            "--query query --classes red,blue --prompts nothing.txt {}",
            "prompts: nothing.txt: cannot be read",
        ),
        ("--query query --classes red,blue --prompts names.txt {}", "the prompt 'red' has no {}"),
        ("--query query --support support --prompts prompts.txt {}", "prompts= applies to class names"),
        ("--query query --support support --classes rod,blue {}", "did you mean 'rod'? Rename the folder"),
        ("--query query --classes red,blue --strategy tim_adm {}", "tim_adm does not use class names: add labelled"),
        ("--query query --support support --strategy stata {}", "strategy=stata requires class names: add --classes"),
        ("--query query --classes red,blue --backbone open_clip:VIT-B-31 pretrained=openai", "'ViT-B-32'"),
        ("--query query --classes red,blue --backbone open_clip:ViT-B-32", "add pretrained=TAG"),
        ("--query query --classes red,blue --backbone open_clip:ViT-B-32 pretrained=openai", "HF_HUB_OFFLINE=0"),
        ("--query query --classes red,blue --backbone open_clip:ViT-B-32 pretrained=no.pt", "no.pt: no such file"),
        (
            "--query query --classes red,blue --backbone open_clip:ViT-B-32 pretrained=names.txt",
            "names.txt: weights are",
        ),
        ("--query query --classifier x --classes red,blue", "classes= and classifier= are both given"),
    ],
)
def test_mistakes_leave_nothing(here, capsys, network, monkeypatch, typed, words):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (here / "empty.txt").write_text("\n")
    (here / "one.txt").write_text("red\n")
    (here / "twice.txt").write_text("red\nblue\nred\n")
    before = sorted(here.rglob("*"))
    assert main(["classify", *typed.replace("{}", " ".join(network)).split()]) == 2
    seen = capsys.readouterr()
    assert words in seen.err
    assert not seen.out
    assert len(seen.err.splitlines()) == 1
    assert sorted(here.rglob("*")) == before
