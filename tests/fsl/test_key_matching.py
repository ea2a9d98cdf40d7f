"""Tensors find their places by name or by order, and only where no other place would do."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.backbones import create_backbone
from fsl.weights.key_matching import Unmatched, match_keys
from tests.fsl.weight_files import conv4


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
@settings(max_examples=12, deadline=None)
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


def test_a_renamed_tensor_is_named_on_both_sides(resnet):
    weights = dict(resnet)
    weights["layer9.conv1.weight"] = weights.pop("layer3.0.conv1.weight")
    with pytest.raises(Unmatched, match=r"layer3\.0\.conv1\.weight .*layer9\.conv1\.weight \(256"):
        match_keys(weights, resnet)


def test_layers_of_equal_shape_in_another_order_are_not_taken():
    """By order only where all is alike: a normalisation before its convolution is another network."""
    theirs = conv4().state_dict()
    layers = list(dict.fromkeys(key.rpartition(".")[0] for key in theirs))
    layers[2], layers[3] = layers[3], layers[2]
    turned = {key: theirs[key] for layer in layers for key in theirs if key.rpartition(".")[0] == layer}
    with pytest.raises(Unmatched, match=r"conv2\.1\.weight"):
        match_keys(turned, create_backbone("conv4", channels=3, size=32).state_dict())
