"""`transduce import`: files of other programs, and folders of labelled pictures, on the command line."""

import json
import pickle
import re
import sys
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from clustering.foundation.errors import InputError
from fsl.backbones.names import PACKAGE
from fsl.features.bank import FeatureBank
from fsl.features.image_encoder import ImageEncoder
from fsl.picture_folders import labelled_pictures
from fsl.weights.checkpoints import load_backbone
from runs.cli import main
from tests.open_clip_files import NAME, small_network


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_features_with_files_of_their_own_for_labels_class_names_and_text(here, capsys):
    random = np.random.default_rng(0)
    rows, text = random.normal(size=(12, 5)).astype("f2"), random.normal(size=(3, 5)).astype("f2")
    labels, names = np.arange(12) % 3, np.array(["ant", "bee", "cat"])
    np.save(here / "x.npy", rows)
    np.save(here / "t.npy", text)
    (here / "y.csv").write_text("".join(f"{name}\n" for name in names[labels]))
    (here / "names.txt").write_text("ant\nbee\ncat\n")
    pd.DataFrame({"embedding": list(rows), "kind": names[labels], "split": 0}).to_parquet(here / "q.parquet")
    np.savez(here / "all.npz", features=rows, labels=labels, text=text, class_names=names, logit_scale=50.0)
    own = ["text_features=t.npy", "classes=names.txt", "logit_scale=50"]
    prints = set()
    for number, words in enumerate(
        (["x.npy", "labels=y.csv", *own], ["q.parquet", "label_column=kind", *own], ["all.npz"])
    ):
        assert main(["import", "features", *words, f"output={number}.safetensors", "--json"]) == 0
        prints.add(json.loads(capsys.readouterr().out)["fingerprint"])
    bank = FeatureBank.from_arrays(rows, labels, class_names=names, text=text, logit_scale=50.0)
    assert prints == {bank.fingerprint()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x.npy"], "x.npy: contains a single array, but no labels; .*labels=FILE"),
        (["x.npy", "labels=none.csv"], "none.csv: cannot be read"),
        (["x.npy", "labels=y.npy", "column=emb"], "column=emb"),
        (["x.npy", "labels=y.npy", "logit_scale=high"], "logit-scale': Input should be a valid number"),
        (["x.npy", "labels=y.npy", "text=t.npy"], "unknown key 'text'"),
        (["x.npy", "labels=y.npy", "text_features=y.npy"], "y.npy: features must be numbers of shape"),
        (["x.npy", "labels=y.npy", "classes=y.npy"], "y.npy: class names are read from .txt"),
    ],
)
def test_features_that_cannot_be_imported(here, refused, words, said):
    np.save(here / "x.npy", np.eye(4))
    np.save(here / "y.npy", np.arange(4))
    assert re.search(said, refused("import", "features", *words))


@pytest.mark.parametrize("output", ["kept.safetensors", "kept.txt", "nowhere/x.safetensors", "folder.safetensors"])
def test_nothing_else_is_written_over(here, refused, output):
    (here / "output.plk").write_bytes(pickle.dumps({label: list(np.eye(3, dtype=np.float32)) for label in range(4)}))
    (here / "kept.safetensors").write_bytes(b"another program's")
    (here / "kept.txt").write_bytes(b"another program's")
    (here / "folder.safetensors").mkdir()
    refused("import", "features", "output.plk", f"output={output}")
    assert (here / "kept.safetensors").read_bytes() == b"another program's"


def test_checkpoint(here, capsys):
    torch.manual_seed(0)
    layers = [(nn.Conv2d(64 if i else 1, 64, 3, padding=1), nn.BatchNorm2d(64)) for i in range(4)]
    blocks = nn.Sequential(*(nn.Sequential(*pair, nn.ReLU(), nn.MaxPool2d(2)) for pair in layers))
    theirs = nn.Sequential(OrderedDict(blocks=blocks)).eval()
    torch.save({"epoch": 3, "state_dict": nn.DataParallel(theirs).state_dict()}, here / "model_best.pth.tar")
    assert main(["import", "checkpoint", "model_best.pth.tar", "backbone=conv4", "benchmark=glyphs"]) == 0
    assert "model_best.safetensors" in capsys.readouterr().out
    ours = load_backbone(here / "model_best.safetensors")
    images = torch.randn(2, 1, 28, 28)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs(images).flatten(1), rtol=1e-4, atol=1e-4)
    written = (here / "model_best.safetensors").read_bytes()
    assert main(["import", "checkpoint", "model_best.safetensors", "backbone=conv4", "benchmark=glyphs"]) == 2
    assert "already a checkpoint of this project" in capsys.readouterr().err
    save_file(theirs.state_dict(), here / "plain.safetensors")
    assert main(["import", "checkpoint", "plain.safetensors", "backbone=conv4", "benchmark=glyphs"]) == 2
    assert "the file to import" in capsys.readouterr().err
    assert main(["import", "checkpoint", "model_best.pth.tar", "backbone=7", "benchmark=glyphs"]) == 2
    assert capsys.readouterr().err.strip().endswith("'7'; see transduce list backbones")
    (here / "model_best.safetensors").write_bytes(written[:-3] + bytes([written[-3] ^ 4]) + written[-2:])
    with pytest.raises(InputError, match="model_best"):
        load_backbone(here / "model_best.safetensors")
    assert main(["import", "checkpoint", "model_best.pth.tar", "backbone=conv6", "benchmark=glyphs"]) == 2
    error = capsys.readouterr().err
    assert "blocks.4.0.weight" in error
    assert "blocks.5.1.running_var" in error


@pytest.fixture
def here_pictures(tmp_path, monkeypatch):
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


def test_pictures_and_class_names(here_pictures, capsys, tmp_path_factory, store):
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    weights = small_network(tmp_path_factory.mktemp("open_clip"))
    network = ("--backbone", f"open_clip:{NAME}", "--pretrained", str(weights))
    named = ("--classes", "names.txt", "--prompts", "prompts.txt")
    assert main(["import", "features", "pictures", *network, *named, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    bank = FeatureBank.load(here_pictures / said["features"])
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
def test_mistakes_leave_nothing(here_pictures, refused, monkeypatch, typed, words):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")
    assert words in refused("import", "features", *typed.split())
