"""Files of features of other authors' code."""

import collections
import pickle

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.evaluation.episodic import evaluate
from fsl.features.foreign import import_features
from fsl.samplers.drawn import Balanced
from fsl.strategies.simpleshot import SimpleShot

RANDOM = np.random.default_rng(0)

ROWS = RANDOM.normal(size=(12, 5)).astype(np.float32)
LABELS = np.array([7, 3, 3, 7, 9, 9, 3, 7, 9, 9, 3, 7])  # in the order in which a loader met them


def by_class(rows, labels):
    """As the public code gathers them: a row at a time, in a defaultdict."""
    found = collections.defaultdict(list)
    for row, label in zip(rows, labels, strict=True):
        found[int(label)].append(row)
    return found


def sorted_rows():
    return ROWS[np.argsort(LABELS, kind="stable")]


@pytest.fixture
def written(tmp_path):
    def write(content, name="output.plk", protocol=None):
        path = tmp_path / name
        path.write_bytes(pickle.dumps(content, protocol))
        return path

    return write


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_simpleshot(written, protocol):
    """A list of two means, features and logits by class: `output.plk`."""
    mean, logits = RANDOM.normal(size=5).astype(np.float32), RANDOM.normal(size=(12, 64)).astype(np.float32)
    content = [mean, np.zeros(64, np.float32), by_class(ROWS, LABELS), by_class(logits, LABELS)]
    bank = import_features(written(content, protocol=protocol))
    assert np.array_equal(bank.features.numpy(), sorted_rows())
    assert bank.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert bank.class_names == ("3", "7", "9")
    assert np.array_equal(bank.base_mean.numpy(), mean)
    assert bank.provenance["form"] == "SimpleShot"
    assert bank.provenance["imported"] == "output.plk"


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_s2m2_and_pt_map(written, kind):
    """A dict of features by class."""
    bank = import_features(written(by_class(ROWS.astype(kind), LABELS)), "validation")
    assert bank.features.dtype == torch.float32
    assert np.array_equal(bank.features.numpy(), sorted_rows().astype(kind).astype(np.float32))
    assert bank.base_mean is None
    assert bank.provenance["split"] == "validation"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "features"),
        ([1, 2, 3], "list"),
        ("text", "str"),
        ({0: [], 1: []}, "shapes none"),
        ({0: [ROWS[0]], 1: [ROWS[1][:3]]}, r"\(3,\), \(5,\)"),
        ({0: [ROWS[0], ROWS[1][:3]]}, "features"),
        ({0: [ROWS]}, r"shape \(N, D\), not float32 \(1, 12, 5\)"),
        ({0: ["a", "b"]}, "shapes"),
        ([ROWS[0][:2], 0, {0: [ROWS[0]], 1: [ROWS[1]]}, {}], "base_mean"),
        ({"features": ROWS}, "no labels"),
        ({0: ROWS, "0": ROWS}, "'0'"),
    ],
)
def test_what_holds_no_features_is_named(written, content, words):
    with pytest.raises(InputError, match=rf"output\.plk: .*{words}"):
        import_features(written(content))


@pytest.mark.parametrize(
    "data", [b"\x80\x02" + b"(" * 200_000 + b"N" + b"t" * 200_000 + b".", b"\x80\x02]q\x00h\x00a."]
)
def test_a_pickle_that_is_deep_or_in_itself_is_refused(tmp_path, data):
    (tmp_path / "bad.plk").write_bytes(data)
    with pytest.raises(InputError, match=r"bad\.plk"):
        import_features(tmp_path / "bad.plk")


def test_real_features_give_the_accuracy_that_their_source_states(written, reference_data):
    """46.3 and 62.4 %, nearest centroid, CL2N, 1 and 5 shots."""
    with np.load(reference_data / "features" / "mini_conv4_svd64.npz") as arrays:
        rows = (arrays["q_novel"] * arrays["scale"]).astype(np.float32)
        labels, mean = arrays["label_novel"], arrays["base_mean"]
    bank = import_features(written([mean, mean, by_class(rows, labels), {}]))
    for shot, stated in ((1, 46.3), (5, 62.4)):
        found = evaluate({"a": SimpleShot()}, bank, Balanced(shot=shot).tasks(bank.labels), 1_000)["a"]
        assert 100 * found.accuracy == pytest.approx(stated, abs=1)


def test_the_class_names_of_one_prompt(tmp_path):
    path, alone = tmp_path / "clip.npz", tmp_path / "alone.npz"
    text = RANDOM.normal(size=(2, 4, 5)).astype(np.float16)
    shared = {"images": ROWS.astype(np.float16), "labels": np.array([0, 1, 3] * 4), "class_names": ["a", "b", "c", "d"]}
    np.savez(path, **shared, text=text.mean(0), text_by_prompt=text, prompts=np.array([b"a photo", b"a drawing"]))
    for prompt, words in enumerate(("a photo", "a drawing")):
        np.savez(alone, **shared, text=text[prompt])
        bank = import_features(path, prompt=prompt)
        assert bank.fingerprint() == import_features(alone).fingerprint()
        assert bank.prompts == (words,)
    assert import_features(path).prompts == ()
    for prompt in (2, -1):
        with pytest.raises(InputError, match=rf"clip\.npz: prompt={prompt}, but the file has prompts 0 to 1"):
            import_features(path, prompt=prompt)
    with pytest.raises(InputError, match=r"alone\.npz: prompt=0, but the file has no array text_by_prompt"):
        import_features(alone, prompt=0)
    (tmp_path / "output.plk").write_bytes(pickle.dumps({0: [[1.0, 0.0]], 1: [[0.0, 1.0]]}))
    with pytest.raises(InputError, match=r"output\.plk: prompt=0, but the file has no array text_by_prompt"):
        import_features(tmp_path / "output.plk", prompt=0)
