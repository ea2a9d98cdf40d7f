"""Model cards: their header is YAML that Hugging Face reads, they say what was recorded, and they count for nothing."""

import json
import math
import pickle
import re

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from torch import nn

from fsl.backbones import create_backbone
from fsl.benchmarks.images import ImageSet
from fsl.features.bank import FeatureBank
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.lineage import Lineage
from runs.stages.pipeline import checkpoint, evaluation
from runs.storage import cards
from runs.storage.store import CARD, Store
from runs.track import Tracker
from tests.runs.records import runs_of


def header(path):
    """What is between the first two lines of dashes."""
    _, block, text = path.read_text(encoding="utf-8").split("---\n", 2)
    assert text.startswith("\n# ")
    return yaml.safe_load(block)


@pytest.fixture(scope="module")
def made(trained_results, tiny_arguments):
    (config,) = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot"])
    return Store(trained_results), config, Lineage.of(config)


def test_a_checkpoint_says_how_it_was_trained_and_how_good_it_is(made):
    store, _, lineage = made
    entry = store.peek("checkpoints", lineage.checkpoint)
    said = header(entry.path / CARD)
    about = said["transduce"]
    assert (said["library_name"], said["license"], said["datasets"]) == ("transduce", "unknown", ["tiny"])
    assert about["fingerprint"] == entry.fingerprint
    assert about["input"] == {"channels": 1, "size": 16, "mean": [0.5], "std": [0.25]}
    assert about["config"]["training.epochs"] == 3
    assert about["config"]["training.precision"] in ("float32", "bfloat16")
    assert "training" not in about["config"]
    text = (entry.path / CARD).read_text()
    assert "the best of 3, and optimistic" in text
    assert "backbone=conv4 checkpoint=best.safetensors" in text
    assert "root=" not in text, "the benchmark has no folder"
    assert set(load_file(entry.path / "best.safetensors")) == set(
        create_backbone("conv4", channels=1, size=16).state_dict()
    )
    assert len(about["classes"]["base"]) == 8
    assert not any("root" in key or key in ("results", "device") for key in about["config"])  # of this machine
    (training,) = runs_of(Tracker(store), "train/Tiny")
    (result,) = ModelCard.load(entry.path / CARD).data.eval_results
    assert result.metric_value == training.data.metrics["best_validation_accuracy"]
    assert result.dataset_split == "validation"
    assert result.metric_args["tasks"] == 20
    # the best that a deviation of right answers can be, and the half-width that goes with it
    assert 0 < result.metric_args["ci95"] <= 1.96 * 0.5 / math.sqrt(20)


def test_the_run_of_a_training_has_the_card(made, tmp_path):
    store, _, lineage = made
    tracker = Tracker(store)
    (training,) = runs_of(tracker, "train/Tiny")
    kept = tracker.download(training.info.run_id, CARD, tmp_path)
    assert kept.read_text() == (store.peek("checkpoints", lineage.checkpoint).path / CARD).read_text()


@pytest.mark.parametrize("split", ["novel", "base"])
def test_a_bank_says_what_is_in_it(made, split):
    store, _, lineage = made
    entry = store.peek("features", lineage.bank(split))
    bank, about = FeatureBank.load(entry.path / "features.safetensors"), header(entry.path / CARD)["transduce"]
    assert about["fingerprint"] == bank.fingerprint()
    assert (about["count"], about["dimension"]) == (len(bank.labels), bank.dimension)
    assert about["classes"] == list(bank.class_names)
    assert about["checkpoint"] == store.peek("checkpoints", lineage.checkpoint).fingerprint
    assert about["split"] == split
    trained_on = header(store.peek("checkpoints", lineage.checkpoint).path / CARD)["transduce"]
    assert about["config"] == trained_on["config"]
    text = (entry.path / CARD).read_text()
    assert f"| fingerprint of the pictures | {bank.provenance['images']} |" in text
    assert f"| images | {len(bank.labels):,}, " in text
    assert text.count("| images |") == 1
    assert "The fingerprint of the pictures identifies the copy" in text
    assert ("trained on them" in text) == (split == "base")
    assert ModelCard.load(entry.path / CARD).data.library_name == "transduce"


def test_what_a_card_says_changes_nothing(trained, tracker, configs, notes):
    """Not the fingerprint by which a bank knows its checkpoint, nor what is complete."""
    evaluation(configs(), trained, tracker)
    before = {path: trained.peek(path.parent.parent.name, path.parent.name) for path in trained.root.rglob(CARD)}
    before = {path: entry for path, entry in before.items() if entry}
    assert len(before) == 3
    first, second, third = before
    first.unlink()
    second.write_text("of another")
    third.write_bytes(b"\xff")
    (again,) = evaluation(configs("strategy=nearest"), trained, tracker, progress=notes)
    assert not again.reused
    assert not any("extracting" in bar or "training" in bar for bar in notes.bars)
    assert {path: trained.peek(path.parent.parent.name, path.parent.name) for path in before} == before


