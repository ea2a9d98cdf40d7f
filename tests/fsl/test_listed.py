"""Benchmarks by their authors' lists: the lists, and every form in which people have the pictures."""

import csv
import gzip
import pickle

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from fsl.benchmarks import BENCHMARKS
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.listed import ListedBenchmark, class_lists
from fsl.benchmarks.papers import CifarFs, Cub, Fc100, MiniImageNet, TieredImageNet
from tests.fsl.small_benchmarks import colours, few, pixels, png, write_cub, write_picture

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
            (b"\xff\xfe\x00\x00", "list"),
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
