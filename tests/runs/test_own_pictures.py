"""A user's own pictures as cameras and other programs write them."""

import io

import numpy as np
import pytest
from PIL import Image

from clustering.foundation.errors import InputError
from fsl.picture_folders import unlabelled_pictures
from runs.own_data.pictures import thumbnail

FORMS = {".jfif": "JPEG", ".jpe": "JPEG", ".JPG": "JPEG", ".avif": "AVIF", ".jp2": "JPEG2000", ".J2K": "JPEG2000"}


def levels(path):
    """Grey levels of the thumbnail of a picture."""
    return np.asarray(Image.open(io.BytesIO(thumbnail(str(path), 64))).convert("L"), dtype=float)


@pytest.mark.parametrize("ending", FORMS)
def test_endings_that_are_less_known(tmp_path, ending):
    Image.new("RGB", (32, 24), (0, 200, 0)).save(tmp_path / f"leaf{ending}", FORMS[ending])
    (file,) = unlabelled_pictures(tmp_path)
    assert np.ptp(levels(file)) < 20 < levels(file).mean()


@pytest.mark.parametrize("ending", [".CR2", ".jxl", ".svg", ".dcm", ".ico", ".fits"])
def test_pictures_that_cannot_be_read_are_named(tmp_path, ending):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / f"b{ending}").write_bytes(b"picture")
    for name in ("notes.txt", "labels.csv", "Thumbs.db", ".hidden.svg"):
        (tmp_path / name).write_bytes(b"")
    with pytest.warns(UserWarning, match=rf"left out: 1 \{ending.lower()}; save them as PNG"):
        assert len(unlabelled_pictures(tmp_path)) == 1


@pytest.mark.parametrize("bits", [8, 10, 12, 16])
@pytest.mark.parametrize("form", ["png", "tif"])
def test_grey_pictures_of_16_bits_are_not_black(tmp_path, bits, form):
    ramp = np.tile(np.linspace(0, 2**bits - 1, 64).astype(np.uint16), (64, 1))
    Image.fromarray(ramp).save(tmp_path / f"scan.{form}")
    found = levels(tmp_path / f"scan.{form}").mean(axis=0)
    np.testing.assert_allclose(found, np.linspace(0, 255, 64), atol=6)


def test_a_picture_above_the_limit_says_so(tmp_path, monkeypatch):
    Image.new("L", (40, 40)).save(tmp_path / "map.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 700)
    with pytest.raises(InputError, match=r"map\.png: has more pixels than Pillow decodes .*1600 pixels"):
        thumbnail(str(tmp_path / "map.png"), 64)
