"""Data sets: what each gives, the forms in which people have their files, and what is said when these are not there."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_matrix

from clustering.datasets import DATASETS
from clustering.datasets.dataset import Dataset, check
from clustering.datasets.features import Features
from clustering.datasets.folder import Folder
from clustering.foundation.errors import InputError, InputWarning
from fairness.datasets import DATASETS as FAIR

REAL = Path(os.environ.get("TRANSDUCE_DATA", "")) / "clustering"
needs_data = pytest.mark.skipif(not (REAL / "mnist.npz").is_file(), reason="TRANSDUCE_DATA is not set")
FIELDS = {name: DATASETS.load(name).__dataclass_fields__ for name in DATASETS.table}
FROM_FILES = [(DATASETS, name) for name, fields in FIELDS.items() if "root" in fields]


@pytest.mark.parametrize(("known", "name"), [*FROM_FILES, *((FAIR, name) for name in ("adult", "bank", "census"))])
def test_without_its_files_it_says_what_to_put_where(known, name, tmp_path):
    for root, words in (
        (None, "root=FOLDER"),
        (str(tmp_path / "none"), "not a folder"),
        (str(tmp_path), "does not contain"),
    ):
        built = known.load(name)(root=root)
        for ask in (built.source, built.read):
            with pytest.raises(InputError, match=words) as told:
                ask()
            assert f"dataset {name}" in str(told.value)


@pytest.fixture(scope="module")
def mnist():
    return check("mnist", DATASETS.load("mnist")(root=str(REAL)).read())


@needs_data
@pytest.mark.parametrize(
    ("name", "points", "dimensions", "classes"),
    [
        ("usps", 9298, 256, 10),
        ("shuttle", 58_000, 9, 7),
        pytest.param("mnist_small", 2000, 784, 10, marks=pytest.mark.slow),
    ],
)
def test_the_real_ones(name, points, dimensions, classes):
    found = check(name, DATASETS.load(name)(root=str(REAL)).read())
    assert found.values.shape == (points, dimensions)
    assert len(found.class_names) == classes
    if name != "shuttle":
        assert found.values.min() == 0
        assert 0.9 < found.values.max() <= 1
    if name == "mnist_small":
        assert (np.bincount(found.labels) == 200).all()


@needs_data
def test_r8_has_rows_of_unit_length():
    found = check("r8", DATASETS.load("r8")(root=str(REAL)).read())
    assert found.values.shape == (7674, 200)
    assert np.linalg.norm(found.values, axis=1) == pytest.approx(1, abs=1e-5)
    assert sorted(np.bincount(found.labels))[-1] == 2840 + 1083


def test_digits_of_uneven_shares():
    uneven = DATASETS.load("digits_uneven")
    found = check("digits_uneven", uneven(points=500, share=0.8).read())
    assert np.bincount(found.labels).tolist() == [80] * 5 + [20] * 5
    whole = check("digits", DATASETS.load("digits")().read())
    assert {row.tobytes() for row in found.values} <= {row.tobytes() for row in whole.values}
    with pytest.raises(InputError, match=r"points=1500 .*share=0\.9 .*270 of digit 0"):
        uneven(points=1500, share=0.9).read()


@pytest.mark.slow
def test_magic_with_and_without_the_surplus_of_gammas(tmp_path):
    """UCI's file has no line of names; a class is as long as it is there."""
    drawn = np.random.default_rng(0)
    values = drawn.integers(0, 10, (19_020, 10))
    lines = [",".join([*map(str, row), "g" if i < 12_332 else "h"]) for i, row in enumerate(values)]
    magic = DATASETS.load("magic")
    (tmp_path / "magic04.data").write_text("\n".join(lines) + "\n")
    whole = check("magic", magic(root=str(tmp_path), balanced=False).read())
    assert np.bincount(whole.labels).tolist() == [12_332, 6688]
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    assert whole.values == pytest.approx(expected.astype(np.float32), abs=1e-5)
    found = magic(root=str(tmp_path)).read()
    assert np.bincount(found.labels).tolist() == [6688, 6688]
    assert np.abs(found.values.mean(axis=0)).max() < 1e-4
    assert not np.array_equal(magic(root=str(tmp_path), seed=1).read().values, found.values)
    (tmp_path / "magic04.csv").write_text("\n".join([",".join("abcdefghijk"), *lines]))
    assert np.array_equal(magic(root=str(tmp_path)).read().values, found.values)
    (tmp_path / "magic04.csv").write_text("\n".join(lines[:50]))
    with pytest.raises(InputError, match=r"magic04\.csv .*\(50, 10\).*\(19020, 10\)"):
        magic(root=str(tmp_path)).read()


