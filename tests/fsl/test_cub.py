"""Birds: folders that are no classes of theirs, and the shape of their pictures."""

import numpy as np

from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.papers import Cub
from tests.fsl.small_benchmarks import few, png, write_cub, write_picture


def test_a_class_that_nobody_knows_is_no_class_of_its_split(tmp_path, monkeypatch):
    few(monkeypatch, Cub, 2)
    write_cub(tmp_path)
    for name in ("train", "test", "elsewhere"):
        write_picture(tmp_path / name / "999.No_bird" / "1.jpg", 3)
    for split in SPLITS:
        assert Cub(str(tmp_path)).read(split).class_names == Cub.catalogue.classes[split]
    strangers = Cub(str(tmp_path)).listing("novel").strangers  # the third is of base classes
    assert {name: len(files) for name, files in strangers.items()} == {"999.No_bird": 2}


def test_birds_keep_their_shape(tmp_path, monkeypatch):
    """Of a wide picture of three equal squares the one in the middle is kept."""
    few(monkeypatch, Cub, 2)
    write_cub(tmp_path)
    first = Cub.catalogue.classes["novel"][0]
    path = sorted((tmp_path / "images" / first).iterdir())[0]
    path.write_bytes(png(np.repeat(np.array([10, 100, 200], np.uint8), 200)[None, :, None].repeat(200, 0).repeat(3, 2)))
    assert (Cub(str(tmp_path)).read("novel").images[0:1][..., 4:-4] == 100).all()  # beside Lanczos' ringing
