"""Pictures as features: what a plain loop over Pillow and timm gives, for files of every kind, on any number of
cores."""

import os
import sys

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
from fsl.benchmarks.folder import Folder
from fsl.benchmarks.images import open_images
from fsl.features.bank import extract
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

    def test_a_checkpoint_sees_pictures_as_benchmark_folder_shows_them(self, checkpoint, tmp_path):
        for i in range(8):
            (tmp_path / "pictures" / f"class{i}").mkdir(parents=True)
            noise(i, 50 + 9 * i, 90).save(tmp_path / "pictures" / f"class{i}" / "a.jpg")
        benchmark = Folder(str(tmp_path / "pictures"), size=32)
        images = open_images(benchmark, "novel", tmp_path)
        encoder = ImageEncoder.of(checkpoint, device="cpu")
        want = extract(encoder.network, images, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3), device="cpu")
        found = encoder.encode([tmp_path / "pictures" / name / "a.jpg" for name in images.class_names])
        torch.testing.assert_close(found.features, want, rtol=1e-5, atol=1e-6)

    def test_a_network_of_grey_images_sees_grey(self, tmp_path):
        torch.manual_seed(2)
        network = create_backbone("conv4", channels=1, size=28).eval()
        save_backbone(
            tmp_path / "c.safetensors", network, "conv4", channels=1, size=28, about={"benchmark": "omniglot"}
        )
        encoder = ImageEncoder.of(tmp_path / "c.safetensors", device="cpu")
        grey = noise(0, 28, 28, "L")
        found = encoder.encode([grey, grey.convert("RGB")])
        assert encoder.look.channels == 1
        torch.testing.assert_close(found.features[0], found.features[1])

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


