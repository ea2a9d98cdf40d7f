"""Checkpoint, features, evaluation: made once, reused, made again where they are damaged or of something else."""

import json
import os

import numpy as np
import pytest
import torch

from clustering.files.checksums import with_checksum
from clustering.foundation.errors import InputError
from fsl.benchmarks.images import images_source
from fsl.features.bank import FeatureBank
from runs.cache import Store
from runs.config.configs import EvaluateConfig, TrainConfig, parse
from runs.record.query import read_runs
from runs.stages.lineage import Lineage
from runs.stages.pipeline import CHECKPOINT, checkpoint, evaluation, features
from runs.track import Tracker
from tests.runs.records import runs_of


def test_from_nothing_to_results(trained_results, tiny_arguments, notes):
    """The whole way was gone once for all tests; here is what it left."""
    store = Store(trained_results)
    tracker = Tracker(store)
    (config,) = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot"])
    (run,) = runs_of(tracker, "evaluate/Tiny")
    (training,) = runs_of(tracker, "train/Tiny")
    assert run.info.status == training.info.status == "FINISHED"
    assert run.info.run_name == "simpleshot 5w1s Tiny/conv4 s0"
    assert training.info.run_name == "Tiny/conv4 s0"
    metrics, tags_data = run.data.metrics, run.data.tags["data"]
    assert metrics.keys() >= {"accuracy", "accuracy_ci95", "seconds_per_task", "iterations_mean", "seconds"}
    assert 0.5 < metrics["accuracy"] <= 1
    assert run.data.params["strategy"] == "simpleshot"
    assert run.data.params["training.epochs"] == "3"
    assert "strategy.transform" not in run.data.params, "a default"
    (row,) = read_runs(tracker, "evaluate/Tiny")
    assert row.params == {name: str(value) for name, value in config.flat().items()}
    assert [(one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs] == [("tiny", tags_data)]
    assert run.data.tags["training_run"] == training.info.run_id
    tags = run.data.tags
    assert (tags["way"], tags["shot"], tags["seed"], tags["split"], tags["strategy"]) == (
        *("5", "1", "0", "novel"),
        "simpleshot",
    )
    assert tags["data"] == training.data.tags["data"] == images_source(config.benchmark.build())
    curve = tracker.client.get_metric_history(training.info.run_id, "train/loss_epoch")
    assert len(curve) == 3
    assert tracker.client.get_metric_history(training.info.run_id, "val/laplacianshot")
    assert len(training.outputs.model_outputs) == 1
    assert training.data.metrics["best_validation_accuracy"] > 0.2
    # The config in the run is enough to run it again.
    text = tracker.download(run.info.run_id, "config.yaml", store.tables.parent)
    assert parse(EvaluateConfig, [f"experiment={text}"]) == [config]
    (found,) = evaluation([config], store, tracker, progress=notes)
    assert found.reused
    assert found.accuracy == pytest.approx(metrics["accuracy"])
    assert found.ci95 == pytest.approx(metrics["accuracy_ci95"])
    assert notes.bars == [], "nothing is computed"


def test_strategies_share_tasks_and_features(trained, evaluate, tiny_arguments, notes, monkeypatch):
    import fsl.evaluation.episodic

    calls = []
    real = fsl.evaluation.episodic.evaluate
    monkeypatch.setattr(
        fsl.evaluation.episodic, "evaluate", lambda s, *a, **k: calls.append(list(s)) or real(s, *a, **k)
    )
    arguments = [*tiny_arguments, "strategy=simpleshot,laplacianshot", "shot=1,3"]
    results = evaluate(parse(EvaluateConfig, arguments))
    assert sorted(map(tuple, calls)) == [("simpleshot", "laplacianshot")] * 2
    assert len({result.run_id for result in results}) == 4
    assert notes.bars.count("evaluating") == 2
    kept = [result for result in results if result.config.strategy.name == "laplacianshot"]
    assert all(result.trace is not None for result in kept)
    again = evaluate(parse(EvaluateConfig, arguments))
    assert all(result.reused for result in again)
    for old, new in zip(results, again, strict=True):
        np.testing.assert_array_equal(new.accuracies, old.accuracies)
        if old.trace is not None:
            np.testing.assert_array_equal(new.trace, old.trace)


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "one byte", "other kind", "pipe"])
@pytest.mark.parametrize("name", ["per_task.npz", "complete.json", "metrics.json"])
def test_a_damaged_result_is_evaluated_again(trained, evaluate, configs, notes, damage, name):
    (first,) = evaluate(configs())
    path = trained.cache("evaluation") / first.key / name
    content = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage != "missing":
        other = bytes([content[40] ^ 1])
        changed = {
            "cut": content[:-10],
            "empty": b"",
            "other kind": b"[]",
            "one byte": content[:40] + other + content[41:],
        }
        path.write_bytes(changed[damage])
    (second,) = evaluate(configs())
    assert not second.reused
    assert "is damaged" in notes
    np.testing.assert_array_equal(second.accuracies, first.accuracies)


