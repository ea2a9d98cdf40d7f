"""Weights of other programs: the same network comes out, or it is said why not; nothing in a file is run."""

import functools
import os

import numpy as np
import pytest
import timm
import torch
import torchvision
from torch import nn

from clustering.foundation.errors import InputError
from fsl.backbones import OWN, create_backbone
from fsl.benchmarks.papers import MiniImageNet
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.pictures import Pictures
from fsl.samplers.drawn import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.weights.foreign import import_backbone
from fsl.weights.pretrained import Look
from tests.fsl.weight_files import as_double, as_legacy_tar, as_npz, as_pth, as_safetensors, conv4, prefixed
from tests.oracles import papers_networks as papers


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar, as_double])
@pytest.mark.parametrize(("name", "depth"), [("conv4", 4), ("conv6", 6)])
def test_features_are_those_of_the_network_that_wrote_the_file(tmp_path, write, name, depth):
    theirs = conv4(depth)
    ours = import_backbone(write(theirs.state_dict(), tmp_path / "weights"), name, channels=3, size=32)
    images = torch.rand(4, 3, 32, 32) * 2 - 1
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)
    assert not ours.training
    assert {tensor.dtype for tensor in ours.parameters()} == {torch.float32}


def test_layers_filed_under_several_names_count_once(tmp_path):
    """CloserLookFewShot keeps each layer by itself and inside a sequence, so that its files hold it twice."""
    theirs, state = conv4(), {}
    for i in range(4):
        for part, index in (("C", 0), ("BN", 1)):
            for place in (f"trunk.{i}.{part}", f"trunk.{i}.trunk.{index}"):
                state |= prefixed(getattr(theirs, f"conv{i + 1}")[index].state_dict(), f"feature.{place}.")
    ours = import_backbone(as_pth(state, tmp_path / "w"), "conv4", channels=3, size=16)
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)


PUBLIC = {
    "resnet18_84": (papers.resnet, "fc"),
    "resnet50_84": (functools.partial(papers.resnet, blocks=(3, 4, 6, 3), bottleneck=True), "fc"),
    "wrn28_10": (papers.wide_resnet, "linear"),
    "densenet121_84": (papers.densenet, "classifier"),
    "mobilenet_84": (papers.mobilenet, "linear"),
    "resnet12": (papers.resnet12, "fc"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("resnet12", "mobilenet_84"))) for name in PUBLIC],
)
def test_weights_of_the_papers_networks_give_the_features_of_their_code(tmp_path, name):
    """As their authors' files are: under `module.`, with the classifier, beside the epoch."""
    forward, head = PUBLIC[name]
    weights = papers.Drawn(seed=6)
    images = torch.randn(2, 3, 16, 16).double()
    features = forward(weights, images)
    state = weights | {f"{head}.weight": torch.zeros(64, features.shape[1]), f"{head}.bias": torch.zeros(64)}
    torch.save({"epoch": 90, "state_dict": prefixed(state, "module.")}, tmp_path / "best.pth.tar")
    found = import_backbone(tmp_path / "best.pth.tar", name, channels=3, size=16)
    assert sum(weight.numel() for weight in found.parameters()) == sum(
        tensor.numel() for key, tensor in weights.items() if "running" not in key
    )
    with torch.inference_mode():
        torch.testing.assert_close(found.double()(images), features, rtol=1e-6, atol=1e-6)
    assert found.left_out == (f"module.{head}.weight", f"module.{head}.bias")


def drawn(network):
    """With statistics that differ from layer to layer, so that no two can be mistaken for each other."""
    generator = torch.Generator().manual_seed(3)
    for name, tensor in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 1.5, generator=generator)
    return network.eval()


def test_networks_of_torchvision_are_those_of_timm(tmp_path):
    network = drawn(torchvision.models.resnet18(weights=None))
    found = import_backbone(as_pth(network.state_dict(), tmp_path / "w"), "resnet18", channels=3, size=64)
    network.fc = nn.Identity()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(found(images), network(images), rtol=1e-4, atol=1e-5)
    assert found.left_out == ("fc.weight", "fc.bias")