@pytest.mark.slow
@needs_data
def test_mnist_as_idx_files_is_mnist(mnist, tmp_path):
    """Some of them packed."""
    with np.load(REAL / "mnist.npz") as arrays:
        for part, key in (("train", "train"), ("t10k", "test")):
            for what, dims, code in (("images-idx3", (28, 28), 3), ("labels-idx1", (), 1)):
                array = arrays[f"{'x' if dims else 'y'}_{key}"].reshape(-1, *dims)
                head = b"\0\0\x08" + bytes([code]) + np.array(array.shape, dtype=">u4").tobytes()
                content = head + array.tobytes()
                packed = part == "t10k"
                path = tmp_path / f"{part}-{what}-ubyte{'.gz' if packed else ''}"
                path.write_bytes(gzip.compress(content, 1) if packed else content)
    found = DATASETS.load("mnist")(root=str(tmp_path)).read()
    assert (found.values == mnist.values).all()
    assert (found.labels == mnist.labels).all()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_usps_as_lines(tmp_path, pack):
    lines = [f"{i % 10} " + " ".join(["-1"] * 255 + [str(i % 3 - 1)]) for i in range(9298)]
    for name, part in (("zip.train", lines[:7291]), ("zip.test", lines[7291:])):
        (tmp_path / f"{name}{'' if pack is bytes else '.gz'}").write_bytes(pack("\n".join(part).encode()))
    found = DATASETS.load("usps")(root=str(tmp_path)).read()
    assert found.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert found.values[:3, 255].tolist() == [0, 0.5, 1]


@pytest.mark.parametrize(("name", "labels"), [("cifar10", 1), ("cifar100", 2)])
@pytest.mark.parametrize("below", [False, True])
def test_the_binary_version_of_cifar(name, labels, below, tmp_path):
    kind = DATASETS.load(name)
    folder = tmp_path / kind.folder if below else tmp_path
    folder.mkdir(exist_ok=True)
    drawn, classes = np.random.default_rng(0), np.arange(20) % len(kind.classes)
    files = [*kind.parts["train"], *kind.parts["test"]]
    pictures = drawn.integers(0, 256, (len(files), 20, 3, 32, 32), dtype=np.uint8)
    for file, part in zip(files, pictures, strict=True):
        head = np.tile(classes[:, None], (1, labels)).astype(np.uint8)
        head[:, 1:] += 50  # the finer class of CIFAR-100
        (folder / file).write_bytes(np.hstack([head, part.reshape(20, -1)]).tobytes())
    found = check(name, kind(root=str(tmp_path)).read())
    np.testing.assert_array_equal(found.values, pictures.reshape(-1, 3072).astype(np.float32) / 255)
    assert found.labels.tolist() == len(files) * classes.tolist()
    test = kind(root=str(tmp_path), part="test")
    np.testing.assert_array_equal(test.read().values, found.values[-20:])
    assert test.source() != kind(root=str(tmp_path)).source()
    (folder / files[-1]).write_bytes(bytes(3000))
    with pytest.raises(InputError, match="3,000 bytes"):
        test.read()


@needs_data
def test_the_test_part_of_cifar_as_jpeg():
    kind = DATASETS.load("cifar10")
    with pytest.raises(InputError, match="part=test"):
        kind(root=str(REAL)).read()
    found = check("cifar10", kind(root=str(REAL), part="test").read())
    assert found.values.shape == (10_000, 3072)
    assert np.bincount(found.labels).tolist() == [1000] * 10
    bluer = {}
    for label, name in enumerate(found.class_names):
        pictures = found.values[found.labels == label]
        bluer[name] = pictures[:, 2048:].mean() - pictures[:, :1024].mean()
    assert {name for name, more in bluer.items() if more > 0} == {"airplane", "ship"}, "the sky and the sea"