@pytest.mark.parametrize("damage", ["cut", "changed", "NaN", "wrong dimension"])
def test_a_damaged_feature_bank_is_made_again(trained, tracker, configs, notes, damage):
    (config,) = configs()
    whole = features(config, "novel", trained, tracker).fingerprint()  # the bank itself is mapped from the file
    folder = trained.cache("features") / Lineage.of(config).bank("novel")
    path = folder / "features.safetensors"
    data = path.read_bytes()
    if damage in ("cut", "changed"):
        path.write_bytes(data[:-10] if damage == "cut" else data[:-4] + b"abcd")
    else:  # with checksums that fit: the bank itself must be checked, too
        from safetensors.torch import load_file, save_file

        bank = FeatureBank.load(path)
        tensors = {key: value.clone() for key, value in load_file(path).items()}
        if damage == "NaN":
            tensors["features"][3, 2] = torch.nan
        else:
            tensors["base_mean"] = tensors["base_mean"][:-1].clone()
        header = {
            "format": "transduce features 1",
            "class_names": json.dumps(bank.class_names),
            "provenance": json.dumps(dict(bank.provenance)),
        }
        trained.publish("features", folder.name, lambda new: save_file(tensors, new / path.name, header))
    again = features(config, "novel", trained, tracker, progress=notes)
    assert "renamed to" in notes
    assert again.fingerprint() == whole
    assert folder.with_name(folder.name + ".damaged-1").exists()


def test_features_of_an_earlier_checkpoint_are_not_used(trained, tracker, configs, evaluate, notes):
    (config,) = configs()
    evaluate([config])
    lineage = Lineage.of(config)
    old = trained.find("checkpoint", lineage.checkpoint)
    new = trained.publish(
        "checkpoint",
        lineage.checkpoint,
        lambda folder: retrain_a_little(old.path / "best.safetensors", folder / "best.safetensors"),
        config=old.config,
        metrics=old.metrics,
        facts=old.facts,
    )
    assert new.fingerprint != old.fingerprint
    bank = features(config, "novel", trained, tracker, progress=notes)
    assert notes.bars.count("extracting features") == 2, "of the novel and of the base classes"
    assert bank.provenance["checkpoint"] == new.fingerprint
    (again,) = evaluate([config])
    assert not again.reused
    assert "was computed with an earlier checkpoint" in notes


def retrain_a_little(path, target):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    first = next(iter(weights))
    weights[first] = weights[first] * 1.5
    save_file(weights, target, with_checksum(weights, header))


def test_the_base_mean_is_that_of_the_base_features(trained, tracker, configs):
    (config,) = configs()
    base, novel = (features(config, split, trained, tracker) for split in ("base", "novel"))
    torch.testing.assert_close(novel.base_mean, base.features.mean(dim=0))
    torch.testing.assert_close(base.base_mean, novel.base_mean)
    assert novel.class_names[0] == "novel 0"


def test_a_damaged_checkpoint_is_trained_again(trained, tracker, tiny_arguments, notes):
    (config,) = parse(TrainConfig, [item for item in tiny_arguments if not item.startswith(("query", "tasks"))])
    made = checkpoint(config, trained, tracker)
    assert made.reused
    before = (made.path / CHECKPOINT).read_bytes()
    (made.path / CHECKPOINT).write_bytes(before[: len(before) // 2])
    again = checkpoint(config, trained, tracker, progress=notes)
    assert not again.reused
    assert "is damaged" in notes
    assert again.fingerprint == made.fingerprint, "the same training on the same machine"
    assert runs_of(tracker, "train/Tiny")[0].info.status == "FINISHED"


@pytest.mark.parametrize(
    ("keys", "words"),
    [(["way=5,8"], "way=8"), (["shot=16"], "shot=16"), (["query=20"], "query=20")],
)
def test_impossible_tasks_are_refused_before_anything_is_trained(store, tracker, configs, keys, words):
    with pytest.raises(InputError, match=words):
        evaluation(configs(*keys), store, tracker)
    assert not store.cache("checkpoint").exists()
    assert not any(store.images.iterdir())
    assert not any(path.name.startswith("evaluation") for path in store.locks.iterdir())
    assert not runs_of(tracker, "evaluate/Tiny")


def test_what_is_no_strategy_is_refused_before_anything_is_trained(store, tracker, configs):
    with pytest.raises(InputError, match=r"NoStrategy lacks a field transform"):
        evaluation(configs("strategy=tiny_plugins:NoStrategy"), store, tracker)
    assert not store.cache("checkpoint").exists()


def test_a_strategy_that_fails_leaves_the_others_of_its_group_recorded(trained, evaluate, configs, tracker, notes):
    mixed = ["strategy=simpleshot,tiny_plugins:Failing", "shot=1,2"]
    with pytest.raises(RuntimeError, match="Failing: ZeroDivisionError: on purpose"):
        evaluate(configs(*mixed))
    states = {(run.data.params["strategy"], run.info.status) for run in runs_of(tracker, "evaluate/Tiny")}
    assert states == {("simpleshot", "FINISHED"), ("tiny_plugins:Failing", "FAILED")}
    for shot in (1, 2):
        (line,) = (note for note in notes.notes if note.startswith(f"failed: Failing 5w{shot}s"))
        assert "ZeroDivisionError: on purpose" in line
    assert [result.reused for result in evaluate(configs("shot=1,2"))] == [True, True]


def test_a_full_disk_while_recording(trained, evaluate, configs, tracker, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fsl.evaluation.scores.np.savez_compressed", full)
        with pytest.raises(OSError, match="the disk is full"):
            evaluate(configs())
    assert [run.info.status for run in runs_of(tracker, "evaluate/Tiny")] == ["FAILED"]
    assert not evaluate(configs())[0].reused
    assert evaluate(configs())[0].reused
