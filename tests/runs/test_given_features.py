"""Evaluation and tuning on features that are there already: without images, without a network."""

import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from clustering.foundation.errors import InputError
from fsl.evaluation.episodic import evaluate
from fsl.samplers.drawn import Balanced
from fsl.strategies.simpleshot import SimpleShot
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.record.query import read_runs
from runs.stages.given_features import given_bank
from runs.stages.lineage import Lineage, evaluate_name
from runs.stages.pipeline import evaluation

TASKS = ["tasks=30", "query=5", "shot=1", "device=cpu"]


def rows(first, classes=6, each=12, size=8):
    """Features by class, each near a mean of its own; all of them off the origin."""
    random = np.random.default_rng(first)
    means = random.normal(3, 1, (classes, size))
    return {
        first + label: list((mean + random.normal(0, 0.4, (each, size))).astype("f4"))
        for label, mean in enumerate(means)
    }


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for first, name in ((0, "base_features.plk"), (20, "val_features.plk"), (40, "novel_features.plk")):
        (tmp_path / name).write_bytes(pickle.dumps(rows(first)))
    mean = np.concatenate([np.array(part) for part in rows(0).values()]).mean(0)
    (tmp_path / "output.plk").write_bytes(pickle.dumps([mean, mean, rows(40), {}]))
    return tmp_path


def configs(*settings, kind=EvaluateConfig):
    return parse(kind, [*TASKS, "strategy=simpleshot", *settings] if kind is EvaluateConfig else settings)


def identity(*settings):
    (config,) = configs(*settings)
    return Lineage.of(config).evaluation(config)


def test_accuracies_are_those_of_the_features(files, store, tracker):
    (result,) = evaluation(configs("features=output.plk"), store, tracker)
    bank = given_bank(("output.plk",), "novel")
    tasks = Balanced(shot=1, query=5).tasks(bank.labels, 0, bank.class_names)
    wanted = evaluate({"a": SimpleShot()}, bank, tasks, 30)["a"].accuracies
    np.testing.assert_array_equal(result.accuracies, wanted)
    (again,) = evaluation(configs("features=output.plk"), store, tracker)
    assert again.reused
    assert not list(store.images.iterdir())
    assert not store.cache("checkpoint").exists()
    (run,) = read_runs(tracker, "evaluate/features")
    assert run.name == evaluate_name(again.config) == "simpleshot 5w1s features/output s0"
    assert run.params["features"] == "[output.plk]"
    assert not {"benchmark", "backbone", "training"} & run.params.keys()
    assert run.tags["features"] == bank.fingerprint()


def test_a_run_is_known_by_the_features_not_by_their_file(files):
    known = identity("features=output.plk")
    shutil.copy("output.plk", "another.plk")
    assert main(["import", "features", "output.plk", "-q"]) == 0
    bank = given_bank(("output.plk",), "novel")
    arrays = {"features": bank.features, "labels": bank.labels, "base_mean": bank.base_mean}
    save_file(arrays, "foreign.safetensors")
    torch.save(arrays, "foreign.pt")
    assert identity("features=foreign.pt", "transform=L2N") == identity("features=foreign.safetensors", "transform=L2N")
    for same in ("another.plk", "output.safetensors", "output.plk,val_features.plk"):
        assert identity(f"features={same}") == known, same
    assert identity("features=novel_features.plk", "transform=L2N") != known
    assert identity("features=output.plk", "seed=1") != known
    changed = rows(40)
    changed[40][0] = changed[40][0] + 1
    (files / "another.plk").write_bytes(pickle.dumps([np.zeros(8, "f4"), 0, changed, {}]))
    assert identity("features=another.plk") != known


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("none.plk", "features=none.plk: "),
        ("val_features.plk", "split=novel"),
        ("output.plk,novel_features.plk", "output.plk and novel_features.plk"),
        ("novel_features.plk", "transform=L2N"),
        ("wide_base.plk,novel_features.plk", "wide_base.plk has 9 .*novel_features.plk has 8"),
        ("rubbish.safetensors", "rubbish.safetensors: "),
        ("rubbish.npz", "rubbish.npz: "),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_run(files, store, tracker, given, words):
    (files / "wide_base.plk").write_bytes(pickle.dumps(rows(0, size=9)))
    for name in ("rubbish.safetensors", "rubbish.npz"):
        (files / name).write_bytes(b"not one at all")
    with pytest.raises(InputError, match=words):
        evaluation(configs(f"features={given}"), store, tracker)
    assert not tracker.exists() or read_runs(tracker, "evaluate/") == []
