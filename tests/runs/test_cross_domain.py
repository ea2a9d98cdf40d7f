"""Tasks of one benchmark on the network of another: nothing is trained for it, and the base mean is the source's."""

import json

import numpy as np
import pytest
import tiny_plugins
import torch

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import normalise
from fsl.evaluation.closed_splits import ClosedSplitError, closed
from fsl.features.conforming import conform
from fsl.training.base import load_backbone
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.plan import plan
from runs.record.query import read_runs
from runs.stages.lineage import Lineage, evaluate_name
from runs.stages.pipeline import CHECKPOINT, checkpoint, evaluation, features

TARGET = "target=tiny_plugins:Coloured"


def identities(configs):
    (config,) = configs
    lineage = Lineage.of(config)
    return lineage.checkpoint, lineage.bank("base"), lineage.bank(config.split), lineage.evaluation(config)


def test_the_network_of_the_source_is_used_as_it_is(trained, tracker, configs, notes):
    (config,) = configs(TARGET)
    (result,) = evaluation([config], trained, tracker, progress=notes)
    assert notes.bars == [
        *("reading coloured, novel", "decoding coloured, novel"),
        *("extracting features", "evaluating"),
    ]
    (training,) = read_runs(tracker, "train/")
    assert training.name == "Tiny/conv4 s0", "its training was in the cache, and is recorded"
    (run,) = read_runs(tracker, "evaluate/Tiny")
    assert run.name == evaluate_name(config) == "simpleshot 5w1s Tiny/conv4 on Coloured s0"
    assert run.params["target"] == "tiny_plugins:Coloured"
    assert run.params["base_mean"] == "source"
    assert len(run.tags["target_data"]) == 16
    assert run.tags["data"] == Lineage.of(configs()[0]).source
    assert 0.2 < result.accuracy <= 1
    (again,) = evaluation([config], trained, tracker)
    assert again.reused


def test_features_are_those_of_images_made_like_the_source(trained, tracker, configs):
    (config,) = configs(TARGET)
    bank = features(config, "novel", trained, tracker)
    images, labels, names = config.target.build().read("novel")
    backbone = load_backbone(checkpoint(config, trained, tracker).path / CHECKPOINT)
    with torch.inference_mode():
        source = config.benchmark.build()
        want = backbone(normalise(conform(torch.from_numpy(images), 1, 16), source.mean, source.std))
    torch.testing.assert_close(bank.features, want, rtol=1e-4, atol=1e-4)
    assert bank.labels.tolist() == labels.tolist()
    assert bank.class_names == names


