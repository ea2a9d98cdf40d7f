"""Checkpoint, features, evaluation: made once, reused, made again where they are damaged or of something else."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from clustering.files.tensors import write_tensors
from runs.cache import Store
from runs.plan import plan, summary
from runs.stages.lineage import Lineage
from runs.stages.pipeline import features
from tests.runs.records import runs_of


@pytest.mark.parametrize("damage", ["changed", "NaN", "wrong dimension"])
def test_a_damaged_feature_bank_is_made_again(trained, tracker, configs, notes, damage):
    (config,) = configs()
    whole = features(config, "novel", trained, tracker).fingerprint()  # the bank itself is mapped from the file
    folder = trained.cache("features") / Lineage.of(config).bank("novel")
    path = folder / "features.safetensors"
    if damage == "changed":
        path.write_bytes(path.read_bytes()[:-4] + b"abcd")
    else:  # with checksums that fit: the bank itself must be checked, too
        with safe_open(path, framework="pt") as file:
            header = file.metadata()
        tensors = {key: value.clone() for key, value in load_file(path).items()}
        if damage == "NaN":
            tensors["features"][3, 2] = torch.nan
        else:
            tensors["base_mean"] = tensors["base_mean"][:-1].clone()
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
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    first = next(iter(weights))
    weights[first] = weights[first] * 1.5
    write_tensors(target, weights, header)


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


def test_other_images_and_revisions_are_part_of_the_key(configs, monkeypatch):
    import tiny_plugins

    import runs.stages.lineage

    (config,) = configs()
    before = Lineage.of(config)
    evaluated, bank = before.evaluation(config), before.bank("novel")
    with monkeypatch.context() as patch:
        patch.setattr(tiny_plugins.Tiny, "source", lambda self: "other images")
        assert Lineage.of(config).checkpoint != before.checkpoint
        assert Lineage.of(config).evaluation(config) != evaluated
    with monkeypatch.context() as patch:
        patch.setattr(tiny_plugins.Tiny, "std", (0.3,))
        assert Lineage.of(config).checkpoint != before.checkpoint
    for kind in (config.strategy.outline, config.sampler.outline):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "revision", 2, raising=False)
            assert Lineage.of(config).evaluation(config) != evaluated
            assert Lineage.of(config).bank("novel") == bank, "hours of training are not thrown away"
    places = {"TRAINING": runs.stages.lineage, "FEATURES": runs.stages.lineage, "EVALUATION": runs.stages.lineage}
    for part, module in places.items():
        with monkeypatch.context() as patch:
            patch.setattr(module, part, 9)
            assert Lineage.of(config).evaluation(config) != evaluated


def test_the_plan_makes_nothing_and_knows_what_is_there(tmp_path, configs, trained, evaluate, tracker):
    new = Store(tmp_path / "new")
    made = plan(configs("shot=1,5"), new)
    assert not new.root.exists()
    assert sum(step.runs for step in made) == 3
    assert [step.stage for step in made] == ["checkpoint", *["features"] * 2, *["evaluation"] * 2]
    assert {step.state for step in made} == {"to do"}
    assert summary(made) == "5 stages, 0 cached; 3 new runs"
    evaluate(configs())
    made = plan(configs("shot=1,5"), trained)
    assert sum(step.runs for step in made) == 1
    assert [(step.stage, step.state) for step in made] == [
        ("checkpoint", "cached"),
        ("features", "cached"),
        ("features", "cached"),
        ("evaluation", "cached"),
        ("evaluation", "to do"),
    ]