def test_features_of_others_are_read_from_one_file(tmp_path):
    drawn = np.random.default_rng(0)
    x, y = drawn.standard_normal((40, 10)), np.arange(40) % 4 + 1
    np.savez(tmp_path / "reuters_code.npz", x=x, y=y)
    found = check("reuters_code", DATASETS.load("reuters_code")(root=str(tmp_path)).read())
    assert found.values == pytest.approx(x.astype(np.float32))
    assert (found.labels == y - 1).all()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "mnist.npz"),
        ("usps", "usps.npz"),
        ("shuttle", "shuttle.npz"),
        ("ytf", "ytf.npz"),
        ("mnist", "idx"),
        ("magic", "magic04.csv"),
        ("cifar10", "cifar10.npz"),
        ("adult", "adult.data"),
        ("bank", "bank-additional-full.csv"),
        ("census", "USCensus1990raw.data.txt"),
    ],
)
def test_a_damaged_file_is_named(name, file, tmp_path):
    names = [file]
    if file == "idx":
        names = [f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    for path in names:
        (tmp_path / path).write_bytes(b"not what it says\n1,2,3\n")
    with pytest.raises(InputError, match=rf"dataset {name}: .*{names[0]}") as refused:
        (FAIR if name in FAIR.table else DATASETS).load(name)(root=str(tmp_path)).read()
    assert "allow_pickle" not in str(refused.value)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Dataset(np.zeros(3)), "shape"),
        (Dataset(np.array([[0.0], [np.nan]])), "row 2"),
        (Dataset(csr_matrix(np.array([[0.0], [np.inf]]))), "row 2"),
        (Dataset(np.zeros((2, 1)), np.zeros(3, dtype=np.int64), ("a",)), "labels"),
        (Dataset(np.zeros((2, 1)), np.array([0, 2]), ("a", "b")), "each with"),
        (Dataset(np.zeros((2, 1)), np.array([0, 0]), ("a", "b")), "each with"),
        (Dataset(np.zeros((2, 1)), np.array([-1, 0]), ("a",)), "each with"),
    ],
)
def test_what_is_no_data_set_is_refused(found, words):
    with pytest.raises(InputError, match=words):
        check("made_up", found)


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


def test_pictures_that_another_installation_reads_have_another_identity(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "red" / "0.heic").write_bytes(b"of a smartphone")
    skipping, found = Folder(str(folder), size=8, broken="skip"), list[str]()
    for heif in (False, True):
        monkeypatch.setattr("clustering.datasets.folder.read_heif", lambda heif=heif: heif)
        found.append(skipping.source())
    assert found[0] != found[1]
    with pytest.warns(InputWarning, match=r"0\.heic"):
        assert len(skipping.read().values) == 6


def test_labels_of_other_programs(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6) // 2

    def labels_of(file: str) -> list[str]:
        found = check("features", Features(str(tmp_path / file)).read())
        assert found.labels is not None
        return [found.class_names[label] for label in found.labels]

    np.savez(tmp_path / "bytes.npz", features=X, labels=np.array([b"x", b"y", b"z"])[y])
    assert labels_of("bytes.npz") == list("xxyyzz")
    rows = {"emb": list(X), "label": y, "class_names": list("xxyyzz")}  # a name in each row
    pd.DataFrame(rows).to_parquet(tmp_path / "names.parquet")
    assert labels_of("names.parquet") == list("001122")
    for labels, words in ((np.where(y, y, np.nan), "nan in row 0 is no label"), (y[:, None], r"shape \(6, 1\)")):
        np.savez(tmp_path / "wrong.npz", features=X, labels=labels)
        with pytest.raises(InputError, match=rf"wrong\.npz: .*{words}"):
            labels_of("wrong.npz")


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
