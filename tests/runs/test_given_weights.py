"""Evaluation on weights that people have already: taken into the store, never trained, known by their content."""

import shutil
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.weights.checkpoints import save_backbone
from runs.config.configs import EvaluateConfig, parse
from runs.record.query import read_runs
from runs.stages.lineage import Lineage, evaluate_name
from runs.stages.pipeline import evaluation, features


def their_network(seed=0):
    """Conv4 with the biases of another program, and weights drawn from the seed."""
    torch.manual_seed(seed)
    layers = [(nn.Conv2d(64 if i else 1, 64, 3, padding=1), nn.BatchNorm2d(64)) for i in range(4)]
    for _, norm in layers:
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.5, 1.5)
    blocks = nn.Sequential(*(nn.Sequential(*pair, nn.ReLU(), nn.MaxPool2d(2)) for pair in layers))
    return nn.Sequential(OrderedDict(blocks=blocks)).eval()


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "model_best.pth.tar"
    torch.save({"epoch": 9, "state_dict": their_network().state_dict()}, path)
    return path


@pytest.fixture
def arguments(weights):
    kept = ["benchmark=tiny_plugins:Tiny", "noise=30.0", "query=5", "tasks=40", "device=cpu", "strategy=simpleshot"]
    return [*kept, f"checkpoint={weights}"]


@pytest.fixture
def config(arguments):
    return parse(EvaluateConfig, arguments)[0]


def test_features_are_those_of_the_network_that_wrote_the_weights(store, tracker, config, notes):
    bank = features(config, "novel", store, tracker, progress=notes)
    benchmark = config.benchmark.build()
    images = torch.from_numpy(benchmark.read("novel")[0]).float() / 255
    with torch.inference_mode():
        want = their_network()((images - benchmark.mean[0]) / benchmark.std[0]).flatten(1)
    torch.testing.assert_close(bank.features, want, rtol=1e-4, atol=1e-4)
    assert "taken from" in notes
    assert "training it first" not in notes
    assert not any("training" in bar for bar in notes.bars)


def test_weights_that_are_nan_are_refused_by_the_file_that_holds_them(store, tracker, arguments, tmp_path):
    broken = {key: value * float("nan") for key, value in their_network().state_dict().items()}
    torch.save(broken, tmp_path / "nan.pth")
    (config,) = parse(EvaluateConfig, [*arguments[:-1], f"checkpoint={tmp_path}/nan.pth"])
    with pytest.raises(InputError, match=r"nan\.pth: "):
        evaluation([config], store, tracker)
    assert not store.cache("checkpoint").exists()


@pytest.mark.parametrize(("mean", "words"), [(0.1, "name the benchmark that it was trained on"), ("x", "is damaged")])
def test_a_checkpoint_of_images_normalised_otherwise_is_refused(store, tracker, arguments, tmp_path, mean, words):
    network = create_backbone("conv4", channels=1, size=20)
    about = {"mean": [mean], "std": [0.2]}
    save_backbone(tmp_path / "best.safetensors", network, "conv4", channels=1, size=20, about=about)
    (config,) = parse(EvaluateConfig, [*arguments[:-1], f"checkpoint={tmp_path}/best.safetensors"])
    with pytest.raises(InputError, match=rf"best\.safetensors: .*{words}"):
        evaluation([config], store, tracker)
    assert not store.cache("checkpoint").exists()


def test_no_training_is_recorded_and_the_evaluation_says_what_it_stands_on(store, tracker, config, weights):
    (result,) = evaluation([config], store, tracker)
    assert read_runs(tracker, "train/") == []
    (run,) = read_runs(tracker, "evaluate/Tiny")
    assert run.name == evaluate_name(config) == "simpleshot 5w1s Tiny/model_best s0"
    assert run.params["checkpoint"] == str(weights)
    assert not any(name.startswith("training") for name in run.params)
    assert (run.tags["training"], len(run.tags["weights"])) == ("", 16)
    entry = store.find("checkpoint", Lineage.of(config).checkpoint)
    assert run.tags["checkpoint"] == entry.fingerprint
    assert entry.facts["imported"] == "model_best.pth.tar"
    (again,) = evaluation([config], store, tracker)
    assert again.reused
    np.testing.assert_array_equal(again.accuracies, result.accuracies)


def identities(arguments):
    (config,) = parse(EvaluateConfig, arguments)
    lineage = Lineage.of(config)
    return lineage.checkpoint, lineage.bank("novel"), lineage.evaluation(config)


def test_identity_is_the_content_and_no_training(arguments, weights, tmp_path):
    known = identities(arguments)
    copy = tmp_path / "another name.pth.tar"
    shutil.copy(weights, copy)
    assert identities([*arguments[:-1], f"checkpoint={copy}"]) == known
    assert identities([*arguments, "epochs=3", "learning_rate=0.5"]) == known
    assert identities([*arguments, "seed=1"])[:2] == known[:2]
    assert identities([*arguments, "seed=1"])[2] != known[2]
    torch.save(their_network(1).state_dict(), copy)
    for other in (f"checkpoint={copy}", "backbone=conv6", "noise=31.0", "checkpoint=null"):
        given = {item.partition("=")[0]: item for item in (*arguments, other)}
        assert not set(identities(list(given.values()))) & set(known), other


def test_weights_of_another_network_are_refused_before_images_are_read(store, tracker, arguments, notes):
    configs = parse(EvaluateConfig, [*arguments, "backbone=conv6"])
    with pytest.raises(InputError, match=r"model_best\.pth\.tar: .*conv6 .*blocks\.4\.0"):
        evaluation(configs, store, tracker, progress=notes)
    assert notes.bars == []
    assert not list(store.images.iterdir())
    assert not any(store.cache("checkpoint").glob("*/complete.json"))
