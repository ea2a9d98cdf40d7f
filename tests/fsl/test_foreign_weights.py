"""Weights of other programs: the same network comes out, whatever its tensors are called and however they are filed."""

import functools
import os
import random
from collections import OrderedDict

import numpy as np
import pytest
import timm
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from clustering.errors import InputError
from fsl.backbones import create_backbone
from fsl.foreign_weights import import_backbone, read_weights
from fsl.key_matching import Unmatched, match_keys
from tests.oracles import papers_networks as papers


class Theirs(nn.Module):
    """The network of few-shot learning as most programs write it: biases, ReLU before pooling, names of its own."""

    def __init__(self, depth, channels=3, classes=None):
        super().__init__()
        for i in range(depth):
            convolution = nn.Conv2d(64 if i else channels, 64, 3, padding=1)
            setattr(self, f"conv{i + 1}", nn.Sequential(convolution, nn.BatchNorm2d(64)))
        self.depth = depth
        if classes:
            self.fc = nn.Linear(64, classes)
        generator = torch.Generator().manual_seed(depth)
        for name, tensor in self.state_dict().items():
            if tensor.is_floating_point():
                drawn = torch.rand(tensor.shape, generator=generator)
                tensor.copy_(drawn + 0.5 if name.endswith(("1.weight", "running_var")) else (drawn - 0.5) / 4)

    def forward(self, x):
        for i in range(self.depth):
            x = getattr(self, f"conv{i + 1}")(x).relu()
            x = nn.functional.max_pool2d(x, 2) if i < 4 else x
        return x.flatten(1)


def conv4(depth=4, **options):
    return Theirs(depth, **options).eval()


def prefixed(state, prefix):
    return OrderedDict((prefix + key, value) for key, value in state.items())


def as_npz(state, path):
    np.savez(path.with_suffix(".npz"), **{key: value.numpy() for key, value in state.items()})
    return path.with_suffix(".npz")


def as_safetensors(state, path):
    save_file(dict(state), path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


def as_pth(state, path):
    torch.save(dict(state), path.with_suffix(".pth"))
    return path.with_suffix(".pth")


def as_legacy_tar(state, path):
    beside = {"epoch": 3, "arch": "conv4", "state_dict": prefixed(state, "module."), "best_prec1": 0.5}
    beside["optimizer"] = {"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save(beside, path.with_suffix(".pth.tar"), _use_new_zipfile_serialization=False)
    return path.with_suffix(".pth.tar")


def as_double(state, path):
    return as_pth({key: value.double() if value.is_floating_point() else value for key, value in state.items()}, path)


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar, as_double])
@pytest.mark.parametrize(("name", "depth"), [("conv4", 4), ("conv6", 6)])
def test_features_are_those_of_the_network_that_wrote_the_file(tmp_path, write, name, depth):
    theirs = conv4(depth)
    ours = import_backbone(write(theirs.state_dict(), tmp_path / "weights"), name, channels=3, size=32)
    images = torch.rand(4, 3, 32, 32) * 2 - 1
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)
    assert not ours.training
    assert {tensor.dtype for tensor in ours.parameters()} == {torch.float32}


def test_the_images_may_be_grey(tmp_path):
    theirs = conv4(channels=1)
    ours = import_backbone(as_npz(theirs.state_dict(), tmp_path / "w"), "conv4", channels=1, size=28)
    images = torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)


def test_a_classifier_is_left_out(tmp_path):
    theirs = conv4(classes=9)
    ours = import_backbone(as_pth(theirs.state_dict(), tmp_path / "w"), "conv4", channels=3, size=16)
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)


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


@pytest.mark.parametrize("name", PUBLIC)
def test_weights_of_the_papers_networks_give_the_features_of_their_code(tmp_path, name):
    """As their authors' files are: under `module.`, with the classifier, beside the epoch."""
    forward, head = PUBLIC[name]
    weights = papers.Drawn(seed=6)
    images = torch.randn(2, 3, 20, 20).double()
    features = forward(weights, images)
    state = weights | {f"{head}.weight": torch.zeros(64, features.shape[1]), f"{head}.bias": torch.zeros(64)}
    torch.save({"epoch": 90, "state_dict": prefixed(state, "module.")}, tmp_path / "best.pth.tar")
    found = import_backbone(tmp_path / "best.pth.tar", name, channels=3, size=20)
    assert sum(weight.numel() for weight in found.parameters()) == sum(
        tensor.numel() for key, tensor in weights.items() if "running" not in key
    )
    with torch.inference_mode():
        torch.testing.assert_close(found.double()(images), features, rtol=1e-6, atol=1e-6)
    assert found.left_out == (f"module.{head}.weight", f"module.{head}.bias")


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    return create_backbone("resnet10t", channels=3, size=32).eval().state_dict()