class TestPictures:
    def same(self, encoder, *pictures):
        features = encoder.encode(pictures).features
        for row in features[1:]:
            torch.testing.assert_close(row, features[0], rtol=1e-4, atol=1e-5)

    def test_a_file_a_picture_and_its_pixels_are_one(self, encoder, tmp_path):
        picture = noise(0)
        picture.save(tmp_path / "a.png")
        self.same(encoder, tmp_path / "a.png", str(tmp_path / "a.png"), picture, np.asarray(picture))

    @pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK"])
    def test_modes_of_colour(self, encoder, mode):
        picture = noise(1, mode=mode)
        self.same(encoder, picture, picture.convert("RGB"))

    @pytest.mark.parametrize("mode", ["LA", "1", "I;16"])
    def test_modes_of_grey(self, encoder, mode):
        grey = noise(1, mode="L")
        if mode == "I;16":
            self.same(
                encoder, np.asarray(grey).astype(np.uint16) << 8, grey, np.asarray(grey), np.asarray(grey)[:, :, None]
            )
        else:
            other = grey.convert(mode)
            self.same(encoder, other, other.convert("RGB"))

    @pytest.mark.parametrize("ending", ["png", "pgm", "tif"])
    def test_files_of_16_bits(self, encoder, tmp_path, ending):
        grey = np.asarray(noise(1, mode="L"))
        Image.fromarray(grey.astype(np.uint16) << 8).save(tmp_path / f"a.{ending}")
        self.same(encoder, tmp_path / f"a.{ending}", grey)

    def test_pixels_of_16_bits_in_colour(self, encoder):
        for mode in ("RGB", "RGBA"):
            pixels = np.asarray(noise(1, mode=mode))
            self.same(encoder, pixels.astype(np.uint16) << 8, pixels)

    def test_what_is_transparent_is_white_whatever_its_colour(self, encoder):
        pixels = np.asarray(noise(2, mode="RGBA")).copy()
        pixels[:15, :, 3] = 0
        other, white = pixels.copy(), pixels.copy()
        other[:15, :, :3] = 77
        white[:15] = 255
        self.same(encoder, pixels, other, white)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_pictures_are_turned_as_their_exif_data_say(self, encoder, tmp_path, orientation):
        turns = Image.Transpose
        stored = {2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM, 5: turns.TRANSPOSE}
        stored |= {6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270}
        upright, exif = noise(3), Image.Exif()
        exif[0x0112] = orientation
        turned = upright.transpose(stored[orientation]) if orientation in stored else upright
        turned.save(tmp_path / "a.png", exif=exif)
        self.same(encoder, tmp_path / "a.png", upright)

    def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(self, encoder, tmp_path):
        """Not the same numbers as by the whole, but the same picture."""
        large = noise(4, 20, 15).resize((2000, 1500), Image.Resampling.BICUBIC)
        large.save(tmp_path / "a.jpg", quality=95)
        first, second, third = encoder.encode([tmp_path / "a.jpg", large, noise(5)]).features
        assert (first - second).norm() < 0.05 * (first - third).norm()


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

    def test_nothing_may_be_left(self, encoder, broken):
        found = encoder.encode(broken, broken="skip")
        assert found.features.shape == (0, encoder.feature_size)
        assert len(found.broken) == len(broken)

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

    def test_skip_is_spelt_so(self, encoder):
        with pytest.raises(InputError, match="raise, skip"):
            encoder.encode([noise(0)], broken="ignore")

    @pytest.mark.parametrize("size", [0, -1, "4", 1.5])
    def test_sizes_of_batches_that_cannot_be(self, encoder, size):
        with pytest.raises(InputError, match="batch_size"):
            encoder.encode([noise(0)], batch_size=size)

    @pytest.mark.parametrize("kind", [np.float32, np.int32])
    def test_values_of_32_bits_have_no_known_white(self, encoder, tmp_path, kind):
        """Else those of 0 to 1, or 0 to 255, would be as good as black."""
        picture = Image.fromarray(np.asarray(noise(1, mode="L")).astype(kind))
        picture.save(tmp_path / "a.tif")
        for either in (picture, tmp_path / "a.tif"):
            with pytest.raises(InputError, match=r"32-bit.*8 or 16"):
                encoder.encode([either])
        assert encoder.encode([noise(1), tmp_path / "a.tif"], broken="skip").kept.tolist() == [0]


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

    def test_making_one_moves_nobodys_random_numbers(self, files):
        torch.manual_seed(5)
        want = torch.rand(3)
        torch.manual_seed(5)
        ImageEncoder.of("timm:resnet10t", weights=files["resnet10t"], size=64, device="cpu")
        assert torch.equal(torch.rand(3), want)

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
        network = create_backbone("conv4", channels=3, size=32)
        save_backbone(tmp_path / "old.safetensors", network, "conv4", channels=3, size=32, about={"imported": "x"})
        with pytest.raises(InputError, match=r"old\.safetensors: .*normalisation"):
            ImageEncoder.of(tmp_path / "old.safetensors", device="cpu")

    def test_weights_are_of_timms_networks_only(self, files, checkpoint):
        with pytest.raises(InputError, match="timm"):
            ImageEncoder.of(checkpoint, weights=files["resnet10t"], device="cpu")

    def test_weights_of_another_network_are_refused_by_name(self, files):
        with pytest.raises(InputError, match=r"resnet10t\.pth: .*test_vit"):
            ImageEncoder.of("timm:test_vit", weights=files["resnet10t"], device="cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_number_of_pictures(encoder):
    """The pixels of these would take 120 MB."""

    class Drawn:
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return np.ones((1000, 1000, 3), np.uint8)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    largest, before = 0, resident()

    class Watching:
        def track(self, description, total):
            return self

        def __enter__(self):
            return self.advance

        def __exit__(self, *problem):
            pass

        def advance(self, n=1, **numbers):
            nonlocal largest
            largest = max(largest, resident())

    encoder.encode(Drawn(), batch_size=4, progress=Watching())
    assert largest - before < 8e7
