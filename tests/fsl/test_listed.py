"""Benchmarks of papers: lists of classes, and every form in which people have the pictures."""

import csv
import gzip
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.benchmarks import BENCHMARKS
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.images import open_images
from fsl.benchmarks.listed import ListedBenchmark, class_lists
from fsl.benchmarks.papers import CifarFs, Cub, Fc100, INat, MiniImageNet, TieredImageNet
from fsl.benchmarks.survey import survey
from fsl.samplers.whole import WholeSplit
from tests.fsl.small_benchmarks import colours, few, pixels, png, whole, write_cub, write_picture

WORDS = dict(zip(SPLITS, ("train", "val", "test"), strict=True))
COUNTS = {
    "mini": [64, 16, 20],
    "tiered": [351, 97, 160],
    "cub": [100, 50, 50],
    "inat": [908, 90, 227],
    "cifar_fs": [64, 16, 20],
    "fc100": [60, 20, 20],
}
LISTED = [kind for kind in map(BENCHMARKS.load, BENCHMARKS.table) if issubclass(kind, ListedBenchmark)]


class TestLists:
    @pytest.mark.parametrize("kind", LISTED)
    def test_classes_are_disjoint_and_as_many_as_there_should_be(self, kind):
        named = [name for split in SPLITS for name in kind.classes[split]]
        assert len(named) == len(set(named))
        assert [kind.counts(split)[0] for split in SPLITS] == COUNTS[kind.name]
        assert kind.each in (0, 600)

    @pytest.mark.parametrize(
        ("name", "file"), [("tiered", "tiered_imagenet_classes.csv"), ("cifar_fs", "cifar_fs_classes.csv")]
    )
    def test_classes_are_those_of_the_published_lists(self, reference_data, name, file):
        rows = list(csv.reader((reference_data / "splits" / file).read_text().splitlines()))[1:]
        column = 1 if name == "tiered" else 2
        for split in SPLITS:
            assert class_lists(name)[split] == tuple(sorted(row[column] for row in rows if row[0] == WORDS[split]))


