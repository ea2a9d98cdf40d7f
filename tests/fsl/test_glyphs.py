"""The glyphs benchmark: its classes, its samples, and that both are the same everywhere."""

import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib import ft2font

from clustering.foundation.errors import InputError
from fsl.benchmarks import glyphs
from fsl.benchmarks.benchmark import SPLITS, fingerprint
from fsl.benchmarks.glyphs import CANVAS, FIXED, Glyphs, classes, drawing

FEW = Glyphs(samples=2)


@pytest.fixture(scope="module")
def few():
    """The classes of few scripts: those of all take seconds."""
    scripts = {"base": ("GREEK",), "validation": ("ARMENIAN",), "novel": ("OGHAM",)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(glyphs, "SCRIPTS", scripts)
        return classes.__wrapped__()


@pytest.fixture
def of_few_scripts(monkeypatch, few):
    monkeypatch.setattr(glyphs, "classes", lambda: few)


@pytest.fixture(scope="module")
def validation(few):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(glyphs, "classes", lambda: few)
        return FEW.read("validation")


@pytest.mark.slow
def test_classes_are_many_and_of_different_scripts():
    letters = classes()
    counts = [len(letters[split]) for split in SPLITS]
    assert all(count >= least for count, least in zip(counts, (300, 60, 120), strict=True))
    assert len(set("".join(letters.values()))) == sum(counts)
    scripts = list(itertools.chain(*glyphs.SCRIPTS.values()))
    assert len(scripts) == len(set(scripts))


def test_samples_have_the_promised_form(validation):
    images, labels, names = validation
    assert images.dtype == np.uint8
    assert images.shape == (2 * len(names), 1, 28, 28)
    assert labels.dtype == np.int64
    assert np.array_equal(np.bincount(labels), np.full(len(names), 2))
    assert len(set(names)) == len(names)
    assert all(name.startswith("U+") for name in names)


def test_one_seed_gives_the_same_bytes_and_another_seed_others(of_few_scripts, validation):
    again = Glyphs(samples=2).read("validation")
    assert again.images.tobytes() == validation.images.tobytes()
    assert again.class_names == validation.class_names
    other = Glyphs(samples=2, seed=1).read("validation")
    assert (other.images != validation.images).any((1, 2, 3)).all()
    assert other.class_names == validation.class_names


@pytest.mark.slow
def test_the_bytes_of_this_recipe():
    """If this fails after a change of the drawing, raise RECIPE and write the new fingerprint here."""
    known = {(2, "3.11.2", "2.14.3"): "435e26a614be659f"}
    version = (glyphs.RECIPE, matplotlib.__version__, ft2font.__freetype_version__)
    if version not in known:
        pytest.skip("no fingerprint noted for recipe {}, matplotlib {}, FreeType {}".format(*version))
    assert fingerprint(FEW.read("validation").images.data, "".join(classes().values())) == known[version]


def test_resampling_agrees_with_a_loop():
    random = np.random.default_rng(1)
    pictures = np.zeros((2, CANVAS, CANVAS), np.int32)
    pictures[:, 12:-12, 12:-12] = random.integers(0, 256, (2, 40, 40))
    maps = random.uniform(-0.8, 0.8, (2, 6, 2)) * np.array([4, 1, 1, 0.01, 0.01, 0.01])[:, None]
    maps[:, 0] += 32
    got = glyphs._resampled(pictures, np.rint(maps * FIXED).astype(np.int32), 16)
    for n, i, j in itertools.product(range(2), range(16), range(16)):
        right, down = 2 * j - 15, 2 * i - 15
        x, y = maps[:, :, n] @ [1, right, down, right**2, right * down, down**2]
        x, y = min(max(x, 0), CANVAS - 1.001), min(max(y, 0), CANVAS - 1.001)
        column, row = int(x), int(y)
        window = pictures[n, row : row + 2, column : column + 2]
        want = np.array([1 - (y - row), y - row]) @ window @ np.array([1 - (x - column), x - column])
        assert abs(got[n, i, j] - want) < 3  # weights are rounded to 1/256


def test_a_missing_font_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(glyphs.matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(InputError, match=r"DejaVuSerif-Nowhere\.ttf"):
        drawing("A", "DejaVuSerif-Nowhere")
