"""mini-ImageNet: its classes, and the layouts in which people have it, on the real files where they are at hand."""

import gzip
import io
import shutil

import numpy as np
import pytest
from PIL import Image

from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.listed import class_lists
from fsl.benchmarks.papers import MiniImageNet
from tests.fsl.small_benchmarks import few

CLASSES = class_lists("mini")
SHARDS = {"base-0": "base", "base-1": "base", "val": "validation", "novel": "novel"}


def picture(synset, number, size=84, kind="PNG"):
    """A file whose picture tells its class and number: two grey levels beside each other."""
    pixels = np.empty((size, size, 3), np.uint8)
    pixels[:, : size // 2], pixels[:, size // 2 :] = int(synset[1:]) % 251, 40 * number
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write_shards(folder, names=SHARDS, **changed):
    """Three pictures of each class; the base classes are spread over two archives."""
    for name in names:
        classes = np.array(CLASSES[SHARDS[name]])
        mine = np.arange(len(classes))
        mine = mine[mine < 30] if name == "base-0" else mine[mine >= 30] if name == "base-1" else mine
        files = [picture(classes[label], number) for label in mine for number in (1, 2, 3)]
        arrays = {
            "blob": np.frombuffer(b"".join(files), np.uint8),
            "offset": np.cumsum([0, *map(len, files)]).astype(np.uint32),
            "label": np.repeat(mine, 3).astype(np.uint8),
            "image_id": np.tile([1, 2, 3], len(mine)).astype(np.uint16),
            "classes": classes,
        }
        np.savez(folder / f"{name}.npz", **(arrays | changed))


def write_files(folder, place):
    for names in CLASSES.values():
        for synset in names:
            for number in (1, 2, 3):
                path = folder / place.format(synset=synset, number=number)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(picture(synset, number))


@pytest.fixture
def three(monkeypatch):
    few(monkeypatch, MiniImageNet, 3)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mini")
    write_shards(folder)
    return folder


def whole(decoded):
    return decoded.images[0 : decoded.images.shape[0]]


@pytest.mark.usefixtures("three")
class TestLayouts:
    def test_missing_pictures_and_classes_are_counted(self, tmp_path):
        write_files(tmp_path, "{synset}/{number}.png")
        synset = CLASSES["validation"][3]
        (tmp_path / synset / "2.png").unlink()
        with pytest.raises(InputError, match=rf"2 pictures .*{synset} \(1 classes .*3"):
            MiniImageNet(str(tmp_path)).read("validation")
        shutil.rmtree(tmp_path / CLASSES["validation"][5])
        with pytest.raises(InputError, match=r"15 of the 16 validation classes.*`transduce data check"):
            MiniImageNet(str(tmp_path)).read("validation")

    @pytest.mark.parametrize("split", SPLITS)
    def test_shards(self, shards, split):
        found = MiniImageNet(str(shards)).read(split)
        images, names = whole(found), CLASSES[split]
        assert found.class_names == names
        assert found.labels.tolist() == np.repeat(np.arange(len(names)), 3).tolist()
        assert images.shape == found.images.shape == (3 * len(names), 3, 84, 84)
        assert images.dtype == np.uint8
        assert images[:, 0, 0, 0].tolist() == [int(names[label][1:]) % 251 for label in found.labels]
        assert images[:, 2, 83, 83].tolist() == [40, 80, 120] * len(names)
        assert np.array_equal(found.images[5:9], images[5:9])

    @pytest.mark.parametrize(
        "place",
        ["{synset}/{number}.png", "train/{synset}/x{number}.png", "images/{synset}{number:08d}.png"],
    )
    def test_folders_of_pictures_give_what_the_shards_give(self, shards, tmp_path, place):
        write_files(tmp_path, place)
        (tmp_path / "readme.txt").write_text("not a picture")
        (tmp_path / "n00000000").mkdir()
        (tmp_path / "n00000000" / "1.png").write_bytes(b"of no class of these")
        for split in SPLITS:
            want, found = MiniImageNet(str(shards)).read(split), MiniImageNet(str(tmp_path)).read(split)
            assert np.array_equal(whole(found), whole(want))
            assert np.array_equal(found.labels, want.labels)
            assert found.class_names == want.class_names

    def test_source_tells_contents_but_not_the_place(self, shards, tmp_path):
        source = MiniImageNet(str(shards)).source()
        for path in shards.iterdir():
            shutil.copy(path, tmp_path)
        assert MiniImageNet(str(tmp_path)).source() == source
        write_shards(tmp_path, ["val"], image_id=np.tile([1, 2, 4], 16))
        assert MiniImageNet(str(tmp_path)).source() != source


@pytest.mark.parametrize(("split", "file"), [("base", "train"), ("validation", "val"), ("novel", "test")])
def test_classes_are_those_of_the_published_lists(reference_data, split, file):
    lines = gzip.decompress((reference_data / f"mini_imagenet/{file}.csv.gz").read_bytes()).decode().split()[1:]
    assert MiniImageNet.classes[split] == tuple(sorted({line.partition(",")[2] for line in lines}))


def test_the_real_pictures(reference_data):
    found = MiniImageNet(str(reference_data / "mini_imagenet")).read("novel")
    lines = gzip.decompress((reference_data / "mini_imagenet/test.csv.gz").read_bytes()).decode().split()[1:]
    assert [name.rpartition(": ")[2] for name in found.images.names] == sorted(line[:21] for line in lines)
    assert found.labels.tolist() == np.repeat(np.arange(20), 600).tolist()
    some = np.concatenate([found.images[i : i + 10] for i in range(0, 12_000, 600)]).astype(float) / 255
    assert some.mean((0, 2, 3)) == pytest.approx(MiniImageNet.mean, abs=0.06)
    assert some.std((0, 2, 3)) == pytest.approx(MiniImageNet.std, abs=0.06)
