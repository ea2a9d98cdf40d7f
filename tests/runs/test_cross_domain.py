"""Tasks of one benchmark on the network of another: nothing is trained for it, and the base mean is the source's."""

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.benchmarks.augmentation import normalise
from fsl.benchmarks.closed_splits import ClosedSplitError, closed
from fsl.features.pictures import conform
from fsl.weights.checkpoints import load_backbone
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


def test_classes_that_the_network_was_trained_on_are_refused(trained, tracker, configs):
    with pytest.raises(InputError, match=r"target=coloured: .* 2 .*base 0"):
        evaluation(configs(TARGET, "target.known=2"), trained, tracker)


def test_a_closed_split_is_closed_in_the_target_too(trained, tracker, configs):
    with closed("novel"), pytest.raises(ClosedSplitError):
        evaluation(configs(TARGET), trained, tracker)