def test_a_training_that_was_killed_before_the_mark_gets_its_card_into_the_run(store, tracker, configs):
    (config,) = configs()
    made = checkpoint(config, store, tracker)
    tracker.client.set_terminated(made.run_id, "KILLED")
    (store.artifacts / "train" / "Tiny" / made.run_id / "artifacts" / CARD).unlink()
    assert checkpoint(config, store, tracker).reused
    run = tracker.get(made.run_id)
    assert run.info.status == "FINISHED"
    assert [item.path for item in tracker.client.list_artifacts(made.run_id) if item.path == CARD] == [CARD]


def test_imported_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({label: list(np.eye(3, dtype=np.float32)) for label in range(4)})
    (tmp_path / "output.plk").write_bytes(content)
    assert main(["import", "features", "output.plk", "split=base", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    about = header(tmp_path / said["card"])["transduce"]
    assert (about["fingerprint"], about["count"], about["split"]) == (said["fingerprint"], 12, "base")
    text = (tmp_path / "output.md").read_text()
    assert "not known: CL2N" in text
    assert "fingerprint of the pictures" not in text, "there is none"
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict[str, FeatureBank] = {}
    exec(code, found)
    assert len(found["bank"].labels) == 12
    assert main(["import", "features", "output.plk"]) == 0  # over a card of this program


def test_imported_weights(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    layers = [(nn.Conv2d(64 if i else 1, 64, 3, padding=1), nn.BatchNorm2d(64)) for i in range(4)]
    theirs = nn.Sequential(*(nn.Sequential(*pair, nn.ReLU(), nn.MaxPool2d(2)) for pair in layers))
    torch.save(theirs.state_dict(), tmp_path / "model_best.pth")
    assert main(["import", "checkpoint", "model_best.pth", "backbone=conv4", "benchmark=glyphs"]) == 0
    assert "4 biases of convolutions" in capsys.readouterr().out
    text = (tmp_path / "model_best.md").read_text()
    assert "4 biases of convolutions" in text
    assert "benchmark=glyphs backbone=conv4 checkpoint=model_best.safetensors" in text
    torch.save(load_file(tmp_path / "model_best.safetensors"), tmp_path / "again.pth")
    assert main(["import", "checkpoint", "again.pth", "backbone=conv4", "benchmark=omniglot"]) == 0
    text = (tmp_path / "again.md").read_text()
    assert "biases" not in text + capsys.readouterr().out
    assert "benchmark=omniglot root=FOLDER backbone=conv4 checkpoint=again.safetensors" in text
    about = header(tmp_path / "model_best.md")["transduce"]
    assert (about["imported"], about["input"]["size"], about["backbone"]) == ("model_best.pth", 28, "conv4")
    card = ModelCard.load(tmp_path / "model_best.md").data
    assert card.tags[1:] == ["glyphs", "conv4", "imported"]
    assert card.datasets is None, "what it was trained on is not known"


def test_a_text_of_the_users_is_not_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output.plk").write_bytes(pickle.dumps({0: list(np.eye(2)), 1: list(np.eye(2))}))
    (tmp_path / "output.md").write_text("my notes")
    assert main(["import", "features", "output.plk"]) == 2
    assert "output.md exists, and is not a model card" in capsys.readouterr().err
    assert (tmp_path / "output.md").read_text() == "my notes"
    assert not (tmp_path / "output.safetensors").exists()


@pytest.mark.parametrize("name", ["a: b", "- x", "\"quoted\" 'twice'", "null", "1e3", "| pipe |", "ß ½ 汉", "---"])
def test_any_name_of_a_class_comes_back(tmp_path, name):
    bank = FeatureBank(torch.eye(2), torch.tensor([0, 1]), (name, "other"), None, {"images": name})
    (tmp_path / CARD).write_text(cards.bank(bank, name, "features.safetensors").text("0" * 16), encoding="utf-8")
    assert ModelCard.load(tmp_path / CARD).data.to_dict()["transduce"]["classes"] == [name, "other"]
    assert cards.is_card(tmp_path / CARD)


@pytest.mark.parametrize(("epochs", "every", "optimistic"), [(2, 4, False), (5, 4, True), (3, 1, True)])
def test_the_best_of_one_validation_is_not_optimistic(made, epochs, every, optimistic):
    _, config, lineage = made
    keys = config.training_config().result_keys() | {"training.validate_every": every}
    facts = {"validation_accuracy": 0.5, "validation_ci95": None, "best_epoch": 1, "epochs": epochs, "images": 8}
    splits = {
        split: ImageSet(torch.zeros(2, 1, 4, 4), torch.tensor([0, 1]), ("a", "b"), "")
        for split in ("base", "validation")
    }
    text = cards.trained("mine", "best.safetensors", keys, lineage.benchmark, facts, splits).text("0" * 16)
    assert ("optimistic" in text) == optimistic