class TestCaches:
    @pytest.mark.parametrize("protocol", [2, 4])
    def test_mini_imagenet_by_class(self, tmp_path, monkeypatch, protocol):
        few(monkeypatch, MiniImageNet, 2)
        for split, names in MiniImageNet.classes.items():
            order = np.random.default_rng(0).permutation(2 * len(names))
            rows = {name: order[2 * i : 2 * i + 2].tolist() for i, name in enumerate(reversed(names))}
            labels = np.empty(2 * len(names), int)
            for name, mine in rows.items():
                labels[mine] = names.index(name)
            content = {"image_data": pixels(labels, 84), "class_dict": rows}
            path = tmp_path / f"mini-imagenet-cache-{WORDS[split]}.pkl"
            path.write_bytes(pickle.dumps(content, protocol))
        benchmark = MiniImageNet(str(tmp_path))
        assert len(benchmark.source()) == 16
        for split, names in benchmark.classes.items():
            found = benchmark.read(split)
            assert found.class_names == names
            assert found.labels.tolist() == np.repeat(np.arange(len(names)), 2).tolist()
            assert colours(found)[:, 0].tolist() == found.labels.tolist()
            assert (colours(found)[:, 2] == 200).all()

    @pytest.mark.parametrize("named", [False, True])
    def test_data_and_labels(self, tmp_path, monkeypatch, named):
        few(monkeypatch, CifarFs, 3)
        for split, names in CifarFs.classes.items():
            labels = np.tile(np.arange(len(names)), 3)
            content = {"data": pixels(labels, 32), "labels": labels.tolist()}
            if named:
                content["catname2label"] = {name: i for i, name in enumerate(names)}
            (tmp_path / f"CIFAR_FS_{WORDS[split]}.pickle").write_bytes(pickle.dumps(content))
        for split, names in CifarFs.classes.items():
            found = CifarFs(str(tmp_path)).read(split)
            assert found.class_names == (names if named else tuple(f"{split} {i}" for i in range(len(names))))
            assert (
                colours(found)[:, 0].tolist() == found.labels.tolist() == np.repeat(np.arange(len(names)), 3).tolist()
            )

    @pytest.mark.parametrize("packed", [True, False])
    def test_tiered_imagenet_in_two_files(self, tmp_path, monkeypatch, packed):
        """A list of PNG files, or an archive of pixels as OpenCV reads them: blue first."""
        few(monkeypatch, TieredImageNet, 1)
        for split, names in TieredImageNet.classes.items():
            word, labels = WORDS[split], np.arange(len(names))
            images = pixels(labels, 84)
            said = {"label_specific": labels, "label_specific_str": [f"a kind of {word} {i}" for i in labels]}
            (tmp_path / f"{word}_labels.pkl").write_bytes(pickle.dumps(said, 2))
            if packed:
                stored = [np.frombuffer(png(image), np.uint8)[:, None] for image in images]
                (tmp_path / f"{word}_images_png.pkl").write_bytes(pickle.dumps(stored, 2))
            else:
                np.savez(tmp_path / f"{word}_images.npz", images=images[..., ::-1])
        benchmark = TieredImageNet(str(tmp_path))
        found = benchmark.read("validation")
        assert found.class_names[:11] == tuple(f"a kind of val {i}" for i in range(11))  # 10 after 9
        assert colours(found)[:, 0].tolist() == list(range(97))
        assert (colours(found)[:, 2] == 200).all()
        (tmp_path / "val_labels.pkl").unlink()
        with pytest.raises(InputError, match=r"val_labels\.pkl: "):
            benchmark.read("validation")
        with pytest.raises(InputError, match=r"val_labels\.pkl: "):
            benchmark.source()

    @pytest.mark.parametrize(
        "content",
        [
            {"data": np.zeros((3, 8, 8, 3), np.uint8), "labels": [0, 1]},
            {"data": np.zeros((2, 8, 8), np.uint8), "labels": [0, 1]},
            {"data": np.zeros((2, 8, 8, 3), np.float32), "labels": [0, 1]},
            {"data": None, "labels": [0, 1]},
            {"data": np.zeros((2, 8, 8, 3), np.uint8), "labels": [0, -1]},
            {"image_data": np.zeros((2, 8, 8, 3), np.uint8), "class_dict": {"n01855672": [0, 5]}},
            {"image_data": np.zeros((2, 8, 8, 3), np.uint8), "class_dict": {"n01855672": [0]}},
            {"something": "else"},
            ["a", "list"],
        ],
    )
    def test_a_cache_whose_parts_do_not_fit_is_named(self, tmp_path, content):
        for word in WORDS.values():
            (tmp_path / f"mini-imagenet-cache-{word}.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(InputError, match=r"cache-val\.pkl: damaged"):
            MiniImageNet(str(tmp_path)).read("validation")

    def test_a_large_archive_is_known_by_samples(self, tmp_path, monkeypatch):
        monkeypatch.setattr("fsl.benchmarks.listed.HASHED", 1000)
        for word in WORDS.values():
            (tmp_path / f"FC100_{word}.pickle").write_bytes(b"x" * 3_000_000)
        first = Fc100(str(tmp_path)).source()
        assert Fc100(str(tmp_path)).source() == first
        (tmp_path / "FC100_val.pickle").write_bytes(b"x" * 1_500_000 + b"y" + b"x" * 1_499_999)
        assert Fc100(str(tmp_path)).source() != first


class TestListsOfPictures:
    @pytest.mark.parametrize("header", ["", "filename,label\n"])
    @pytest.mark.parametrize("packed", [False, True])
    def test_with_and_without_a_header(self, tmp_path, monkeypatch, header, packed):
        few(monkeypatch, Cub, 2)
        write_cub(tmp_path)
        want = [Cub(str(tmp_path)).read(split) for split in SPLITS]
        (tmp_path / "split").mkdir()
        for split, names in Cub.classes.items():
            files = sorted(path for name in names for path in (tmp_path / "images" / name).iterdir())
            rows = [(f"{file.parent.name}/{file.name}", str(names.index(file.parent.name))) for file in files]
            text = header + "".join(f"{one},{other}\r\n" for one, other in rows) + "\n"
            path = tmp_path / "split" / f"{WORDS[split]}.csv"
            path.write_bytes(text.encode())
            if packed:
                path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
        assert {place.layout for place in Cub(str(tmp_path)).places()} == {"lists of pictures"}
        for split, expected in zip(SPLITS, want, strict=True):
            found = Cub(str(tmp_path)).read(split)
            assert found.class_names == expected.class_names == Cub.classes[split]
            assert np.array_equal(found.labels, expected.labels)
            assert np.array_equal(colours(found), colours(expected))

    def test_the_lists_of_another_split_are_not_taken(self, tmp_path):
        for split, names in zip(SPLITS, (SPLITS[0], SPLITS[2], SPLITS[1]), strict=True):
            rows = [f"{name}00000001.jpg,{name}" for name in MiniImageNet.classes[names]]
            (tmp_path / f"{WORDS[split]}.csv").write_text("\n".join(["filename,label", *rows]))
        with pytest.raises(InputError, match=r"0 of the 16 validation classes"):
            MiniImageNet(str(tmp_path)).read("validation")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"", "no picture"),
            (b"filename,label\n", "no picture"),
            (b"a.jpg,n1\nb.jpg\n", r"'b\.jpg,'"),
            (b"a.jpg,n1\nb.jpg,\n", r"'b\.jpg,'"),
            (b"a.jpg,n1\nreadme,n1\n", "'readme,n1'"),
            (b"a.jpg,n1\na.jpg,n2\n", r"a\.jpg twice"),
            (b"\xff\xfe\x00\x00", "UTF-8"),
        ],
    )
    def test_a_bad_list_is_named(self, tmp_path, text, message):
        (tmp_path / "train.csv").write_bytes(text)
        with pytest.raises(InputError, match=rf"train\.csv: .*{message}"):
            MiniImageNet(str(tmp_path)).source()


