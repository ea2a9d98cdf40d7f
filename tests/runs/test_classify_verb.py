"""`transduce classify` by pictures and by class names: predictions and a page; mistakes leave nothing."""

import csv
import json
import os
import re
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from fsl.backbones import create_backbone
from fsl.backbones.names import PACKAGE, PACKAGED, has_packaged
from fsl.few_shot_classifier import FewShotClassifier
from fsl.picture_folders import unlabelled_pictures
from fsl.weights.checkpoints import save_backbone
from tests.open_clip_files import NAME, small_network
from tests.runs.browser import CHROMIUM, Browser
from tests.runs.pages import text


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two networks that were never trained."""
    folder = tmp_path_factory.mktemp("networks")
    for seed in (0, 1):
        torch.manual_seed(seed)
        about = {"benchmark": "mini", "mean": [0.5] * 3, "std": [0.25] * 3}
        network = create_backbone("conv4", channels=3, size=32)
        save_backbone(folder / f"{seed}.safetensors", network, "conv4", channels=3, size=32, about=about)
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, networks):
    """Reddish and bluish pictures: 2 and 3 labelled ones, 8 of which 6 are red, in folders called like the classes;
    names of these classes and of another one, and prompts."""
    generator = np.random.default_rng(1)
    monkeypatch.chdir(tmp_path)
    counts = {"support": {"red": 2, "blue": 3}, "query": {"red": 6, "blue": 2}, "new": {".": 3}}
    tints = {"red": (200, 40, 40), "blue": (40, 40, 200), ".": (190, 50, 40)}
    for part, classes in counts.items():
        for name, count in classes.items():
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.array(tints[name]) + generator.integers(-40, 40, (40 + i, 31, 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(tmp_path / part / name / f"{i}, {part}.png")
    (tmp_path / "names.txt").write_text("red\nblue\ngreen\n")
    (tmp_path / "prompts.txt").write_text("a photo of a {}.\nthe {}\n")
    (tmp_path / "net.safetensors").symlink_to(networks / "0.safetensors")
    (tmp_path / "other.safetensors").symlink_to(networks / "1.safetensors")
    return tmp_path


@pytest.mark.skipif(not has_packaged(), reason="the weights are not installed: transduce[pictures]")
def test_without_a_network_the_packaged_one_is_used_and_better_ones_are_named(classified, here):
    seen = classified(*FOLDERS, "--output", "found.csv", "--save", "mine.safetensors")
    assert f"network: {PACKAGED} (ImageNet" in seen.err
    assert "vit_small_patch14_dinov2" in seen.err
    assert [row["class"] for row in rows_of(here / "found.csv")] == ["blue"] * 2 + ["red"] * 6
    seen = classified(*LATER, "new", "--output", "later.csv")
    assert len(rows_of(here / "later.csv")) == 3


FOLDERS = ("--support", "support", "--query", "query")
GIVEN = (*FOLDERS, "--backbone", "net.safetensors")
LATER = ("--classifier", "mine.safetensors", "--query")


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_predictions_and_a_page(classified, here):
    seen = classified(*GIVEN, "--output", "found.csv", "--json")
    said = json.loads(seen.out)
    rows = rows_of(here / "found.csv")
    assert [row["picture"] for row in rows] == sorted(
        str(p.relative_to(here / "query")) for p in here.glob("query/*/*.png")
    )
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in ("blue", "red")}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert row["class"] == max(chances, key=chances.get) == said["predictions"][row["picture"]]
    assert said["accuracy"] == np.mean([row["class"] == row["picture"].split("/")[0] for row in rows]) == 1
    assert said["config"]["strategy.shift"] is False
    assert "classifies all pictures jointly" in seen.err
    page = (here / "found.html").read_text()
    assert "100.0 % (8) of the predictions are correct" in text(page)
    assert "they order pictures by certainty" in text(page)
    assert page.count('<img src="data:image/jpeg;base64,') == 8
    certain = {row["picture"]: float(row[f"p({row['class']})"]) for row in rows}
    sections = [re.findall(r'"quiet">([^<]+png)<', part) for part in page.split("<section ")[2:]]
    assert [len(shown) for shown in sections] == [2, 6]
    for shown in sections:
        assert list(shown) == sorted(shown, key=certain.get), "the least certain first"
    assert "--backbone" not in page
    assert "backbone=net.safetensors" in page


def test_a_name_that_is_no_utf_8_is_spelt_out(classified, here):
    path = here / "query" / "red" / "0, query.png"
    path.rename(os.fsdecode(os.fsencode(path.parent) + b"/caf\xe9.png"))
    seen = classified(*GIVEN, "--output", "found.csv", "--json")
    name = r"red/caf\udce9.png"
    assert name in [row["picture"] for row in rows_of(here / "found.csv")]
    assert name in text((here / "found.html").read_text())
    assert "red/caf\udce9.png" in json.loads(seen.out)["predictions"]


def test_features_are_reused(classified):
    seen = classified(*GIVEN, "--json")
    seen = classified(*GIVEN, "--strategy", "simpleshot", "--json")
    assert "features of 8 pictures: reused" in seen.err
    assert "classifies each picture independently" in seen.err


def test_how_many_a_folder_has_stands_beside_how_many_were_put_into_its_class(classified, here):
    for i in (0, 1):
        (here / "query" / "red" / f"{i}, query.png").rename(here / "query" / "blue" / f"is red {i}.png")
    seen = classified(*GIVEN, "--output", "found.csv")
    assert re.search(r"class +labelled +predicted +correct +in its folder", seen.out)
    assert re.search(r"blue +3 +2 +2 +4", seen.out)
    assert re.search(r"red +2 +6 +4 +4", seen.out)
    assert re.search(r"blue 3 2 2 4 red 2 6 4 4 ", text((here / "found.html").read_text()))


def test_saved_and_applied_to_later_pictures(classified, here):
    classified(*GIVEN, "--save", "mine.safetensors")
    seen = classified(*LATER, "new", "--output", "new.csv")
    assert "independently, by the nearest prototype" in seen.err
    assert "of 8 earlier pictures" in seen.err
    alone = rows_of(here / "new.csv")
    assert {row["class"] for row in alone} == {"red"}
    for i in (1, 2):
        (here / "new" / f"{i}, new.png").unlink()
    classified(*LATER, "new", "--output", "new.csv")
    assert rows_of(here / "new.csv") == alone[:1]
    seen = classified(*LATER, "query", "alone=false", "--json")
    assert json.loads(seen.out)["accuracy"] == 1
    assert "classifies all pictures jointly" in seen.err
    seen = classified(*LATER, "query", "--backbone", "other.safetensors", ends=2)
    assert "not the network" in seen.err
    for words in ("weight=0.2", "strategy=laplacianshot"):
        seen = classified(*LATER, "query", words, ends=2)
        assert "a saved classifier has its own strategy" in seen.err


def test_broken_pictures_are_skipped_on_request_only(classified, here):
    (here / "query" / "red" / "broken.png").write_bytes(b"no picture")
    seen = classified(*GIVEN, "--output", "found.csv", "--save", "mine.safetensors", ends=2)
    assert "broken.png" in seen.err
    assert not (here / "found.csv").exists()
    assert not (here / "mine.safetensors").exists()
    seen = classified(*GIVEN, "broken=skip", "--output", "found.csv")
    rows = {row["picture"]: row for row in rows_of(here / "found.csv")}
    assert rows["red/broken.png"]["class"] == ""
    assert rows["red/0, query.png"]["class"] == "red"
    assert "broken.png" in (here / "found.html").read_text()
    for path in (here / "support" / "red").iterdir():
        path.write_bytes(b"no picture")
    seen = classified(*GIVEN, "broken=skip", ends=2)
    assert "no picture of class 'red' can be read" in seen.err


def test_pictures_left_out_are_named(classified, here):
    endings = (".CR2", ".jxl", ".svg", ".dcm", ".ico", ".fits", ".jpg_large")
    for ending in endings:
        (here / "query" / "red" / f"b{ending}").write_bytes(b"\xff\xd8\xff\xe0")
    (here / "query" / "red" / "photo").write_bytes((here / "new" / "0, new.png").read_bytes())
    for name in ("notes.txt", "labels.csv", "Thumbs.db", ".hidden.svg"):
        (here / "query" / "red" / name).write_bytes(b"")
    (here / "query" / "@eaDir").mkdir()
    (here / "query" / "@eaDir" / "thumb.jpg").write_bytes(b"no picture")
    seen = classified(*GIVEN, "--output", "found.csv", "--quiet")
    assert len(rows_of(here / "found.csv")) == 8
    (told,) = re.findall("left out: (.*); save them as PNG", seen.err)
    assert set(told.split(", ")) == {*(f"1 {ending.lower()}" for ending in endings), "1 without ending"}


def test_what_may_be_wrong_is_said(classified, here):
    (here / "query" / "red" / "copy.png").write_bytes((here / "support" / "red" / "0, support.png").read_bytes())
    seen = classified(*GIVEN, "--strategy", "tim_adm", "--output", "found.csv", "--quiet")
    assert "warning: tim_adm assumes the same number" in seen.err
    assert "strategy=soft_slk" in seen.err
    assert re.search(r"copy\.png is identical to the labelled picture .*0, support\.png", seen.err)
    assert "tim_adm assumes the same number" in text((here / "found.html").read_text())
    seen = classified(*GIVEN, "shift=true")
    assert "set shift=false" in seen.err
    for path in list((here / "query").rglob("*.png"))[1:]:
        path.unlink()
    seen = classified(*GIVEN)
    assert "only one query" in seen.err


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "--support FOLDER"),
        ("--support /no/such --query /no/such2", "/no/such: no such folder"),
        ("--support support --query /no/such2", "/no/such2: no such folder"),
        ("--support support", "--query FOLDER"),
        ("--support support --query kept.txt", "kept.txt: not a folder"),
        ("--support support --query query", "--backbone timm:NAME"),
        ("--support support --query query --backbone nothing.safetensors", "nothing.safetensors"),
        ("{} --strategy laplaceshot", "laplacianshot"),
        ("{} weigth=1", "weight"),
        ("{} weight=1,2", "one value"),
        ("{} broken=drop", "skip"),
        ("--support support --query support/red --backbone net.safetensors", "contains the other"),
        ("--support support/red --query query --backbone net.safetensors", "not in the folder of a class"),
        ("--support support --query empty --backbone net.safetensors", "no pictures"),
        ("--support hollow --query query --backbone net.safetensors", "class has no pictures"),
        ("--support support --query query --backbone kept.txt", "kept.txt"),
        ("{} output=kept.csv", "does not contain predictions"),
        ("{} output=paged.csv", "paged.html"),
        ("{} output=nowhere/x.csv", "does not exist"),
        ("{} output=x.txt", ".csv"),
        ("{} --save given.safetensors", "only classifiers are overwritten"),
        ("{} --output link.csv", "is a link"),
        ("{} --save link.safetensors", "is a link"),
        ("{} --output linked.csv", "linked.html is a link"),
        ("--classifier net.safetensors --query query", "net.safetensors"),
        ("--classifier nothing --query query", "no such file"),
        ("--classifier net.safetensors --support support --query query", "both given"),
        ("{} --strategy pt_map device=cuda:99", "cuda:99"),
    ],
)
def test_mistakes_leave_nothing(here, refused, monkeypatch, typed, words):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    (here / "empty").mkdir()
    (here / "hollow" / "class").mkdir(parents=True)
    for name in ("kept.txt", "kept.csv", "paged.html"):
        (here / name).write_text("somebody's own")
    (here / "given.safetensors").write_bytes((here / "net.safetensors").read_bytes())
    for name in ("link.csv", "link.safetensors", "linked.html"):
        (here / name).symlink_to(here / "nothing")
    assert words in refused("classify", *typed.replace("{}", " ".join(GIVEN)).split())
    assert (here / "kept.csv").read_text() == "somebody's own"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder that nobody can write to")
@pytest.mark.parametrize("words", [("--output", "/proc/x.csv"), ("--save", "/proc/x.safetensors")])
def test_folders_that_cannot_be_written_to_are_named_before_the_work(classified, words):
    seen = classified(*GIVEN, *words, ends=2)
    assert "its folder is not writable" in seen.err
    assert "encoding" not in seen.err


def test_copies_and_formulas(classified, here):
    red = (here / "support" / "red" / "0, support.png").read_bytes()
    (here / "support" / "blue" / "false.png").write_bytes(red)
    for name in ("=1+1.png", "same.png"):
        (here / "new" / name).write_bytes(red[:-1] + b"0")
    seen = classified("--support", "support", "--query", "new", *GIVEN[4:], "--output", "new.csv")
    assert re.search(
        r"0, support\.png is identical to the labelled picture .*false\.png: their classes differ", seen.err
    )
    assert re.search(r"same\.png is identical to the picture .*=1\+1\.png: duplicates inflate", seen.err)
    assert {"./=1+1.png", "same.png"} < {row["picture"] for row in rows_of(here / "new.csv")}
    seen = classified("--support", "support", "--query", "new", *GIVEN[4:], "--strategy", "simpleshot")
    assert "duplicates inflate" not in seen.err


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")
def test_the_page_in_a_browser(classified, here, tmp_path_factory):
    (here / "query" / "red" / "<b>&amp.png").write_bytes((here / "new" / "0, new.png").read_bytes())
    classified(*GIVEN, "--output", "found.csv")
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        for width in (1280, 360):
            browser.open((here / "found.html").as_uri(), width=width)
            assert browser.value("document.documentElement.scrollWidth <= window.innerWidth")
            assert browser.value("[...document.images].every(image => image.naturalWidth > 0)")
            assert "<b>&amp.png" in browser.value("document.body.innerText")
        assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []
        assert browser.complaints == []


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    return small_network(tmp_path_factory.mktemp("open_clip"))


@pytest.fixture
def network(weights):
    return "--backbone", f"open_clip:{NAME}", "--pretrained", str(weights)


def test_class_names_alone(classified, here, network, weights):
    names = ("--query", "query", "--classes", "red,blue,green", "--strategy", "zero_shot")
    seen = classified(*names, *network, "--output", "found.csv", "--json")
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


def test_one_result_whatever_the_names_are_written_in(classified, network):
    names = ("--query", "query", *network, "--json")
    seen = classified(*names, "--classes", "red,green,blue")
    first = json.loads(seen.out)
    assert "encoding class names" in seen.err
    seen = classified(*names, "--classes", "names.txt")
    again = json.loads(seen.out)
    assert "encoding class names" not in seen.err
    assert again["key"] == first["key"]
    for other in (("--prompts", "prompts.txt"), ("logit_scale=30",)):
        changed = json.loads(classified(*names, "--classes", "names.txt", *other).out)
        assert changed["key"] != first["key"]


def test_labelled_pictures_and_names_and_a_saved_classifier(classified, here, network, weights):
    names = ("--classes", "names.txt", "--prompts", "prompts.txt")
    given = ("--query", "query", "--support", "support", *names, *network)
    seen = classified(*given, "--output", "found.csv", "--save", "mine.safetensors")
    by_hand = FewShotClassifier(
        backbone=f"open_clip:{NAME}", weights=str(weights), prompts=["a photo of a {}.", "the {}"]
    ).fit("support", class_names=["blue", "green", "red"])
    found = [row["class"] for row in rows_of(here / "found.csv")]
    assert found == by_hand.predict("query").tolist()
    for name in by_hand.classes_:
        labelled = {"green": 0, "red": 2, "blue": 3}[name]
        assert re.search(rf"{name} +{labelled} +{found.count(name)} ", seen.out)
    page = text((here / "found.html").read_text())
    assert "from the class names and a few labelled pictures" in page
    assert "prompts a photo of a {}. the {}" in page
    seen = classified(*LATER, "query", "--output", "later.csv")
    assert "independently, by the class names" in seen.err
    loaded = FewShotClassifier.load("mine.safetensors")
    want = loaded.predict(unlabelled_pictures("query"), alone=True)
    assert [row["class"] for row in rows_of(here / "later.csv")] == want.tolist()


def test_a_taxonomy_and_stated_proportions_are_told(classified, here, network):
    (here / "query" / "warm").mkdir()
    (here / "query" / "red").rename(here / "query" / "warm" / "red")
    given = ("--query", "query", "--classes", "warm/red,warm/pink,blue", "--strategy", "zero_shot", *network)
    seen = classified(*given, "proportions=[3,0,5]", "--output", "found.csv")
    assert "proportions that you stated: blue 37.5 %, warm/pink 0 %, warm/red 62.5 %" in seen.err
    rows = rows_of(here / "found.csv")
    warm = [float(row["p(warm/red)"]) + float(row["p(warm/pink)"]) > float(row["p(blue)"]) for row in rows]
    right = sum(one == row["picture"].startswith("warm") for one, row in zip(warm, rows, strict=True))
    assert f"blue {8 - sum(warm)}, warm {sum(warm)}; {100 * right / 8:.1f} % agree with the folder" in seen.err


def test_a_strategy_that_does_not_use_the_names_says_so(classified, network):
    given = ("--query", "query", "--support", "support", "--classes", "red,blue", *network)
    seen = classified(*given, "--strategy", "alpha_tim")
    assert "warning: alpha_tim does not use class names" in seen.err


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--query query --classes red,blue", "no network given for the pictures: add --backbone timm:NAME, --backbone"),
        ("--query query --classes red,blue --backbone timm:resnet18", "no text tower"),
        ("--query query --classes nothing.txt {}", "classes: nothing.txt: no such file; give names"),
        ("--query query --classes empty.txt {}", "classes: empty.txt: has no lines"),
        ("--query query --classes one.txt {}", "classes: at least two class names"),
        ("--query query --classes twice.txt {}", "classes: the class name 'red' is given twice"),
        ("--query query --classes red,,blue {}", "a value is empty"),
        ("--query query --classes red,blue --prompts nothing.txt {}", "prompts: nothing.txt: cannot be read"),
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
def test_mistakes_about_names_leave_nothing(here, refused, network, monkeypatch, typed, words):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (here / "empty.txt").write_text("\n")
    (here / "one.txt").write_text("red\n")
    (here / "twice.txt").write_text("red\nblue\nred\n")
    assert words in refused("classify", *typed.replace("{}", " ".join(network)).split())
