"""Evaluation on what is there already: features, weights, trained networks, another benchmark's, pictures."""

import pickle
import shutil

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.data import resolve_data_config
from torchvision.transforms import v2

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.benchmarks.augmentation import normalise
from fsl.benchmarks.closed_splits import ClosedSplitError, closed
from fsl.evaluation.episodic import evaluate
from fsl.features.pictures import conform, network_input
from fsl.samplers.drawn import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.weights.checkpoints import load_backbone, save_backbone
from fsl.weights.pretrained import Look
from runs.cli import main
from runs.config.configs import EvaluateConfig, TuneConfig, parse
from runs.plan import plan
from runs.record.query import read_runs
from runs.stages import given_features
from runs.stages.banks import pictures
from runs.stages.given_features import given_bank
from runs.stages.lineage import Lineage, Lineages, evaluate_name
from runs.stages.pipeline import CHECKPOINT, checkpoint, evaluation, features, tune
from runs.stages.stage import Workspace
from tests.fsl.weight_files import as_legacy_tar, as_pth, conv4, of_timm
from tests.runs.typed import latest

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


def identities(config):
    """Of checkpoint, features of base and of evaluated classes, and evaluation."""
    lineage = Lineage.of(config)
    return [lineage.checkpoint, lineage.bank("base"), lineage.bank(config.split), lineage.evaluation(config)]


def identities_of(typed, *more):
    """The last of a key counts."""
    (config,) = parse(EvaluateConfig, latest(*typed, *more))
    return identities(config)


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


def test_tuning_looks_at_validation_and_base_features_and_never_at_novel_ones(files, store, tracker, monkeypatch):
    read, load = [], given_features._read.__wrapped__
    monkeypatch.setattr(
        given_features, "_read", lambda file, split, *more: read.append(split) or load(file, split, *more)
    )
    settings = ["features=novel_features.plk,val_features.plk,base_features.plk", "strategy=laplacianshot", "query=5"]
    (files / "short.yaml").write_text("tasks: 30\nlaplacianshot:\n- {split: validation, grid: {weight: [0.1, 0.7]}}\n")
    (config,) = parse(TuneConfig, [*settings, "shot=1", "tuning=short.yaml", "device=cpu"])
    chosen = tune(config, store, tracker).tuned.values
    assert set(read) == {"base", "validation"}
    (result,) = evaluation(
        parse(EvaluateConfig, [*settings, *TASKS[:1], *TASKS[2:], f"weight={chosen['weight']}"]), store, tracker
    )
    assert result.config.strategy.options["weight"] == chosen["weight"]
    (asked,) = parse(EvaluateConfig, [*settings, "shot=1", "tasks=30", "tuning=short.yaml", "device=cpu"])
    assert [step.stage for step in plan([asked], store)] == ["tuning", "evaluation"]


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