@pytest.mark.parametrize(("name", "size"), [("test_vit", 160), ("test_convnext", 64), ("test_vit", 96)])
def test_networks_of_timm_without_their_classifier(tmp_path, name, size):
    """At another size a transformer's position embeddings are resized, as timm does it."""
    network = drawn(timm.create_model(name, pretrained=False))
    path = as_pth(network.state_dict(), tmp_path / "w")
    found = import_backbone(path, name, channels=3, size=size)
    options = {"img_size": size} if name == "test_vit" else {}
    file = {"file": str(path), "hf_hub_id": None, "url": ""}
    want = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=file, num_classes=0, **options).eval()
    images = torch.randn(2, 3, size, size)
    torch.testing.assert_close(found(images), want(images), rtol=1e-4, atol=1e-5)
    assert found.left_out
    assert all(key.startswith("head.") for key in found.left_out)


PUBLISHED = {
    "simpleshot_protonet_conv4_5shot.npz": "conv4",
    "simpleshot_protonet_conv4_5shot.pth.tar": "conv4",
    "simpleshot_protonet_conv4_1shot.npz": "conv4",
    "rap_mini_protonet_conv4_5shot.npz": "conv4",
    "rap_cub_protonet_conv4_5shot.npz": "conv4",
    "rap_mini_protonet_conv6_5shot.npz": "conv6",
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_published_checkpoints_give_1600_features(reference_data, file):
    backbone = import_backbone(reference_data / "checkpoints" / file, PUBLISHED[file], channels=3, size=84)
    features = backbone(torch.rand(2, 3, 84, 84))
    assert features.shape == (2, 1600)
    assert features.isfinite().all()


def test_tensors_of_equal_shape_never_take_the_place_of_others(tmp_path, resnet):
    """A ResNet-12 file with conv3 before conv2 under names of its own once loaded, with wrong features."""
    network = create_backbone("resnet12", channels=3, size=16)
    state = {key.replace("conv2", "second").replace("conv3", "third"): v for key, v in network.state_dict().items()}
    with pytest.raises(InputError, match=r"no counterpart for the network's .*conv2"):
        import_backbone(as_pth(state, tmp_path / "w"), "resnet12", channels=3, size=16)
    weights = dict(resnet)
    weights["layer9.conv1.weight"] = weights.pop("layer3.0.conv1.weight")
    with pytest.raises(InputError, match=r"layer3\.0\.conv1\.weight .*layer9\.conv1\.weight \(256"):
        import_backbone(as_pth(weights, tmp_path / "w"), "resnet10t", channels=3, size=32)


@pytest.mark.parametrize("prefix", ["", "encoder.", "model.backbone."])
def test_equal_names_are_found_in_any_order_behind_any_prefix(tmp_path, resnet, prefix):
    state = {prefix + key: resnet[key] for key in reversed(list(resnet)) if not key.endswith("num_batches_tracked")}
    state |= {f"{prefix}fc.weight": torch.zeros(7, 512)} | ({"projector.weight": torch.ones(2)} if prefix else {})
    found = import_backbone(as_pth(state, tmp_path / "w"), "resnet10t", channels=3, size=32)
    assert all(torch.equal(v, resnet[k]) for k, v in found.state_dict().items() if "tracked" not in k)


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    return create_backbone("resnet10t", channels=3, size=32).eval().state_dict()


def test_a_network_whose_tensors_are_cut_otherwise_is_refused_in_the_files_own_names(tmp_path):
    network = torchvision.models.VisionTransformer(32, 16, 2, 2, 64, 128)
    message = refused(as_pth(network.state_dict(), tmp_path / "w"), "test_vit", size=32)
    assert "the file's class_token (1, 1, 64)" in message
    assert "encoder.layers.encoder_layer_0.self_attention.in_proj_weight (192, 64)" in message


def refused(path, name="conv4", channels=3, size=32):
    with pytest.raises(InputError) as caught:
        import_backbone(path, name, channels=channels, size=size)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message


def test_weights_for_other_channels_do_not_fit(tmp_path):
    message = refused(as_npz(conv4().state_dict(), tmp_path / "colour"), channels=1)
    assert "blocks.0.0.weight (64, 1, 3, 3)" in message
    assert "conv1.0.weight (64, 3, 3, 3)" in message


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("new_format", [True, False])
def test_a_file_that_would_run_code_is_refused_unrun(tmp_path, new_format):
    path, trap = tmp_path / "model.pth", tmp_path / "trap"
    state = conv4().state_dict() | {"extra": Malicious(trap)}
    torch.save({"state_dict": state}, path, _use_new_zipfile_serialization=new_format)
    message = refused(path)
    assert "mkdir" in message
    assert "torch.save(model.state_dict(), FILE)" in message
    assert not trap.exists()


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"rubbish" * 9])
def test_a_damaged_file_is_named(tmp_path, write, damage):
    path = write(conv4().state_dict(), tmp_path / "weights")
    path.write_bytes(damage(path.read_bytes()))
    assert "damaged" in refused(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "list"),
        ({"epoch": 3}, "epoch"),
        (torch.ones(3), "Tensor"),
        ({}, "dict of nothing"),
    ],
)
def test_a_file_without_a_state_dict_says_what_it_holds(tmp_path, content, words):
    torch.save(content, tmp_path / "model.pth")
    assert words in refused(tmp_path / "model.pth")


