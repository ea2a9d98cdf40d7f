"""A folder of pictures as points, and feature banks as points."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from clustering.datasets.dataset import check
from clustering.datasets.features import Features
from clustering.datasets.folder import Folder
from clustering.foundation.errors import InputError


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(3):
        picture(tmp_path / "red" / f"{i}.png", (255, 0, 0))
        picture(tmp_path / "blue" / "deep" / f"{i}.png", (0, 0, 255))
    (tmp_path / "red" / "notes.txt").write_text("no picture")
    (tmp_path / "red" / "._0.png").write_text("of macOS")
    return tmp_path


def test_sub_folders_are_classes_and_colours_are_planes(folder: Path) -> None:
    found = check("folder", Folder(str(folder), size=8).read())
    assert found.values.shape == (6, 3 * 64)
    assert (found.picture, found.channels) == ((8, 8), 3)
    assert found.class_names == ("blue", "red")
    assert found.names[0] == "blue/deep/0.png"
    planes = found.values.reshape(6, 3, 8, 8)
    assert (planes[0] == np.array([0, 0, 1])[:, None, None]).all()
    assert found.labels is not None
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    grey = Folder(str(folder), size=8, colour="grey", fit="squeeze", classes=None).read()
    assert grey.values.shape == (6, 64)
    assert grey.labels is None


def test_identity_is_of_the_pictures_and_not_of_their_sizes(tmp_path: Path) -> None:
    for name, colour in {"a": (255, 0, 0), "b": (0, 0, 255)}.items():
        picture(tmp_path / f"{name}.bmp", colour)
    before = Folder(str(tmp_path)).source()
    (tmp_path / "a.bmp").rename(tmp_path / "c")
    (tmp_path / "b.bmp").rename(tmp_path / "a.bmp")
    (tmp_path / "c").rename(tmp_path / "b.bmp")
    assert Folder(str(tmp_path)).source() != before
    (tmp_path / "b.bmp").unlink()
    (tmp_path / "b.bmp").symlink_to(tmp_path / "gone.bmp")
    with pytest.raises(InputError, match=r"b\.bmp .*No such file"):
        Folder(str(tmp_path)).source()


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n broken"])
def test_a_broken_picture_is_named(folder: Path, content: bytes) -> None:
    (folder / "red" / "0.png").write_bytes(content)
    with pytest.raises(InputError, match=r"red/0\.png"):
        Folder(str(folder), size=8).read()


def test_a_bank_is_points_with_the_classes_that_are_in_it(tmp_path: Path) -> None:
    from fsl.features.bank import FeatureBank

    path = tmp_path / "bank.safetensors"
    features, labels = torch.randn(5, 4), torch.tensor([0, 2, 2, 0, 2])
    FeatureBank(features, labels, ("a", "b", "c")).save(path)
    found = check("features", Features(str(path)).read())
    assert np.array_equal(found.values, features.numpy())
    assert found.class_names == ("a", "c")
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 1, 0, 1]
    FeatureBank(features, labels, ("a", "b", "c"), None, {"labels": "clusters found"}).save(path)
    assert Features(str(path)).read().labels is None
