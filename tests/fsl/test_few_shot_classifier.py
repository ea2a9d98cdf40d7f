"""The classifier of one's own pictures: the strategy's own answers, prototypes for later, files, and mistakes."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.classifier_files import FORMAT
from fsl.episodes import Episodes
from fsl.few_shot_classifier import FewShotClassifier
from fsl.strategies import STRATEGIES
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.weights.checkpoints import save_backbone

NAMES = np.array(["ant", "bee", "cat", "dog"])


@parametrize_with_checks([FewShotClassifier("simpleshot")])
def test_scikit_learn_takes_it_for_a_classifier(estimator, check):
    check(estimator)


def draw(seed=0, queries=40, spread=1.0, dtype=np.float32):
    """Support with 2, 3, 4 and 5 shots of four classes in any order, and queries with their classes."""
    generator = np.random.default_rng(seed)
    centres = 2 * generator.normal(size=(4, 8))
    labels, truth = generator.permutation(np.repeat(np.arange(4), [2, 3, 4, 5])), generator.integers(0, 4, queries)
    rows = [centres[which] + spread * generator.normal(size=(len(which), 8)) for which in (labels, truth)]
    return rows[0].astype(dtype), NAMES[labels], rows[1].astype(dtype), NAMES[truth]


@pytest.mark.parametrize("strategy", [SimpleShot(), LaplacianShot(shift=False), STRATEGIES.load("slk_ms")(shift=False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_strategy_itself_answers(strategy, dtype):
    support, names, query, truth = draw(dtype=dtype)
    found = FewShotClassifier(strategy).fit(support, names)
    mean = np.mean([support[names == name].mean(axis=0) for name in NAMES], axis=0)
    np.testing.assert_allclose(found.base_mean_, mean, atol=1e-6)
    labels = torch.tensor([NAMES.tolist().index(name) for name in names])
    parts = (torch.from_numpy(part)[None] for part in (support, query))
    tasks = Episodes(next(parts), labels[None], next(parts), 4, base_mean=torch.from_numpy(mean.astype(dtype)))
    expected = strategy.predict(tasks).probabilities[0].numpy()
    np.testing.assert_allclose(found.predict_proba(query), expected, atol=1e-5)
    assert found.predict_proba(query).dtype == dtype
    assert (found.predict(query) == truth).mean() > 0.8
    assert found.score(query, truth) == (found.predict(query) == truth).mean()


def test_prototypes_are_the_means_of_support_and_of_what_was_labelled():
    support, names, query, _ = draw(spread=1.5)
    found = FewShotClassifier("laplacianshot").fit(support, names)

    def transformed(rows):
        rows = rows - found.base_mean_
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    for seen, others in ((0, query[:0]), (len(query), query)):
        if seen:
            assert found.refine(query) is found
        labels = found.predict(others) if seen else NAMES[:0]
        expected = [
            np.concatenate([transformed(support[names == name]), transformed(others[labels == name])]).mean(axis=0)
            for name in NAMES
        ]
        np.testing.assert_allclose(found.prototypes_, expected, atol=1e-5)
        assert found.refined_by_ == seen
        distances = ((transformed(query)[:, None] - np.array(expected)) ** 2).sum(axis=2)
        chances = np.exp(-distances) / np.exp(-distances).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.predict_proba(query, alone=True), chances, atol=1e-5)


def test_one_query_alone_and_balance_are_warned_of():
    support, names, query, _ = draw()
    with pytest.warns(UserWarning, match="only one query"):
        alone = FewShotClassifier("laplacianshot").fit(support, names).predict_proba(query[:1])
    np.testing.assert_allclose(
        alone, FewShotClassifier("laplacianshot").fit(support, names).predict_proba(query[:1], alone=True)
    )
    with pytest.warns(UserWarning, match="strategy=soft_slk"):
        FewShotClassifier("tim_adm").fit(support, names).predict(query)


def test_saved_and_read_back(tmp_path):
    support, names, query, _ = draw()
    path = tmp_path / "mine.safetensors"
    strategy = LaplacianShot(weight=0.3, shift=False)
    found = FewShotClassifier(strategy).fit(support, names).refine(query)
    found.save(path)
    again = FewShotClassifier.load(path)
    assert again.strategy_ == strategy
    assert again.classes_.tolist() == NAMES.tolist()
    for alone in (False, True):
        np.testing.assert_array_equal(again.predict_proba(query, alone=alone), found.predict_proba(query, alone=alone))
    assert FewShotClassifier.load(path, strategy="simpleshot").strategy_ == SimpleShot()
    assert clone(again).get_params()["strategy"] == strategy
    for place in (tmp_path, tmp_path / "nowhere" / "mine.safetensors"):
        with pytest.raises(InputError, match="file"):
            found.save(place)
    FewShotClassifier("simpleshot").fit(support, np.arange(len(support)) % 3).save(path)
    assert FewShotClassifier.load(path).predict(query).dtype.kind == "i"


def test_saving_replaces_no_other_file(tmp_path):
    support, names, _, _ = draw()
    notes = tmp_path / "notes.csv"
    notes.write_text("name,age\n")
    with pytest.raises(InputError, match=r"notes\.csv.*another path"):
        FewShotClassifier("simpleshot").fit(support, names).save(notes)
    assert notes.read_text() == "name,age\n"


@dataclasses.dataclass(frozen=True)
class Own(SimpleShot):
    """A strategy of somebody's own module."""