def test_a_missing_file_and_an_unknown_kind_are_named(tmp_path):
    assert "none.npz" in refused(tmp_path / "none.npz")
    (tmp_path / "weights.h5").write_bytes(b"x")
    assert ".safetensors, .npz, .pth" in refused(tmp_path / "weights.h5")
    (tmp_path / "folder.npz").mkdir()
    assert "folder.npz" in refused(tmp_path / "folder.npz")


# Nearest centroid on 5-way tasks of the first pictures of each novel class, in %: L2N and CL2N of 1 shot, of 5 shots,
# CL2N with the mean of these very pictures; measured with numpy, +-0.4 for the tasks.
MEASURED = {
    "simpleshot_protonet_conv4_5shot.npz": ("conv4", 60, (39.0, 46.5), (62.2, 63.1)),
    "rap_mini_protonet_conv4_5shot.npz": ("conv4", 40, (43.0, 45.7), (59.1, 60.0)),
    "rap_mini_protonet_conv6_5shot.npz": ("conv6", 40, (46.9, 48.5), (62.4, 62.4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", MEASURED)
def test_nearest_centroids_do_as_was_measured(reference_data, file):
    network, count, *measured = MEASURED[file]
    found = MiniImageNet(str(reference_data / "mini_imagenet")).read("novel")
    images = np.concatenate([found.images[first : first + count] for first in range(0, 12_000, 600)])
    labels = torch.arange(20).repeat_interleave(count)
    backbone = import_backbone(reference_data / "checkpoints" / file, network, channels=3, size=84)
    shown = Pictures(torch.from_numpy(images), backbone, Look(3, 84, MiniImageNet.mean, MiniImageNet.std))
    features = shown.features("cpu")
    bank = FeatureBank(features, labels, found.class_names, features.mean(0))
    for shot, wanted in zip((1, 5), measured, strict=True):
        tasks = Balanced(shot=shot).tasks(labels, 0, bank.class_names)
        strategies = {"L2N": SimpleShot(transform="L2N"), "CL2N": SimpleShot(transform="CL2N")}
        results = evaluate(strategies, bank, tasks, 500)
        assert [100 * result.accuracy for result in results.values()] == pytest.approx(wanted, abs=1.0)


# Of 84 pixels: features, side of the last map, and parameters of the network as the works count them.
PAPERS = {
    "conv4": (1600, 5, 112_832),
    "conv6": (1600, 5, 186_816),
    "resnet12": (640, 5, 12_424_320),
    "resnet18_84": (512, 11, 11_168_832),
    "resnet50_84": (2048, 11, 23_500_352),
    "wrn28_10": (640, 21, 36_482_880),
    "densenet121_84": (1024, 10, 6_946_048),
    "mobilenet_84": (1024, 6, 3_206_976),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("wrn28_10", "resnet50_84", "densenet121_84")))
        for name in OWN
    ],
)
def test_the_papers_networks(name: str) -> None:
    """Size, stride and parameters. Fresh weights keep the scale of images, as the papers draw them: no branch begins at
    zero, as timm's do unless told, and nothing explodes. They learn."""
    features, side, parameters = PAPERS[name]
    torch.manual_seed(0)
    backbone = create_backbone(name, channels=3, size=84)
    assert backbone.training
    assert backbone.feature_size == features
    assert sum(weight.numel() for weight in backbone.parameters()) == parameters
    assert [key for key, weight in backbone.named_parameters() if key.endswith("weight") and not weight.any()] == []
    found = backbone(torch.randn(2, 3, 16, 16))
    assert 1e-2 < found.std() < 30
    found.square().sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in backbone.parameters())
    backbone.eval().to("meta")  # where shapes are computed, and nothing else
    maps = backbone.blocks if hasattr(backbone, "blocks") and "conv" in name else backbone.forward_features
    with torch.inference_mode():
        assert maps(torch.zeros(1, 3, 84, 84, device="meta")).shape[2:] == (side, side)


