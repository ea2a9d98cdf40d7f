"""Features of a network, and banks of features."""

import dataclasses
import errno
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from clustering.foundation.errors import InputError
from fsl.features.bank import FeatureBank
from fsl.features.pictures import Pictures
from fsl.weights.pretrained import Look


def bank(count: int = 20, size: int = 8, classes: int = 4, seed: int = 0) -> FeatureBank:
    generator = torch.Generator().manual_seed(seed)
    return FeatureBank(
        torch.randn(count, size, generator=generator),
        torch.arange(count) % classes,
        tuple(f"class {i}" for i in range(classes)),
        torch.randn(size, generator=generator),
        {"checkpoint": "abc", "images": "déf"},
        text=torch.randn(classes, size, generator=generator),
        prompts=("a {}",),
    )


@settings(max_examples=10, deadline=None)
@given(count=st.integers(1, 30), size=st.integers(1, 9), classes=st.integers(1, 40), mean=st.booleans())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, count: int, size: int, classes: int, mean: bool) -> None:
    path = tmp_path_factory.mktemp("bank") / "bank.safetensors"
    saved = bank(count, size, classes)
    if not mean:
        saved = FeatureBank(saved.features, saved.labels, saved.class_names)
    saved.save(path)
    loaded = FeatureBank.load(path)
    assert torch.equal(loaded.features, saved.features)
    assert torch.equal(loaded.labels, saved.labels)
    assert loaded.class_names == saved.class_names
    assert dict(loaded.provenance) == dict(saved.provenance)
    assert (loaded.base_mean is None) == (not mean)
    assert loaded.fingerprint() == saved.fingerprint()
    assert loaded.dimension == size
    if mean:
        assert torch.equal(loaded.text, saved.text)
        assert (loaded.logit_scale, loaded.prompts) == (100.0, ("a {}",))
        assert loaded.fingerprint() != dataclasses.replace(saved, text=saved.text + 1).fingerprint()


def test_a_disk_that_takes_no_more_says_so(tmp_path: Path) -> None:
    """The system's refusal arrives as an OSError with its number, from under the library that writes the file."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "bank.safetensors"
    bank().save(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"bank.safetensors") as caught:
            bank(2000, 64, seed=1).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert FeatureBank.load(path).fingerprint() == bank().fingerprint()
    assert [file.name for file in tmp_path.iterdir()] == ["bank.safetensors"]


def test_missing_and_foreign(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.safetensors: "):
        FeatureBank.load(tmp_path / "none.safetensors")
    foreign = tmp_path / "foreign.safetensors"
    save_file({"features": torch.zeros(3, 2)}, foreign)
    with pytest.raises(InputError, match=r"foreign\.safetensors: .*'transduce features 1'"):
        FeatureBank.load(foreign)


FEATURES, LABELS, NAMES = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]), ("a", "b")


@pytest.mark.parametrize(
    ("features", "labels", "mean", "message"),
    [
        (
            torch.tensor([[0.0] * 3, [float("nan")] * 3] * 2),
            LABELS,
            None,
            "NaN .*features.*row 1",
        ),
        (torch.full((4, 3), float("inf")), LABELS, None, "NaN .*features"),
        (torch.full((4, 3), 1e20), LABELS, None, "too large .*row 0"),
        (FEATURES, torch.tensor([0, 1, 2, 1]), None, "labels .*0 to 2.*2 class names"),
        (FEATURES, torch.tensor([0, 1, -1, 1]), None, "labels .*-1"),
        (FEATURES, torch.tensor([0, 1, 1]), None, r"labels .*\(4,\)"),
        (FEATURES, LABELS.float(), None, "labels .*int64"),
        (FEATURES.double(), LABELS, None, "features .*float32"),
        (FEATURES[0], LABELS, None, "features .*float32"),
        (FEATURES[:0], LABELS[:0], None, "features .*float32"),
        (
            FEATURES,
            LABELS,
            torch.zeros(4),
            r"base_mean .*\(3,\).*\(4,\)",
        ),
        (FEATURES, LABELS, torch.full((3,), float("nan")), "NaN .*base_mean"),
    ],
)
def test_contents_that_cannot_be(
    tmp_path: Path, features: Tensor, labels: Tensor, mean: Tensor | None, message: str
) -> None:
    """Refused when made and, with the file's name, when read."""
    with pytest.raises(InputError, match=message):
        FeatureBank(features, labels, NAMES, mean)
    path = tmp_path / "wrong.safetensors"
    tensors = {"features": features, "labels": labels} | ({} if mean is None else {"base_mean": mean})
    header = {"format": "transduce features 1", "class_names": '["a", "b"]', "provenance": "{}"}
    save_file(tensors, path, metadata=header)
    with pytest.raises(InputError, match=f"wrong.safetensors: .*{message}"):
        FeatureBank.load(path)


class Flatten(nn.Module):
    """Features that show the pixels, after a batch normalisation that would betray the training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(2, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).flatten(1)


@pytest.mark.parametrize("batch_size", [1, 4, 11, 100])
def test_features_are_the_plain_forward_pass(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsl.features.pictures.suitable_batch", lambda *_: batch_size)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (11, 2, 4, 4), generator=generator, dtype=torch.uint8)
    backbone = Flatten().train()
    features = Pictures(images, backbone, Look(2, 4, (0.5, 0.25), (0.2, 0.4))).features("cpu")
    mean, std = torch.tensor([0.5, 0.25]).view(2, 1, 1), torch.tensor([0.2, 0.4]).view(2, 1, 1)
    expected = ((images / 255 - mean) / std).flatten(1) / (1 + 1e-5) ** 0.5
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
    assert backbone.training
    assert not backbone.norm.num_batches_tracked
    assert not features.is_inference()
