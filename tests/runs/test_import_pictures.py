"""`transduce import features FOLDER`: labelled pictures become a feature bank, which `transduce evaluate` reads."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from fsl.backbones.names import PACKAGE
from fsl.features.bank import FeatureBank
from fsl.features.image_encoder import ImageEncoder
from fsl.picture_folders import labelled_pictures
from runs.cli import main
from tests.open_clip_files import NAME, small_network


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(4):
            pixels = generator.integers(0, 256, (40, 30 + i, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{i}.png")
    (tmp_path / "names.txt").write_text("dog\nbird\ncat\n")
    (tmp_path / "prompts.txt").write_text("a photo of a {}.\n")
    return tmp_path


def test_pictures_and_class_names(here, capsys, tmp_path_factory, store):
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    weights = small_network(tmp_path_factory.mktemp("open_clip"))
    network = ("--backbone", f"open_clip:{NAME}", "--pretrained", str(weights))
    named = ("--classes", "names.txt", "--prompts", "prompts.txt")
    assert main(["import", "features", "pictures", *network, *named, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    bank = FeatureBank.load(here / said["features"])
    encoder = ImageEncoder.of(f"open_clip:{NAME}", weights=weights)
    assert bank.class_names == ("dog", "bird", "cat")
    assert bank.labels.tolist() == [2] * 4 + [0] * 4
    assert bank.prompts == ("a photo of a {}.",)
    assert bank.logit_scale == encoder.logit_scale
    torch.testing.assert_close(bank.text, encoder.encode_names(bank.class_names, bank.prompts))
    torch.testing.assert_close(bank.features, encoder.encode(labelled_pictures("pictures").files).features)
    assert main(["import", "features", "pictures", *network, "--json"]) == 0  # over what was imported before
    tasks = ("sampler=named_classes", "classes_min=1", "classes_max=2", "tasks=3", f"results={store.root}")
    assert main(["evaluate", f"features={said['features']}", "strategy=zero_shot,adaptive", *tasks]) == 0
    assert "zero_shot" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("pictures", "no network for these pictures; add --backbone"),
        ("pictures --backbone timm:test_vit labels=names.txt", "labels= applies to a file of features"),
        ("names.txt --backbone timm:test_vit", "backbone= applies to a folder of pictures"),
        ("pictures/cat --backbone timm:test_vit", "not in the folder of a class"),
        ("pictures --backbone open_clip:ViT-B-31 --pretrained openai", "'ViT-B-32'"),
    ],
)
def test_mistakes_leave_nothing(here, capsys, monkeypatch, typed, words):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    before = sorted(here.rglob("*"))
    assert main(["import", "features", *typed.split()]) == 2
    seen = capsys.readouterr()
    assert words in seen.err
    assert len(seen.err.splitlines()) == 1
    assert sorted(here.rglob("*")) == before