@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("root", [None, "", "nowhere", "."])
def test_a_folder_without_it_says_what_is_wanted(tmp_path, monkeypatch, kind, root):
    monkeypatch.chdir(tmp_path)
    for asked in (kind(root).source, lambda: kind(root).read("base")):
        with pytest.raises(InputError, match=rf"benchmark {kind.name}: .*root=FOLDER .*data where {kind.name}"):
            asked()


def test_a_class_that_nobody_knows_is_no_class_of_its_split(tmp_path, monkeypatch):
    few(monkeypatch, Cub, 2)
    write_cub(tmp_path)
    for name in ("train", "test", "elsewhere"):
        write_picture(tmp_path / name / "999.No_bird" / "1.jpg", 3)
    for split in SPLITS:
        assert Cub(str(tmp_path)).read(split).class_names == Cub.classes[split]


def test_birds_keep_their_shape(tmp_path, monkeypatch):
    """Of a wide picture of three equal squares the one in the middle is kept."""
    few(monkeypatch, Cub, 2)
    write_cub(tmp_path)
    first = Cub.classes["novel"][0]
    path = sorted((tmp_path / "images" / first).iterdir())[0]
    path.write_bytes(png(np.repeat(np.array([10, 100, 200], np.uint8), 200)[None, :, None].repeat(200, 0).repeat(3, 2)))
    assert (Cub(str(tmp_path)).read("novel").images[0:1][..., 4:-4] == 100).all()  # beside Lanczos' ringing


CLASSES = class_lists("mini")
SHARDS = {"base-0": "base", "base-1": "base", "val": "validation", "novel": "novel"}


def picture(synset, number):
    """A file whose picture tells its class and number: two grey levels beside each other."""
    levels = np.empty((84, 84, 3), np.uint8)
    levels[:, :42], levels[:, 42:] = int(synset[1:]) % 251, 40 * number
    return png(levels)


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


def write_divided(folder, monkeypatch, form, support):
    """11 pictures of a novel class a..k and 7 of another, of which these are support; ten base classes."""
    monkeypatch.setattr(INat, "classes", {**INat.classes, "novel": ("112", "113")})
    monkeypatch.setattr(INat, "unlisted", {"base": 10, "validation": 1})
    monkeypatch.setattr(INat, "images", {"novel": 18})
    rows = {"train": [f"train/{number}/a.png,{number}" for number in range(500, 510)], "test": []}
    for name, letters in {"112": "abcdefghijk", "113": "abcdefg"}.items():
        for letter in letters:
            place = "repr" if letter in support[name] else "query"
            rows["test"].append(f"test/{name}/{letter}.png,{name}")
            rows.setdefault(place, []).append(f"{place}/{name}/{letter}.png,{name}")
    for word, lines in rows.items():
        for number, line in enumerate(lines):
            file, _, name = line.partition(",")
            write_picture(folder / file, (int(name), ord(file[-5]), 9))
            if form == "lists" and word in ("repr", "query"):  # there the lists alone divide
                lines[number] = f"test/{file.partition('/')[2]},{name}"
        if form == "lists":
            (folder / f"{word}.csv").write_text("\n".join(lines))


class TestINat:
    @pytest.mark.parametrize("form", ["folders", "lists"])
    def test_support_comes_first_as_the_authors_divide(self, tmp_path, monkeypatch, form):
        """Their test/ has all novel pictures, to which repr/ and query/ are links."""
        write_divided(tmp_path, monkeypatch, form, {"112": "bf", "113": "c"})
        found = INat(str(tmp_path)).read("novel")
        assert found.class_names == ("112", "113")
        assert [name.removesuffix(".png")[-1] for name in found.images.names] == list("bfacdeghijkcabdefg")
        if form == "folders":
            assert [Path(name).parts[-3] for name in found.images.names[:3]] == ["repr", "repr", "query"]
        (labels, support) = torch.from_numpy(found.labels), WholeSplit(support="first")
        task = support.tasks(labels, seed=3).first(1)
        assert sorted(task.support[0].tolist()) == [0, 1, 11]
        assert sorted(task.query[0].tolist()) == [*range(2, 11), *range(12, 18)]

    @pytest.mark.parametrize("form", ["folders", "lists"])
    def test_every_tenth_base_class_validates_and_its_pictures_are_not_there_twice(self, tmp_path, monkeypatch, form):
        write_divided(tmp_path, monkeypatch, form, {"112": "bf", "113": "c"})
        benchmark = INat(str(tmp_path))
        assert len(benchmark.source()) == 16
        assert not survey(benchmark).twins()
        read = [open_images(benchmark, split, tmp_path / "cache").class_names for split in SPLITS]
        assert [len(names) for names in read] == [10, 1, 2]
        assert read[1] == ("base 509",)
        assert set(read[1]) < set(read[0])
        assert benchmark.read("validation").images.names[0].endswith("train/509/a.png")