def test_a_file_chooses_no_module(tmp_path):
    support, names, query, _ = draw()
    path = tmp_path / "own.safetensors"
    FewShotClassifier(Own()).fit(support, names).save(path)
    with pytest.raises(InputError, match=r"test_few_shot_classifier:Own' .*trust"):
        FewShotClassifier.load(path)
    again = FewShotClassifier.load(path, strategy=Own())
    np.testing.assert_array_equal(
        again.predict(query), FewShotClassifier("simpleshot").fit(support, names).predict(query)
    )


def _without(key):
    def spoil(tensors, about):
        del tensors[key]

    return spoil


def _set(key, value):
    def spoil(tensors, about):
        about[key] = value

    return spoil


def _nan(tensors, about):
    tensors["prototypes"] = tensors["prototypes"] * float("nan")


@pytest.mark.parametrize(
    "spoil",
    [
        _without("support"),
        _nan,
        _set("classes", ["ant", "bee"]),
        _set("fields", {"wait": 3}),
        _set("fields", {"beta": -1}),
        _set("strategy", "os:system"),
        _set("strategy", ["simpleshot"]),
        _set("fields", []),
        _set("refined_by", -5),
        _set("refined_by", float("inf")),
        _set("classes", ["ant", "ant", "bee", "cat"]),
        _set("classes", ["dog", "cat", "bee", "ant"]),
        _set("classes", [None, "bee", "cat", "dog"]),
        _set("backbone", 5),
        _set("weights", ["x"]),
        _set("encoder", 5),
    ],
)
def test_files_that_are_not_whole(tmp_path, spoil):
    support, names, *_ = draw()
    path = tmp_path / "mine.safetensors"
    FewShotClassifier("simpleshot").fit(support, names).save(path)
    tensors, header = read_tensors(path, FORMAT, "")
    tensors, about = {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(header["classifier"])
    spoil(tensors, about)
    write_tensors(path, tensors, {**header, "classifier": json.dumps(about)})
    with pytest.raises(InputError, match=r"mine\.safetensors") as caught:
        FewShotClassifier.load(path)
    assert "has changed" not in str(caught.value)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Reddish and bluish pictures of odd sizes, and two networks that were never trained."""
    top = tmp_path_factory.mktemp("pictures")
    generator = np.random.default_rng(1)
    for part, count in (("support", 3), ("query", 6)):
        for name, tint in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
            (top / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.array(tint) + generator.integers(-40, 40, (40 + i, 31, 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(top / part / name / f"{i}.png")
    for seed in (0, 1):
        torch.manual_seed(seed)
        about = {"benchmark": "mini", "mean": [0.5] * 3, "std": [0.25] * 3}
        network = create_backbone("conv4", channels=3, size=32)
        save_backbone(top / f"{seed}.safetensors", network, "conv4", channels=3, size=32, about=about)
    return top


def test_folders_of_pictures(pictures, tmp_path):
    network = str(pictures / "0.safetensors")
    found = FewShotClassifier("laplacianshot", backbone=network).fit(pictures / "support")
    assert found.predict(str(pictures / "query")).tolist() == ["blue"] * 6 + ["red"] * 6
    files = [pictures / "query" / "red" / "0.png", Image.open(pictures / "query" / "blue" / "1.png")]
    assert found.predict(files, alone=True).tolist() == ["red", "blue"]
    assert found.predict(np.array(files[:1] * 2, dtype=object), alone=True).tolist() == ["red", "red"]
    features = found.encoder().encode([str(files[0])] * 2).features
    np.testing.assert_array_equal(found.predict(features.numpy(), alone=True), ["red", "red"])
    found.save(tmp_path / "x.safetensors")
    again = FewShotClassifier.load(tmp_path / "x.safetensors")
    np.testing.assert_allclose(
        again.predict_proba(pictures / "query"), found.predict_proba(pictures / "query"), atol=1e-6
    )
    other = FewShotClassifier.load(tmp_path / "x.safetensors", backbone=str(pictures / "1.safetensors"))
    with pytest.raises(InputError, match="not the network"):
        other.predict(pictures / "query")
    found.encoder_fingerprint_ = None
    found.save(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="network"):
        FewShotClassifier.load(tmp_path / "x.safetensors").predict(pictures / "query")
    found.set_params(backbone=str(pictures / "1.safetensors")).fit(pictures / "support").predict(pictures / "query")