@pytest.mark.parametrize(
    ("name", "channels", "size", "features"),
    [("resnet10t", 3, 32, 512), ("mobilenetv3_small_050", 1, 32, 1024), ("vit_tiny_patch16_224", 3, 64, 192)],
)
def test_networks_of_timm_by_name(name: str, channels: int, size: int, features: int) -> None:
    """Feature sizes are measured, since timm's `num_features` is not always right; a ViT is told the size."""
    backbone = create_backbone(name, channels=channels, size=size)
    assert backbone.feature_size == features
    assert backbone(torch.rand(2, channels, size, size)).shape == (2, features)


def test_a_network_too_deep_for_the_images() -> None:
    with pytest.raises(InputError, match=r"'inception_v3' .*1 x 28 x 28"):
        create_backbone("inception_v3", channels=1, size=28)
    with pytest.raises(InputError, match=r"'conv4' .*1 x 8 x 8"):
        create_backbone("conv4", channels=1, size=8)


def test_networks_of_files(tmp_path, monkeypatch) -> None:
    """A class, and a function registered with timm; other callables are refused."""
    (tmp_path / "nets_of_mine.py").write_text(
        "from timm.models import register_model\n"
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, in_chans):\n"
        "        super().__init__(nn.Conv2d(in_chans, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
        "@register_model\n"
        "def net_of_mine(pretrained=False, **options):\n"
        "    return Net(options['in_chans'])\n"
        "def other(in_chans):\n"
        "    return Net(in_chans)\n"
        "def resnet18(in_chans):\n"
        "    return Net(in_chans)\n"
        "class Passes(Net):\n"
        "    def __init__(self, **options):\n"
        "        super().__init__(options['in_chans'] + options['num_classes'])\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("./nets_of_mine.py:Net", "nets_of_mine:Net", "./nets_of_mine.py:net_of_mine", "net_of_mine"):
        assert create_backbone(name, channels=2, size=9).feature_size == 5
    assert create_backbone("./nets_of_mine.py:Passes", channels=2, size=9).feature_size == 5
    for name in ("other", "resnet18"):  # timm has a resnet18, which is not this one
        with pytest.raises(InputError, match="neither a subclass"):
            create_backbone(f"./nets_of_mine.py:{name}", channels=2, size=9)
