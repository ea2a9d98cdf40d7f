"""Omniglot: splits, archives and unpacked pictures."""

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from fsl.benchmarks import omniglot
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.listed import rows_of
from fsl.benchmarks.omniglot import Omniglot, find, load

TEXT = """
Alphabet_of_the_Magi 20 Anglo-Saxon_Futhorc 29 Arcadian 26 Armenian 41 Asomtavruli_(Georgian) 40
Balinese 24 Bengali 46 Braille 26 Burmese_(Myanmar) 34 Blackfoot_(Canadian_Aboriginal_Syllabics) 14
Cyrillic 33 Early_Aramaic 22 Futurama 26 Grantha 43 Greek 24 Gujarati 48 Hebrew 22
Japanese_(hiragana) 52 Korean 40 Inuktitut_(Canadian_Aboriginal_Syllabics) 16 Japanese_(katakana) 47
Latin 26 N_Ko 33 Malay_(Jawi_-_Arabic) 40 Mkhedruli_(Georgian) 41 Sanskrit 42 Syriac_(Estrangelo) 23
Ojibwe_(Canadian_Aboriginal_Syllabics) 14 Tagalog 17 Tifinagh 55 Angelic 20 Atemayar_Qelisayer 26
Atlantean 26 Aurek-Besh 26 Avesta 26 Ge_ez 26 Glagolitic 45 Gurmukhi 45 Kannada 41 Keble 26
Malayalam 47 Manipuri 40 Mongolian 30 Old_Church_Slavonic_(Cyrillic) 45 Oriya 46 Sylheti 28 Tengwar 25
Syriac_(Serto) 23 Tibetan 42 ULOG 26
"""


# characters of each alphabet
SIZES = {name: int(size) for name, size in zip(*[iter(TEXT.split())] * 2, strict=True)}
NPY = io.BytesIO()


np.save(NPY, np.arange(3))


NPY = NPY.getvalue()


def data():
    folder = os.environ.get("TRANSDUCE_DATA")
    if not folder:
        pytest.skip("TRANSDUCE_DATA names no folder with the reference data")
    return Path(folder)


def write(folder, drop=0, **changed):
    """An archive of the right layout with a made-up drawing of each character, the same by all people."""
    random = np.random.default_rng(0)
    names = list(SIZES)
    alphabet = np.repeat(np.arange(len(names)), [20 * size for size in SIZES.values()]).astype(np.uint8)
    character = np.concatenate([np.repeat(np.arange(1, size + 1), 20) for size in SIZES.values()])
    ink = np.zeros((1623, omniglot.SIDE, omniglot.SIDE), bool)
    ink[:, 10:60, 20:90] = random.random((1623, 5, 7)).repeat(10, 1).repeat(10, 2) < 0.5
    arrays = {
        "ink_bits": np.packbits(ink.reshape(1623, -1), axis=1).repeat(20, 0),
        "alphabet": alphabet,
        "alphabet_names": np.array(names),
        "character": character.astype(np.uint8),
        "drawer": np.tile(np.arange(1, 21), 1623).astype(np.uint8),
    }
    arrays = {name: array[drop:] if len(array) == 32460 else array for name, array in arrays.items()} | changed
    np.savez(folder / "omniglot.npz", **arrays)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omniglot")
    write(folder)
    return str(folder)


@pytest.mark.parametrize(("split", "counts"), [("vinyals", (4112, 688, 1692)), ("background", (792, 172, 659))])
def test_splits_have_the_known_numbers_of_classes_and_share_none(monkeypatch, made_up, split, counts):
    drawings = load(find(made_up))
    monkeypatch.setattr(omniglot, "load", lambda paths: drawings)
    monkeypatch.setattr(omniglot, "shrink", lambda ink, size: np.zeros((len(ink), size, size), np.uint8))
    characters = []
    for part, count in zip(SPLITS, counts, strict=True):
        images, labels, names = Omniglot(made_up, split).read(part)
        assert images.shape == (20 * count, 1, 28, 28)
        assert images.dtype == np.uint8
        assert np.array_equal(labels, np.repeat(np.arange(count), 20))
        assert len(set(names)) == count
        characters.append({name.partition("/rot")[0] for name in names})
    assert len(set.union(*characters)) == sum(map(len, characters)) == 1623


