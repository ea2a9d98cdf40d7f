"""Weights that are refused: of another network, that would run code, damaged, or none; the message says which."""

import os

import pytest
import torch
import torchvision

from clustering.foundation.errors import InputError
from fsl.weights.foreign import import_backbone
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
