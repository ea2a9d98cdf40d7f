"""Weights that are refused: of another network, that would run code, damaged, or none; the message says which."""

import os

import numpy as np
import pytest
import torch
import torchvision
from torch import nn

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.weights.foreign import import_backbone, read_weights
from tests.fsl.weight_files import as_legacy_tar, as_npz, as_pth, as_safetensors, conv4


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
    assert "contains eval" in refused(tmp_path / "model.pth")
    (tmp_path / "model.pth").write_text("hello\n")
    assert "unpickled" in refused(tmp_path / "model.pth")


def test_a_pickled_network_is_refused(tmp_path):
    torch.save(nn.Sequential(nn.Conv2d(3, 64, 3)), tmp_path / "model.pt")
    assert "torch.nn" in refused(tmp_path / "model.pt")


def test_an_archive_of_objects_is_refused(tmp_path):
    trap = tmp_path / "trap"
    np.savez(tmp_path / "objects.npz", a=np.array([Malicious(trap)], dtype=object))
    assert "damaged" in refused(tmp_path / "objects.npz")
    assert not trap.exists()


@pytest.mark.parametrize("write", [as_npz, as_safetensors, as_pth, as_legacy_tar])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"rubbish" * 9])
def test_a_damaged_file_is_named(tmp_path, write, damage):
    path = write(conv4().state_dict(), tmp_path / "weights")
    path.write_bytes(damage(path.read_bytes()))
    assert "damaged" in refused(path)


@pytest.mark.parametrize(
    "write",
    [as_pth, *(pytest.param(write, marks=pytest.mark.slow) for write in (as_npz, as_safetensors, as_legacy_tar))],
)
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
        ([1, 2], "list"),
        ({"epoch": 3}, "epoch"),
        (torch.ones(3), "Tensor"),
        ({}, "empty dict"),
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
