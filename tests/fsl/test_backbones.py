"""Networks by name: shapes, feature sizes, bad names."""

import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.backbones import OWN, create_backbone


@pytest.mark.parametrize(("channels", "size", "features"), [(1, 28, 64), (3, 84, 1600), (1, 16, 64)])
@pytest.mark.parametrize("name", ["conv4", "conv6"])
def test_shapes_of_the_small_networks(name: str, channels: int, size: int, features: int) -> None:
    backbone = create_backbone(name, channels=channels, size=size)
    assert backbone.feature_size == features
    assert backbone(torch.rand(3, channels, size, size)).shape == (3, features)


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


def test_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'covn4'.*'conv4'"):
        create_backbone("covn4", channels=1, size=28)
    with pytest.raises(InputError, match="'conv4' or 'conv6'"):
        create_backbone("conv5", channels=1, size=28)


def test_a_network_too_deep_for_the_images() -> None:
    with pytest.raises(InputError, match=r"'inception_v3' .*1 x 28 x 28"):
        create_backbone("inception_v3", channels=1, size=28)
    with pytest.raises(InputError, match=r"'conv4' .*1 x 8 x 8"):
        create_backbone("conv4", channels=1, size=8)