def test_a_rotation_turns_to_the_left_and_stays_with_its_name(made_up):
    images, _, names = Omniglot(made_up).read("validation")
    upright = images.reshape(-1, 4, 20, 28, 28)
    for turn in range(4):
        assert np.array_equal(np.rot90(upright[:, 0], turn, (2, 3)), upright[:, turn])
        assert names[turn].endswith(f"/rot{90 * turn:03d}")
    assert not np.array_equal(upright[:, 0], upright[:, 2])


def test_source_tells_split_and_bytes_but_not_the_place(made_up, tmp_path):
    source = Omniglot(made_up).source()
    (tmp_path / "omniglot.npz").write_bytes(Path(made_up, "omniglot.npz").read_bytes())
    assert Omniglot(str(tmp_path)).source() == source
    assert Omniglot(made_up, "background").source() != source
    write(tmp_path, drop=20)
    assert Omniglot(str(tmp_path)).source() != source


def test_a_missing_or_empty_folder_is_named(tmp_path):
    missing = tmp_path / "nowhere"
    for folder in (missing, tmp_path):
        for asked in (Omniglot(str(folder)).source, lambda f=folder: Omniglot(str(f)).read("base")):
            with pytest.raises(InputError, match="images_background") as caught:
                asked()
            assert str(folder) in str(caught.value)


def test_a_truncated_archive_is_named(tmp_path, made_up):
    whole = Path(made_up, "omniglot.npz").read_bytes()
    (tmp_path / "omniglot.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"omniglot\.npz: damaged"):
        Omniglot(str(tmp_path)).read("base")


@pytest.mark.parametrize("drop", [20, 3])
def test_missing_drawings_are_counted(tmp_path, drop):
    write(tmp_path, drop=drop)
    with pytest.raises(InputError, match=f"{32460 - drop:,} drawings"):
        Omniglot(str(tmp_path)).read("base")


@pytest.mark.parametrize(("part", "lists"), [("base", "train"), ("validation", "val"), ("novel", "test")])
def test_vinyals_classes_are_those_of_the_published_lists(made_up, part, lists):
    lines = gzip.decompress((data() / f"splits/omniglot_vinyals_{lists}.txt.gz").read_bytes()).decode().split()
    assert sorted(Omniglot(made_up).read(part)[2]) == sorted(lines)


def test_evaluation_alphabets_and_sizes_are_those_of_the_archive():
    with np.load(data() / "omniglot/omniglot.npz") as file:
        names = file["alphabet_names"].tolist()
        novel = {row["alphabet"] for row in rows_of("omniglot") if row["background"] == "novel"}
        assert novel == {names[number] for number in file["alphabet"][file["is_evaluation"] == 1]}
        sizes = [len(np.unique(file["character"][file["alphabet"] == number])) for number in range(50)]
    assert dict(zip(names, sizes, strict=True)) == SIZES


@pytest.mark.slow
def test_official_zip_and_unpacked_pictures_equal_the_archive(tmp_path):
    official, fewer = data() / "omniglot/images_background_small1.zip", tmp_path / "fewer.zip"
    with zipfile.ZipFile(official) as file, zipfile.ZipFile(fewer, "w") as copy:
        for name in file.namelist():
            if "/Early_Aramaic/" in name or "/Balinese/" in name:
                file.extract(name, tmp_path)
                copy.writestr(name, file.read(name))
    unpacked = omniglot._pictures(tmp_path / "images_background_small1")
    zipped = omniglot._pictures(fewer)
    archive = load(find(str(data() / "omniglot")))
    for drawings in (unpacked, zipped):
        for alphabet in ("Balinese", "Early_Aramaic"):
            mine, reference = drawings.alphabets == alphabet, archive.alphabets == alphabet
            order = np.lexsort((drawings.drawers[mine], drawings.characters[mine]))
            assert np.array_equal(drawings.ink[mine][order], archive.ink[reference])
            assert np.array_equal(drawings.characters[mine][order], archive.characters[reference])