TINY = ["benchmark=tiny_plugins:Tiny", "noise=30.0", "query=5", "tasks=40", "device=cpu", "strategy=simpleshot"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return as_legacy_tar(conv4(channels=1).state_dict(), tmp_path_factory.mktemp("weights") / "model_best")


@pytest.fixture
def arguments(weights):
    return [*TINY, f"checkpoint={weights}"]


@pytest.fixture
def config_pretrained(arguments_pretrained):
    return parse(EvaluateConfig, arguments_pretrained)[0]


@pytest.mark.slow
def test_grey_images_are_shown_in_colour_in_the_networks_own_size(
    store, tracker, config_pretrained, files_pretrained, notes, monkeypatch
):
    monkeypatch.setattr("runs.stages.banks.OF_IMAGENET", ("tiny",))
    bank = features(config_pretrained, "novel", store, tracker, progress=notes)
    assert identities(config_pretrained)[2] != identities(config_pretrained.replace(crop_pct=1.0))[2]
    network = timm.create_model("test_vit", pretrained=False).eval()
    network.load_state_dict(torch.load(files_pretrained["test_vit"], weights_only=True))
    network.reset_classifier(0)
    data = resolve_data_config({}, model=network)
    images = torch.from_numpy(config_pretrained.benchmark.build().read("novel")[0]).float().expand(-1, 3, -1, -1)
    assert data["crop_pct"] < 1
    side = data["input_size"][-1]
    larger = int(side / data["crop_pct"])
    images = torch.nn.functional.interpolate(images, (larger, larger), mode="bicubic", antialias=True)
    images = v2.functional.center_crop(images, [side, side])
    mean, std = (torch.tensor(data[key])[:, None, None] for key in ("mean", "std"))
    with torch.inference_mode():
        want = network((images.clamp(0, 255) / 255 - mean) / std)
    torch.testing.assert_close(bank.features, want, rtol=1e-3, atol=1e-4)
    assert bank.provenance["size"] == "3 x 160 x 160"
    assert "not those of few-shot learning" in notes
    assert not any("training" in bar for bar in notes.bars)


@pytest.fixture
def config(arguments):
    return parse(EvaluateConfig, arguments)[0]


def test_features_are_those_of_the_network_that_wrote_the_weights(store, tracker, config, notes):
    bank = features(config, "novel", store, tracker, progress=notes)
    benchmark = config.benchmark.build()
    images = torch.from_numpy(benchmark.read("novel")[0]).float() / 255
    with torch.inference_mode():
        want = conv4(channels=1)((images - benchmark.mean[0]) / benchmark.std[0])
    torch.testing.assert_close(bank.features, want, rtol=1e-4, atol=1e-4)
    assert "taken from" in notes
    assert "training it first" not in notes
    assert not any("training" in bar for bar in notes.bars)


def test_weights_that_are_nan_are_refused_by_the_file_that_holds_them(store, tracker, arguments, tmp_path):
    as_pth({key: value * float("nan") for key, value in conv4(channels=1).state_dict().items()}, tmp_path / "nan")
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


def test_identity_is_the_content_and_no_training(arguments, weights, tmp_path):
    known = identities_of(arguments)
    copy = tmp_path / "another name.pth.tar"
    shutil.copy(weights, copy)
    assert identities_of(arguments, f"checkpoint={copy}") == known
    assert identities_of(arguments, "epochs=3", "learning_rate=0.5") == known
    *made, evaluated = identities_of(arguments, "seed=1")
    assert made == known[:-1]
    assert evaluated != known[-1]
    torch.save({key: value / 2 for key, value in conv4(channels=1).state_dict().items()}, copy)
    for other in (f"checkpoint={copy}", "backbone=conv6", "noise=31.0", "checkpoint=null"):
        assert not set(identities_of(arguments, other)) & set(known), other


@pytest.fixture(scope="module")
def files_pretrained(tmp_path_factory):
    return of_timm(("test_vit", "test_resnet"), tmp_path_factory.mktemp("weights"))


@pytest.fixture
def arguments_pretrained(files_pretrained):
    return [*TINY, "backbone=timm:test_vit", f"pretrained={files_pretrained['test_vit']}"]


def test_identity_is_of_the_weights_and_of_what_the_network_is_shown(arguments_pretrained, files_pretrained, tmp_path):
    known = identities_of(arguments_pretrained)
    copy = tmp_path / "copy.pth"
    copy.write_bytes(files_pretrained["test_vit"].read_bytes())
    assert identities_of(arguments_pretrained, f"pretrained={copy}") == known
    assert identities_of(arguments_pretrained, "backbone=test_vit") == known
    assert identities_of(arguments_pretrained, "epochs=3") == known
    others = [
        [f"pretrained={files_pretrained['test_resnet']}"],
        ["pretrained=true"],
        ["pretrained=false"],
        ["backbone=timm:test_resnet"],
    ]
    found = [known, *(identities_of(arguments_pretrained, *other) for other in others)]
    found.append(identities_of(arguments_pretrained[:-1], f"checkpoint={copy}"))
    assert len({one for identity in found for one in identity}) == 4 * len(found)


def test_weights_that_are_not_here_are_said_before_images_are_read(
    store, monkeypatch, capsys, arguments_pretrained, tmp_path
):
    """Offline, as where nothing is said, and with a hub's cache that is empty."""
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(store.root))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # another test may have imported it before
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert main(["evaluate", *arguments_pretrained[:-1], "pretrained=true"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "timm:test_vit: its weights (huggingface.co/timm/test_vit.r160_in1k) are not on this machine" in said
    assert "HF_HUB_OFFLINE=0" in said
    assert "pretrained=FILE" in said
    assert not list(store.images.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"backbone": "conv4"}, "timm:conv4"),
        ({"backbone": "timm:test_vt"}, "'test_vit'"),
        ({"backbone": "timm:conv4"}, "write backbone=conv4"),
        ({"pretrained": "nowhere.pth"}, r"pretrained=nowhere\.pth: "),
        ({"backbone": "timm:test_resnet"}, r"test_vit\.pth: .*test_resnet"),
        ({"checkpoint": "best.pth"}, "checkpoint"),
    ],
)
def test_what_cannot_be_is_said(store, tracker, arguments_pretrained, changed, message):
    given = dict(argument.split("=", 1) for argument in arguments_pretrained) | changed
    with pytest.raises(InputError, match=message):
        evaluation(parse(EvaluateConfig, [f"{key}={value}" for key, value in given.items()]), store, tracker)


