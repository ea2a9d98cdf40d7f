"""Networks of open_clip: pictures and class names give what open_clip itself gives, and mistakes are named."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from clustering.foundation.errors import InputError
from fsl.features.image_encoder import ImageEncoder
from fsl.features.prompts import PROMPTS, texts_of
from fsl.few_shot_classifier import FewShotClassifier
from tests.open_clip_files import NAME, small_network

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
def encoder(weights):
    return ImageEncoder.of(f"open_clip:{NAME}", weights=weights, device="cpu")


@pytest.fixture
def pictures():
    generator = np.random.default_rng(0)
    sizes = ((40, 30), (32, 32), (300, 200), (20, 70))
    return [Image.fromarray(generator.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]


class TestNetworks:
    def test_features_and_logit_scale_are_those_of_open_clip(self, library, weights, encoder, pictures):
        model, _, transform = library.create_model_and_transforms(NAME, pretrained=str(weights))
        model.eval()
        with torch.inference_mode():
            want = model.encode_image(torch.stack([transform(picture) for picture in pictures]), normalize=True)
            parts = []
            for name in NAMES:
                tokens = library.get_tokenizer(NAME)([prompt.format(name) for prompt in PROMPTS])
                mean = model.encode_text(tokens, normalize=True).mean(dim=0)
                parts.append(mean / mean.norm())
        found = encoder.encode(pictures)
        torch.testing.assert_close(found.features, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(encoder.encode_names(NAMES), torch.stack(parts), rtol=1e-4, atol=1e-5)
        assert encoder.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()))
        assert encoder.feature_size == 16

    @pytest.mark.parametrize("mode", ["squash", "shortest"])
    def test_pictures_are_prepared_as_the_file_beside_the_weights_says(
        self, library, weights, tmp_path, pictures, mode
    ):
        own = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bilinear", "resize_mode": mode}
        config = library.transform.PreprocessCfg(size=32, **own)
        transform = library.transform.image_transform_v2(config, is_train=False)
        (tmp_path / "open_clip_config.json").write_text(json.dumps({"preprocess_cfg": own}))
        (tmp_path / "small.pt").symlink_to(weights)
        encoder = ImageEncoder.of(f"open_clip:{NAME}", weights=tmp_path / "small.pt", device="cpu")
        with torch.inference_mode():
            want = encoder.network(torch.stack([transform(picture) for picture in pictures]))
        torch.testing.assert_close(encoder.encode(pictures).features, want, rtol=1e-4, atol=1e-5)
        for content in (
            '{"preprocess_cfg": {"mean": [1]}}',
            '{"preprocess_cfg": {"resize_mode": "x"}}',
            "{}",
            "[]",
            "{",
        ):
            (tmp_path / "open_clip_config.json").write_text(content)
            with pytest.raises(InputError, match=r"open_clip_config\.json: no preprocessing"):
                ImageEncoder.of(f"open_clip:{NAME}", weights=tmp_path / "small.pt", device="cpu")

    @pytest.mark.parametrize(
        ("backbone", "given", "message"),
        [
            ("vit-b-32", "openai", "'ViT-B-32'"),
            ("RN5O", "openai", "'RN50'"),
            ("ViT-B/32", None, r"ViT-B-32: no weights given; add pretrained=TAG \(openai, "),
            (NAME, None, "add pretrained=FILE"),
            ("ViT-B-32", "laion2b_e17", "did you mean 'laion2b_e16'.*nor is there such a file"),
            ("ViT-B-32", "nothing.pt", r"nothing\.pt: no such file"),
            (NAME, "nothing", "nothing: no such file"),
            ("hf-hub:some/one", "x", "unknown network"),
        ],
    )
    def test_what_there_is_not(self, library, weights, backbone, given, message):
        with pytest.raises(InputError, match=message):
            ImageEncoder.of(f"open_clip:{backbone}", weights=given, device="cpu")

    def test_a_tag_that_is_not_on_this_machine_is_named_at_once(self, library, monkeypatch, tmp_path):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(InputError, match=r"ViT-B-32 pretrained=openai: .*HF_HUB_OFFLINE=0.*pretrained=FILE"):
            ImageEncoder.of("open_clip:ViT-B-32", weights="openai", device="cpu")

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

    def test_class_names_alone_classify_pictures(self, weights, encoder, pictures):
        classifier = self.classifier(weights).fit(class_names=NAMES)
        assert classifier.classes_.tolist() == sorted(NAMES)
        text = encoder.encode_names(sorted(NAMES))
        want = torch.softmax(encoder.logit_scale * encoder.encode(pictures).features @ text.T, dim=1)
        np.testing.assert_allclose(classifier.predict_proba(pictures), want, rtol=1e-3, atol=1e-5)
        assert classifier.logit_scale_ == encoder.logit_scale
        by_hand = FewShotClassifier("zero_shot").fit(
            class_names=sorted(NAMES), text=text, logit_scale=encoder.logit_scale
        )
        np.testing.assert_allclose(by_hand.predict_proba(encoder.encode(pictures).features), want, rtol=1e-3, atol=1e-5)

    def test_labelled_pictures_add_to_class_names(self, weights, pictures, tmp_path):
        classifier = self.classifier(weights, "laplacianshot").fit(pictures[:2], ["cat", "dog"], class_names=NAMES)
        assert (len(classifier.support_), len(classifier.text_)) == (2, 3)
        classifier.save(tmp_path / "saved.safetensors")
        loaded = FewShotClassifier.load(tmp_path / "saved.safetensors")
        np.testing.assert_array_equal(loaded.predict_proba(pictures), classifier.predict_proba(pictures))
        with pytest.raises(InputError, match="'bird' of a labelled picture is not among the class names"):
            self.classifier(weights).fit(pictures[:2], ["cat", "bird"], class_names=NAMES)
