"""Pictures as features: what a plain loop over Pillow and timm gives, for files of every kind, on any number of
cores."""

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from timm.data import create_transform, resolve_data_config

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.features.image_encoder import ImageEncoder
from fsl.weights.checkpoints import save_backbone

NETWORKS = ("resnet10t", "test_vit", "mobilenetv3_small_050")


def noise(seed, width=40, height=30, mode="RGB"):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).convert(mode)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of random weights of each network, with its classifier."""
    torch.manual_seed(0)
    folder, found = tmp_path_factory.mktemp("weights"), {}
    for name in NETWORKS:
        found[name] = folder / f"{name}.pth"
        torch.save(timm.create_model(name, pretrained=False).state_dict(), found[name])
    return found


@pytest.fixture(scope="module")
def encoder(files):
    return ImageEncoder.of("timm:resnet10t", weights=files["resnet10t"], size=64, device="cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("checkpoint") / "best.safetensors"
    network = create_backbone("conv4", channels=3, size=32).eval()
    about = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3]}
    save_backbone(path, network, "conv4", channels=3, size=32, about=about)
    return path


@pytest.fixture(scope="module")
def broken_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    for name in ("a.png", "b.jpg", "c.gif"):
        (folder / name).write_bytes(b"GIF89a" if name == "c.gif" else b"x" * 99)
    return [*sorted(folder.iterdir()), folder / "absent.png", folder]


@pytest.mark.parametrize("mean", [["x", 0.5, 0.6], [0.5], 0.5, [0.5, 0.5, float("nan")], None])
def test_a_checkpoint_of_a_damaged_mean_is_refused(tmp_path, mean):
    path = tmp_path / "best.safetensors"
    about = {"mean": mean, "std": [0.2, 0.25, 0.3]}
    save_backbone(path, create_backbone("conv4", channels=3, size=32), "conv4", channels=3, size=32, about=about)
    with pytest.raises(InputError, match=r"best\.safetensors: .*mean and std"):
        ImageEncoder.of(path)


class TestAgainstPlainLoops:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_features_are_those_of_timms_own_transform_and_network(self, files, name):
        network = timm.create_model(name, pretrained=False).eval()
        network.load_state_dict(torch.load(files[name], weights_only=True))
        network.reset_classifier(0)
        transform = create_transform(**resolve_data_config({}, model=network))
        pictures = [noise(0), noise(1, 300, 200), noise(2, 60, 330), noise(3, 224, 224)]
        with torch.inference_mode():
            want = torch.cat([network(transform(picture)[None]) for picture in pictures])
        encoder = ImageEncoder.of(f"timm:{name}", weights=files[name], device="cpu")
        found = encoder.encode(pictures, batch_size=3)
        assert found.features.shape == (4, encoder.feature_size)
        assert found.features.dtype == torch.float32
        torch.testing.assert_close(found.features, want, rtol=1e-4, atol=1e-5)

    @settings(max_examples=5, deadline=None)
    @given(batch=st.integers(1, 9), threads=st.integers(1, 3), seed=st.integers(0, 99))
    def test_neither_batches_nor_threads_count(self, encoder, batch, threads, seed):
        pictures = [noise(seed + i, 20 + i) for i in range(7)]
        want, before = encoder.encode(pictures).features, torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found = encoder.encode(pictures, batch_size=batch)
        finally:
            torch.set_num_threads(before)
        torch.testing.assert_close(found.features, want, rtol=1e-4, atol=1e-5)
        assert found.kept.tolist() == list(range(7))


def test_a_file_a_picture_and_its_pixels_are_one(encoder, tmp_path):
    picture, path = noise(0), tmp_path / "a.png"
    picture.save(path)
    features = encoder.encode([path, str(path), picture, np.asarray(picture)]).features
    torch.testing.assert_close(features, features[:1].expand_as(features), rtol=1e-4, atol=1e-5)


class TestBroken:
    @pytest.fixture
    def broken(self, tmp_path):
        noise(0, 200, 200).save(tmp_path / "whole.jpg")
        content = (tmp_path / "whole.jpg").read_bytes()
        (tmp_path / "short.jpg").write_bytes(content[: len(content) // 2])
        (tmp_path / "text.png").write_text("not a picture")
        (tmp_path / "empty.png").touch()
        (tmp_path / "folder.png").mkdir()
        return [tmp_path / name for name in ("short.jpg", "text.png", "empty.png", "folder.png", "absent.png")]

    def test_each_is_named(self, encoder, broken):
        for path in broken:
            with pytest.raises(InputError) as caught:
                encoder.encode([noise(1), path, noise(2)])
            assert str(caught.value).startswith(f"{path}: cannot be ")

    @settings(max_examples=6, deadline=None)
    @given(order=st.permutations(range(9)), batch=st.integers(1, 10))
    def test_on_request_they_are_left_out_and_named(self, encoder, broken_files, order, batch):
        pictures = [([noise(i, 25) for i in range(4)] + broken_files)[i] for i in order]
        found = encoder.encode(pictures, broken="skip", batch_size=batch)
        whole = [index for index, i in enumerate(order) if i < 4]
        assert found.kept.tolist() == whole
        assert found.broken.keys() == set(range(9)) - set(whole)
        assert all(str(pictures[index]) in problem for index, problem in found.broken.items())
        want = encoder.encode([pictures[index] for index in whole]).features
        torch.testing.assert_close(found.features, want, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("pictures", "message"),
        [
            ([], "at least one"),
            ("a.png", "list"),
            ([np.zeros((4, 4))], "picture 0: .*uint8 or uint16"),
            ([np.zeros((4, 4, 5), np.uint8)], "picture 0: "),
            ([np.zeros((4, 4, 2), np.uint8)], "picture 0: "),
            ([np.zeros((0, 4, 3), np.uint8)], "picture 0: "),
            ({"a.png"}, "list"),
            ({"a.png": 0}, "list"),
            ((name for name in ("a.png",)), "list"),
            ([noise(0), 7], "picture 1: "),
        ],
    )
    def test_what_are_no_pictures_is_said(self, encoder, pictures, message):
        with pytest.raises(InputError, match=message):
            encoder.encode(pictures)

    @pytest.mark.parametrize("option", [{"batch_size": "8"}, {"batch_size": 0}, {"broken": "keep"}])
    def test_options_that_cannot_be_are_said(self, encoder, option):
        with pytest.raises(InputError, match=f"not {next(iter(option.values()))!r}"):
            encoder.encode([noise(0)], **option)


class TestEncoders:
    def test_the_fingerprint_is_of_weights_and_of_how_pictures_are_shown(self, files, checkpoint, tmp_path):
        def of(**options):
            return ImageEncoder.of("timm:resnet10t", weights=files["resnet10t"], device="cpu", **options).fingerprint

        other = torch.load(files["resnet10t"], weights_only=True)
        other["conv1.0.weight"] += 1
        torch.save(other, tmp_path / "other.pth")
        changed = ImageEncoder.of("timm:resnet10t", weights=tmp_path / "other.pth", device="cpu").fingerprint
        prints = [of(), of(size=64), changed, ImageEncoder.of(checkpoint, device="cpu").fingerprint]
        assert len(set(prints)) == 4
        assert of() == prints[0]

    @pytest.mark.parametrize(
        ("backbone", "message"),
        [
            ("resnet18", "timm:NAME"),
            ("timm:resnet10", "'resnet10t'"),
            ("timm:conv4", "backbone=conv4"),
            ("timm:resnet10t.c3_in2k", "'c3_in1k'"),
            ("timm:coatnet_0_224", "weights"),
        ],
    )
    def test_what_there_is_not(self, backbone, message):
        with pytest.raises(InputError, match=message):
            ImageEncoder.of(backbone, device="cpu")

    def test_files_that_are_no_checkpoints(self, files, tmp_path):
        with pytest.raises(InputError, match=r"transduce import checkpoint .*resnet10t\.pth"):
            ImageEncoder.of(files["resnet10t"], device="cpu")
        (tmp_path / "x.safetensors").write_bytes(b"x" * 40)
        with pytest.raises(InputError, match=r"x\.safetensors: truncated"):
            ImageEncoder.of(tmp_path / "x.safetensors", device="cpu")