def test_the_base_mean_is_the_sources_unless_the_targets_is_asked_for(trained, tracker, configs):
    (honest,), (public,) = configs(TARGET), configs(TARGET, "base_mean=target")
    ours, theirs = (features(config, "novel", trained, tracker) for config in (honest, public))
    assert torch.equal(ours.features, theirs.features)
    base = features(configs()[0], "base", trained, tracker)
    torch.testing.assert_close(ours.base_mean, base.features.mean(0))
    target = honest.target.build()
    backbone = load_backbone(checkpoint(honest, trained, tracker).path / CHECKPOINT)
    with torch.inference_mode():
        shown = conform(torch.from_numpy(target.read("base")[0]), 1, 16)
        want = backbone(normalise(shown, honest.benchmark.build().mean, honest.benchmark.build().std)).mean(0)
    torch.testing.assert_close(theirs.base_mean, want, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(ours.base_mean, theirs.base_mean, atol=1e-3)
    assert theirs.provenance["base_mean"] == "target"


def test_both_means_in_one_command_are_told_apart(trained, tracker, configs):
    found = evaluation(configs(TARGET, "base_mean=source,target"), trained, tracker)
    assert [result.config.base_mean for result in found] == ["source", "target"]
    assert not np.array_equal(found[0].accuracies, found[1].accuracies)
    runs = read_runs(tracker, "evaluate/Tiny")
    assert sorted(run.params["base_mean"] for run in runs) == ["source", "target"]


def test_only_the_novel_classes_are_the_targets(configs):
    plain, crossed = identities(configs()), identities(configs(TARGET))
    assert crossed[:2] == plain[:2]
    assert not set(crossed[2:]) & set(plain)
    assert identities(configs(TARGET, "split=validation")) == identities(configs("split=validation"))
    assert identities(configs("target=same")) == plain
    assert identities(configs(TARGET, "target.known=1"))[2:] != crossed[2:]
    public = identities(configs(TARGET, "base_mean=target"))
    assert public[:3] == crossed[:3]
    assert public[3] != crossed[3]


@pytest.mark.parametrize("keys", [("base_mean=target",), (TARGET, "base_mean=target", "split=validation")])
def test_a_target_mean_needs_a_target(configs, keys):
    with pytest.raises(InputError, match="target=NAME"):
        configs(*keys)


def test_an_unknown_target_gives_the_nearest(configs):
    with pytest.raises(InputError, match="'omniglot'"):
        configs("target=omniglott")


def test_classes_that_the_network_was_trained_on_are_refused(trained, tracker, configs):
    with pytest.raises(InputError, match=r"target=coloured: .* 2 .*base 0"):
        evaluation(configs(TARGET, "target.known=2"), trained, tracker)


def test_a_closed_split_is_closed_in_the_target_too(trained, tracker, configs):
    with closed("novel"), pytest.raises(ClosedSplitError):
        evaluation(configs(TARGET), trained, tracker)


def test_the_config_in_the_run_is_enough_to_run_it_again(trained, tracker, configs, tmp_path):
    (config,) = configs(TARGET, "target.known=0", "base_mean=target")
    (result,) = evaluation([config], trained, tracker)
    text = tracker.download(result.run_id, "config.yaml", tmp_path)
    assert parse(EvaluateConfig, [f"experiment={text}"]) == [config]


def test_the_plan_names_what_is_of_the_target(trained, tracker, configs):
    steps = plan(configs(TARGET, "base_mean=target"), trained).steps
    assert [(step.stage, step.name, step.state) for step in steps] == [
        ("checkpoint", "Tiny/conv4 s0", "cached"),
        ("features", "Tiny/conv4 s0 base", "cached"),
        ("features", "Tiny/conv4 s0 coloured base", "to do"),
        ("features", "Tiny/conv4 s0 coloured novel", "to do"),
        ("evaluation", "simpleshot 5w1s Tiny/conv4 on Coloured s0", "to do"),
    ]


def test_the_table_shows_the_target(trained, tiny_arguments, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(trained.root))
    monkeypatch.chdir(tmp_path)
    lines = [argument.replace("=", ": ", 1) for argument in [*tiny_arguments, "strategy=simpleshot", "shot=1,2"]]
    (tmp_path / "mine.yaml").write_text("\n".join(lines))
    asked = ["experiment=mine.yaml", TARGET, "base_mean=target"]
    assert main(["evaluate", *asked, "--json"]) == 0
    want = [result["accuracy"] for result in json.loads(capsys.readouterr().out)]
    assert main(["table", "mine.yaml", *asked[1:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["reproduced"] for cell in found] == pytest.approx([100 * accuracy for accuracy in want])
    assert main(["table", "mine.yaml", *asked[1:]]) == 0
    assert "on Coloured, base mean of the target" in capsys.readouterr().out
    assert main(["table", "mine.yaml"]) == 0
    assert "2 missing cells can be run" in capsys.readouterr().err


def test_tasks_are_written_of_the_targets_classes(store, monkeypatch, tiny_arguments, tmp_path):
    from fsl.tasks import Tasks

    monkeypatch.setenv("TRANSDUCE_RESULTS", str(store.root))
    path = tmp_path / "tasks.safetensors"
    assert main(["tasks", str(path), *tiny_arguments, TARGET]) == 0
    written = Tasks.load(path)
    _, labels, _ = tiny_plugins.Coloured().read("novel")
    assert len(written) == 40
    assert np.array_equal(written.classes.gather(1, written.support_labels), labels[written.support])
    assert not list(store.images.iterdir()), "its labels are enough"


def test_which_folder_is_missing_is_said_with_its_key():
    for groups, key in (
        (["benchmark=glyphs", "target=cub"], "target"),
        (["benchmark=mini", "target=glyphs"], "benchmark"),
    ):
        (config,) = parse(EvaluateConfig, [*groups, "strategy=simpleshot"])
        with pytest.raises(InputError, match=rf"{key}\.root=FOLDER"):
            Lineage.of(config)
    assert all(config.crosses for config in parse(EvaluateConfig, ["experiment=mini_to_cub"]))
