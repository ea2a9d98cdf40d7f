"""Glyphs: letters that are drawn."""

import itertools
import unicodedata

import matplotlib
import numpy as np
import pytest
from matplotlib import ft2font

from fsl.benchmarks import glyphs
from fsl.benchmarks.benchmark import SPLITS, fingerprint
from fsl.benchmarks.glyphs import CANVAS, FIXED, Glyphs, classes, drawing

FEW = Glyphs(samples=2)


@pytest.fixture(scope="module")
def validation():
    return FEW.read("validation")


def test_classes_are_many_and_of_different_scripts():
    letters = classes()
    assert [len(letters[split]) for split in SPLITS] == [344, 127, 484]
    assert all(list(letters[split]) == sorted(set(letters[split])) for split in SPLITS)
    scripts = [{unicodedata.name(letter).split()[0] for letter in letters[split]} for split in SPLITS]
    assert sum(map(len, scripts)) == len(set().union(*scripts)) == 12


def thumbnails(drawings):
    """Drawings (n, 64, 64) as 16 x 16 blurred pixels (n, 256), integers in 0..31."""
    coarse = drawings.reshape(-1, 16, 4, 16, 4).sum((2, 4), dtype=np.int64)
    for axis in (1, 2):  # the border is empty, so that nothing wraps around
        coarse = (np.roll(coarse, 1, axis) + 2 * coarse + np.roll(coarse, -1, axis)) // 4
    return coarse.reshape(-1, 256) * 31 // (255 * 16)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_no_two_letters_look_alike_in_any_faces(split):
    """Those that did were left out of the list: thumbnails differ by 5 % of the ink's energy."""
    drawn = [(letter, drawing(letter, face)) for letter in classes()[split] for face in glyphs.FACES]
    letters = np.array([letter for letter, glyph in drawn if glyph is not None])
    small = thumbnails(np.stack([glyph for _, glyph in drawn if glyph is not None])).astype(np.float32)
    energy = np.square(small).sum(1)  # integers below 2^24 are exact in float32
    for letter, ink, other in zip(letters, energy, small, strict=True):
        alike = 100 * (energy + ink - 2 * small @ other) < 5 * np.minimum(energy, ink)
        assert set(letters[alike]) <= {letter}


def test_samples_have_the_promised_form(validation):
    images, labels, names = validation
    assert images.dtype == np.uint8
    assert images.shape == (2 * len(names), 1, 28, 28)
    assert labels.dtype == np.int64
    assert np.array_equal(np.bincount(labels), np.full(len(names), 2))
    assert len(set(names)) == len(names)
    assert all(name.startswith("U+") for name in names)


def test_one_seed_gives_the_same_bytes_and_another_seed_others(validation):
    again = Glyphs(samples=2).read("validation")
    assert again.images.tobytes() == validation.images.tobytes()
    assert again.class_names == validation.class_names
    other = Glyphs(samples=2, seed=1).read("validation")
    assert (other.images != validation.images).any((1, 2, 3)).all()
    assert other.class_names == validation.class_names


def test_the_bytes_of_this_recipe(validation):
    """If this fails after a change of the drawing, raise RECIPE and write the new fingerprint here."""
    known = {(2, "3.11.2", "2.14.3"): "435e26a614be659f"}
    version = (glyphs.RECIPE, matplotlib.__version__, ft2font.__freetype_version__)
    if version not in known:
        pytest.skip("no fingerprint noted for recipe {}, matplotlib {}, FreeType {}".format(*version))
    assert fingerprint(validation.images.data, "".join(classes().values())) == known[version]


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
