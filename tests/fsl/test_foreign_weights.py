"""Weights of other programs: the same network comes out, whatever its tensors are called and however they are filed."""

import functools

import pytest
import timm
import torch
import torchvision
from torch import nn

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.weights.foreign import import_backbone
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