@pytest.mark.parametrize(("size", "share"), [(84, 0.875), (32, 0.8), (28, 0.5), (16, 1.0)])
def test_resize_and_centre_crop_of_torchvision(size, share):
    images = torch.rand(3, 3, size, size) * 255
    resized = v2.functional.resize(images, [int(size / share)] * 2, antialias=True)
    want = v2.functional.center_crop(resized, [size, size])
    found = network_input(images, Look(3, size, (0, 0, 0), (1, 1, 1), crop=share))
    torch.testing.assert_close(found, want / 255, rtol=0, atol=1e-5)


def test_features_are_of_the_middle_and_whole_pictures_stay_what_they_were(trained, tracker, configs, notes):
    (whole,), (middle,) = configs(), configs("crop_pct=0.875")
    before = Lineage.of(whole)
    assert "crop_pct" not in whole.result_keys()
    assert trained.peek("features", before.bank("novel")), "made before there was a choice"
    assert before.checkpoint == Lineage.of(middle).checkpoint
    assert before.bank("novel") != Lineage.of(middle).bank("novel")
    lineages = Lineages()
    assert lineages.of(whole).bank("novel") != lineages.of(middle).bank("novel")
    seen, bank = features(whole, "novel", trained, tracker), features(middle, "novel", trained, tracker, progress=notes)
    assert not torch.allclose(seen.features, bank.features)
    assert not torch.allclose(seen.base_mean, bank.base_mean), "the mean is of pictures that are shown alike"
    assert "the middle 0.875" in bank.provenance["transform"]
    assert "extracting features" in notes.bars


TARGET = "target=tiny_plugins:Coloured"


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
    plain, crossed = identities(*configs()), identities(*configs(TARGET))
    assert crossed[:2] == plain[:2]
    assert not set(crossed[2:]) & set(plain)
    assert identities(*configs(TARGET, "split=validation")) == identities(*configs("split=validation"))
    assert identities(*configs("target=same")) == plain
    assert identities(*configs(TARGET, "target.known=1"))[2:] != crossed[2:]
    public = identities(*configs(TARGET, "base_mean=target"))
    assert public[:3] == crossed[:3]
    assert public[3] != crossed[3]


def test_classes_that_the_network_was_trained_on_are_refused(trained, tracker, configs):
    with pytest.raises(InputError, match=r"target=coloured: .* 2 .*base 0"):
        evaluation(configs(TARGET, "target.known=2"), trained, tracker)


def test_a_closed_split_is_closed_in_the_target_too(trained, tracker, configs):
    with closed("novel"), pytest.raises(ClosedSplitError):
        evaluation(configs(TARGET), trained, tracker)


@pytest.fixture
def tuned(tiny_arguments):
    """One of each on six tasks, of seconds."""
    typed = [
        item.replace("learning_rate=", "training.learning_rate=") for item in tiny_arguments if "tasks=" not in item
    ]
    strategies = ["strategy=transductive_fine_tuning,simpleshot", "max_iter=2"]
    return parse(EvaluateConfig, [*typed, *strategies, "validation_tasks=20", "tasks=6"])


def test_it_stands_beside_strategies_on_features(tuned, trained, tracker, notes):
    first, second = evaluation(tuned, trained, tracker, progress=notes)
    assert first.key != second.key
    assert first.class_names == second.class_names
    assert first.classes.asked.tolist() == second.classes.asked.tolist(), "the same tasks"
    assert first.iterations.tolist() == [2] * 6
    assert first.seconds_per_task > 0
    assert second.seconds_per_task > 0
    assert np.isfinite(first.accuracies).all()
    assert [result.reused for result in evaluation(tuned, trained, tracker)] == [True, True]
    assert not (trained.cache("evaluation") / f"{first.key}.partial").exists()


@pytest.fixture(params=[None, 0.5])
def shown(request, tuned):
    """Ways to show pictures to a network."""
    return tuned[0].replace(tasks=5, strategy=tuned[0].strategy.at({"max_iter": 0}), crop_pct=request.param)


def test_it_sees_the_pictures_that_features_are_made_of(shown, tuned, trained, tracker):
    bank, seen = (
        features(shown, "novel", trained, tracker),
        pictures(shown, Lineage.of(shown), Workspace(trained, tracker)),
    )
    rows = torch.arange(0, len(bank.features), 7)
    with torch.inference_mode():
        found = seen.network(seen.shown(rows, torch.device("cpu")))
    torch.testing.assert_close(found, bank.features[rows], rtol=1e-3, atol=1e-4)
    prototypes = shown.replace(strategy=tuned[1].strategy.at({"transform": "L2N"}))
    untuned, nearest = evaluation([shown, prototypes], trained, tracker)
    np.testing.assert_allclose(untuned.accuracies, nearest.accuracies)