@given(
    prefix=st.sampled_from(["", "module.", "encoder.", "model.backbone."]),
    order=st.randoms(use_true_random=False),
    beside=st.booleans(),
    counted=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_equal_names_are_found_in_any_order_behind_any_prefix(
    resnet, prefix: str, order: random.Random, beside: bool, counted: bool
):
    state = {key: value for key, value in resnet.items() if counted or not key.endswith("num_batches_tracked")}
    if beside:
        state |= {"fc.weight": torch.zeros(7, 512), "fc.bias": torch.zeros(7)}
    keys = list(state)
    order.shuffle(keys)
    weights = {prefix + key: state[key] for key in keys} | ({"projector.0.weight": torch.ones(2)} if prefix else {})
    found = match_keys(weights, resnet).tensors
    assert found.keys() == resnet.keys()
    for key, tensor in resnet.items():
        if not key.endswith("num_batches_tracked"):
            assert torch.equal(found[key], tensor)


def test_our_own_checkpoint_is_taken_as_well(tmp_path):
    from fsl.checkpoints import save_backbone

    torch.manual_seed(1)
    ours = create_backbone("conv4", channels=1, size=28).eval()
    save_backbone(tmp_path / "best.safetensors", ours, "conv4", channels=1, size=28, about={})
    again = import_backbone(tmp_path / "best.safetensors", "conv4", channels=1, size=28)
    assert all(torch.equal(again.state_dict()[key], value) for key, value in ours.state_dict().items())


def test_importing_moves_nobodys_random_numbers(tmp_path):
    path = as_npz(conv4().state_dict(), tmp_path / "w")
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    import_backbone(path, "conv4", channels=3, size=16)
    assert torch.equal(torch.rand(3), want)


def drawn(network):
    """With statistics that differ from layer to layer, so that no two can be mistaken for each other."""
    generator = torch.Generator().manual_seed(3)
    for name, tensor in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.uniform_(0.5, 1.5, generator=generator)
    return network.eval()


@pytest.mark.parametrize(
    ("theirs", "ours", "head"),
    [
        ("resnet18", "resnet18", ("fc.weight", "fc.bias")),
        ("mobilenet_v2", "mobilenetv2_100", ("classifier.1.weight", "classifier.1.bias")),
        ("efficientnet_b0", "efficientnet_b0", ("classifier.1.weight", "classifier.1.bias")),
    ],
)
def test_networks_of_torchvision_are_those_of_timm(tmp_path, theirs, ours, head):
    network = drawn(getattr(torchvision.models, theirs)(weights=None))
    found = import_backbone(as_pth(network.state_dict(), tmp_path / "w"), ours, channels=3, size=64)
    setattr(network, head[0].partition(".")[0], nn.Identity())
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(found(images), network(images), rtol=1e-4, atol=1e-5)
    assert found.left_out == head


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


def test_of_a_deeper_network_each_tensor_without_a_place_is_named(tmp_path):
    message = refused(as_npz(conv4(6).state_dict(), tmp_path / "deep"))
    for key, tensor in conv4(6).state_dict().items():
        if not key.endswith("num_batches_tracked"):
            assert (f"{key} {tuple(tensor.shape)}" in message) == (key[:5] in ("conv5", "conv6"))
    assert "backbone conv4" in message
    assert "backbone=NAME" in message


def test_of_a_shallower_network_each_missing_tensor_is_named(tmp_path):
    message = refused(as_npz(conv4().state_dict(), tmp_path / "flat"), "conv6")
    for key in create_backbone("conv6", channels=3, size=32).state_dict():
        assert (f"{key} (" in message) == (
            key.startswith(("blocks.4", "blocks.5")) and not key.endswith("num_batches_tracked")
        )


def test_weights_for_other_channels_do_not_fit(tmp_path):
    message = refused(as_npz(conv4().state_dict(), tmp_path / "colour"), channels=1)
    assert "blocks.0.0.weight (64, 1, 3, 3)" in message
    assert "conv1.0.weight (64, 3, 3, 3)" in message
    assert "blocks.0.1" not in message, "what fits is not named"


def test_a_renamed_tensor_is_named_on_both_sides(resnet):
    weights = dict(resnet)
    weights["layer9.conv1.weight"] = weights.pop("layer3.0.conv1.weight")
    with pytest.raises(Unmatched, match=r"layer3\.0\.conv1\.weight .* for the file's layer9\.conv1\.weight \(256"):
        match_keys(weights, resnet)


def test_layers_of_equal_shape_in_another_order_are_not_taken():
    """By order only where all is alike: a normalisation before its convolution is another network."""
    theirs = conv4().state_dict()
    layers = list(dict.fromkeys(key.rpartition(".")[0] for key in theirs))
    layers[2], layers[3] = layers[3], layers[2]
    turned = {key: theirs[key] for layer in layers for key in theirs if key.rpartition(".")[0] == layer}
    with pytest.raises(Unmatched, match=r"conv2\.1\.weight"):
        match_keys(turned, create_backbone("conv4", channels=3, size=32).state_dict())


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


def test_builtin_functions_are_named_and_text_is_no_pickle(tmp_path):
    class Evaluates:
        def __reduce__(self):
            return eval, ("1",)

    torch.save({"state_dict": Evaluates()}, tmp_path / "model.pth")
    assert "holds eval, which only running code could build" in refused(tmp_path / "model.pth")
    (tmp_path / "model.pth").write_text("hello\n")
    assert "(it cannot be unpickled)" in refused(tmp_path / "model.pth")


def test_a_pickled_network_is_refused(tmp_path):
    torch.save(nn.Sequential(nn.Conv2d(3, 64, 3)), tmp_path / "model.pt")
    assert "torch.nn" in refused(tmp_path / "model.pt")


def test_an_archive_of_objects_is_refused(tmp_path):
    trap = tmp_path / "trap"
    np.savez(tmp_path / "objects.npz", a=np.array([Malicious(trap)], dtype=object))
    assert "damaged, or no file of weights" in refused(tmp_path / "objects.npz")
    assert not trap.exists()


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"rubbish" * 9])
def test_a_damaged_file_is_named(tmp_path, write, damage):
    path = write(conv4().state_dict(), tmp_path / "weights")
    path.write_bytes(damage(path.read_bytes()))
    assert "damaged, or no file of weights" in refused(path)


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar])
def test_however_a_file_is_damaged_the_message_is_a_line(tmp_path, write):
    """PyTorch's own are paragraphs, with the advice to run the file's code."""
    path = write(conv4().state_dict(), tmp_path / "weights")
    whole = path.read_bytes()
    cuts = [whole[:size] for size in (*range(0, 300, 9), len(whole) // 3, len(whole) - 9)]
    flips = [whole[:at] + bytes([whole[at] ^ 87]) + whole[at + 1 :] for at in range(0, 1500, 11)]
    for number, data in enumerate(cuts + flips):
        path.write_bytes(data)
        try:
            read_weights(path)
        except InputError as error:
            message = str(error).replace(str(path), "FILE")
            assert len(message) < 200
            assert "weights_only" not in message
            assert message.isprintable()
        else:
            assert number >= len(cuts), "a part of a file is none"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "holds list"),
        ({"epoch": 3}, "holds a dict of epoch"),
        (torch.ones(3), "holds Tensor"),
        ({}, "holds an empty dict, and no state dict"),
    ],
)
def test_a_file_without_a_state_dict_says_what_it_holds(tmp_path, content, words):
    torch.save(content, tmp_path / "model.pth")
    assert words in refused(tmp_path / "model.pth")


def test_a_missing_file_and_an_unknown_kind_are_named(tmp_path):
    assert "no such file" in refused(tmp_path / "none.npz")
    (tmp_path / "weights.h5").write_bytes(b"x")
    assert ".safetensors, .npz, .pth" in refused(tmp_path / "weights.h5")
    (tmp_path / "folder.npz").mkdir()
    assert "no such file" in refused(tmp_path / "folder.npz")


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


def test_the_original_file_and_its_copy_hold_the_same(reference_data):
    stem = reference_data / "checkpoints" / "simpleshot_protonet_conv4_5shot"
    copy, original = read_weights(stem.with_suffix(".npz")), read_weights(stem.with_suffix(".pth.tar"))
    assert copy.keys() == original.keys()
    assert all(torch.equal(copy[key], original[key]) for key in copy)
