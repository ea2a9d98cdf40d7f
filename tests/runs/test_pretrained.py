"""Networks with weights that people have already: images in the size and colours that the network knows."""

import pytest
import timm
import torch

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.lineage import Lineage
from runs.stages.pipeline import evaluation


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("weights"), {}
    for name in ("test_vit", "test_resnet"):
        torch.manual_seed(0)
        found[name] = folder / f"{name}.pth"
        torch.save(timm.create_model(name, pretrained=False).state_dict(), found[name])
    return found


@pytest.fixture
def arguments(files):
    kept = ["benchmark=tiny_plugins:Tiny", "noise=30.0", "query=5", "tasks=40", "device=cpu", "strategy=simpleshot"]
    return [*kept, "backbone=timm:test_vit", f"pretrained={files['test_vit']}"]


@pytest.fixture
def config(arguments):
    return parse(EvaluateConfig, arguments)[0]


def identities(arguments):
    (config,) = parse(EvaluateConfig, arguments)
    lineage = Lineage.of(config)
    return lineage.checkpoint, lineage.bank("novel"), lineage.evaluation(config)


def test_identity_is_of_the_weights_and_of_what_the_network_is_shown(arguments, files, tmp_path):
    known = identities(arguments)
    copy = tmp_path / "copy.pth"
    copy.write_bytes(files["test_vit"].read_bytes())
    assert identities([*arguments[:-1], f"pretrained={copy}"]) == known
    assert identities([*arguments[:-2], "backbone=test_vit", arguments[-1]]) == known
    assert identities([*arguments, "epochs=3"]) == known
    others = [
        [*arguments[:-1], f"checkpoint={copy}"],
        [*arguments[:-1], "pretrained=true"],
        [*arguments[:-1], "pretrained=false"],
        [*arguments[:-1], f"pretrained={files['test_resnet']}"],
        [*arguments[:-2], "backbone=timm:test_resnet", arguments[-1]],
    ]
    found = [known, *map(identities, others)]
    assert len({identity for three in found for identity in three}) == 3 * len(found)


def test_weights_that_are_not_here_are_said_before_images_are_read(store, monkeypatch, capsys, arguments, tmp_path):
    """Offline, as where nothing is said, and with a hub's cache that is empty."""
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(store.root))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # another test may have imported it before
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert main(["evaluate", *arguments[:-1], "pretrained=true"]) == 2
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
def test_what_cannot_be_is_said(store, tracker, arguments, changed, message):
    given = dict(argument.split("=", 1) for argument in arguments) | changed
    with pytest.raises(InputError, match=message):
        evaluation(parse(EvaluateConfig, [f"{key}={value}" for key, value in given.items()]), store, tracker)
