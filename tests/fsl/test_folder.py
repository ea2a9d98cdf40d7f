"""A person's own pictures: what is found in folders, which classes are novel, pictures of every size and kind."""

import io
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from clustering.foundation.errors import InputError, InputWarning
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.folder import Folder
from fsl.benchmarks.images import images_source, open_images
from fsl.benchmarks.layouts import EncodedPictures
from fsl.picture_folders import digests, in_both, labelled_pictures, unlabelled_pictures
from tests.fsl.small_benchmarks import whole

ANIMALS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay")


def save(path, colour=(200, 100, 50), size=(10, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def fill(folder, names=ANIMALS, each=2):
    for name in names:
        for number in range(each):
            save(folder / name / f"{number}.png", (ANIMALS.index(name), number, 0))
    return folder


def classes(folder, **options):
    benchmark = Folder(str(folder), **options)
    return [benchmark.read(split).class_names for split in SPLITS]


class TestSplits:
    @given(novel=st.floats(0.01, 1), validation=st.floats(0.01, 1), seed=st.integers(0, 2**40))
    def test_drawn_splits_are_disjoint_and_of_at_least_two_classes(self, tmp_path_factory, novel, validation, seed):
        folder = tmp_path_factory.getbasetemp() / "animals"
        if not folder.exists():
            fill(folder, each=1)
        try:
            found = classes(folder, novel=novel, validation=validation, seed=seed)
        except InputError as error:
            shares = [max(2, round(share * 10)) for share in (novel, validation)]
            assert sum(shares) > 8, error  # noqa: PT017
            return
        assert sorted(name for names in found for name in names) == sorted(ANIMALS)
        assert min(map(len, found)) >= 2
        assert len(found[2]) == max(2, round(novel * 10))
        assert all(list(names) == sorted(names) for names in found)

    def test_the_seed_draws_and_nothing_else_does(self, tmp_path):
        first = classes(fill(tmp_path / "a"))
        assert classes(fill(tmp_path / "b", ANIMALS[::-1], each=3)) == first
        assert any(classes(tmp_path / "a", seed=seed) != first for seed in range(1, 4))

    @pytest.mark.parametrize(
        "words", [("train", "val", "test"), ("base", "validation", "novel"), ("Train", "VAL", "Test")]
    )
    def test_given_by_folders(self, tmp_path, words):
        parts = (ANIMALS[:5], ANIMALS[5:7], ANIMALS[7:])
        for word, names in zip(words, parts, strict=True):
            fill(tmp_path / word, names)
        assert classes(tmp_path) == list(parts)
        assert [len(names) for names in classes(tmp_path, split="drawn")] == [6, 2, 2]

    def test_given_by_lists(self, tmp_path):
        fill(tmp_path / "images")
        parts = (ANIMALS[:5], ANIMALS[5:7], ANIMALS[7:])
        for word, names in zip(("train", "val", "test"), parts, strict=True):
            rows = [f"{name}/{number}.png,a kind of {name}" for name in names for number in range(2)]
            (tmp_path / f"{word}.csv").write_text("\n".join(["file,class", *rows, ",", " "]))  # empty rows of a sheet
        assert classes(tmp_path) == [tuple(f"a kind of {name}" for name in names) for names in parts]
        source = Folder(str(tmp_path)).source()
        (tmp_path / "test.csv").unlink()
        with pytest.raises(InputError, match=r"test\.csv"):
            classes(tmp_path)
        (tmp_path / "test.csv").write_text("hen/0.png,hen\nibis/1.png,ibis")
        assert Folder(str(tmp_path)).source() != source

    def test_a_class_in_two_splits_is_named(self, tmp_path):
        for word in ("train", "val", "test"):
            fill(tmp_path / word)
        with pytest.raises(InputError, match=r"'ant' .*base .*validation .*split=drawn"):
            classes(tmp_path)
        assert Folder(str(tmp_path), split="drawn").read("novel").labels.tolist() == [0] * 6 + [1] * 6

    def test_what_lacks_is_said(self, tmp_path):
        for root in (None, "", str(tmp_path / "nowhere")):
            with pytest.raises(InputError, match="root=FOLDER"):
                Folder(root).source()
        with pytest.raises(InputError, match="0 classes"):
            Folder(str(tmp_path)).source()
        fill(tmp_path, ANIMALS[:5])
        with pytest.raises(InputError, match=r"5 classes, .*2 base classes"):
            Folder(str(tmp_path)).source()
        with pytest.raises(InputError, match="split=drawn"):
            Folder(str(tmp_path), split="given").source()
        save(tmp_path / "stray.png")
        with pytest.raises(InputError, match=r"stray\.png"):
            Folder(str(tmp_path)).source()
        for word in ("train", "test"):
            fill(tmp_path / "other" / word, ANIMALS[:2])
        with pytest.raises(InputError, match="no val/"):
            Folder(str(tmp_path / "other")).source()

    def test_identity_is_of_the_files_and_what_is_done_with_them(self, tmp_path):
        here, there = Folder(str(fill(tmp_path / "a"))), Folder(str(fill(tmp_path / "b")))
        assert images_source(here) == images_source(there)
        changed = [Folder(here.root, size=32), Folder(here.root, fit="squeeze"), Folder(here.root, seed=5)]
        assert len({images_source(benchmark) for benchmark in (here, *changed)}) == 4
        save(tmp_path / "b" / "ant" / "2.png")
        assert images_source(here) != images_source(there)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF"])
@settings(max_examples=40)
@given(data=st.data())
def test_damaged_bytes_give_a_picture_or_an_error_that_names_it(kind, data):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    file = io.BytesIO()
    Image.linear_gradient("L").resize((20, 30)).convert("RGB").save(file, kind, exif=exif)
    damaged = bytearray(file.getvalue()[: data.draw(st.integers(1, len(file.getvalue())) | st.just(10**6))])
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    pictures = EncodedPictures(["the one"], lambda index: bytes(damaged), 16, "crop", upright=True)
    try:
        assert pictures[0:1].shape == (1, 3, 16, 16)
    except InputError as error:
        assert str(error).startswith("the one: ")  # noqa: PT017


class TestPictures:
    """One picture of each kind; the others are plain."""

    @pytest.fixture
    def look(self, tmp_path):
        fill(tmp_path / "train", ANIMALS[:2])
        fill(tmp_path / "val", ANIMALS[2:4])

        def look(write, fit="crop", name="a.png"):
            place = tmp_path / "test" / "picture"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            write(place / name)
            return whole(Folder(str(tmp_path), fit=fit, size=16).read("novel"))[0]

        return look

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "I;16"])
    def test_of_any_mode(self, look, mode):
        grey = {"I": 200 << 8, "I;16": 200 << 8, "1": 1}.get(mode)
        if mode in ("I", "I;16"):
            picture = Image.fromarray(np.full((20, 30), grey, np.uint16))
        elif grey is not None:
            picture = Image.new(mode, (30, 20), grey)
        else:
            picture = Image.new("RGB", (30, 20), (200, 200, 200)).convert(mode, palette=Image.Palette.ADAPTIVE)
        name = {"CMYK": "a.jpg", "YCbCr": "a.jpg"}.get(mode, "a.png")
        image = look(lambda path: picture.save(path), name=name)
        assert image.shape == (3, 16, 16)
        assert abs(image.astype(int) - (255 if mode == "1" else 200)).max() <= 3

    def test_what_is_transparent_is_white(self, look):
        image = look(lambda path: Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(path))
        assert (image == 255).all()

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_it_is_turned_upright(self, look, orientation):
        """A red corner ends up on the top left, as a viewer shows it."""
        upright = Image.new("RGB", (16, 16), "blue")
        upright.paste("red", (0, 0, 8, 8))
        inverse = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Pillow's transpositions that undo the viewer's
        stored = upright if orientation == 1 else upright.transpose(Image.Transpose(inverse[orientation]))
        exif = Image.Exif()
        exif[0x0112] = orientation
        image = look(lambda path: stored.save(path, exif=exif))
        assert image[0, 2, 2] > 200
        assert image[2, 13, 2] > 200
        assert image[2, 2, 13] > 200

    @pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:45], lambda data: b"no picture"])
    def test_a_broken_one_is_named_and_nothing_is_written(self, tmp_path, damage):
        fill(tmp_path / "own")
        path = tmp_path / "own" / "fox" / "1.png"
        path.write_bytes(damage(path.read_bytes()))
        benchmark = Folder(str(tmp_path / "own"))
        (split,) = (split for split in SPLITS if "fox" in benchmark.read(split).class_names)
        with pytest.raises(InputError, match=r"fox/1\.png: "):
            open_images(benchmark, split, tmp_path / "cache")
        assert not list((tmp_path / "cache").rglob("*.json"))


@pytest.fixture
def support(tmp_path):
    """Two classes of pictures, which are empty files: nothing here looks into them."""
    for name in ("cat/b.jpg", "cat/a.PNG", "cat/young/c.jpeg", "dog/1.webp", "dog/notes.txt", ".hidden/x.jpg"):
        path = tmp_path / "support" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "support"


def test_a_folder_a_class(support):
    found = labelled_pictures(support)
    assert [os.path.relpath(file, support) for file in found.files] == [
        "cat/a.PNG",
        "cat/b.jpg",
        "cat/young/c.jpeg",
        "dog/1.webp",
    ]
    assert found.labels == ("cat", "cat", "cat", "dog")
    (support / "dog" / "old").mkdir()
    (support / "dog" / "new").mkdir()
    (support / "dog" / "1.webp").rename(support / "dog" / "old" / "1.webp")
    shutil.copy(support / "cat" / "b.jpg", support / "dog" / "new")
    with pytest.warns(InputWarning, match="dog/new, dog/old are one class, 'dog'"):
        assert labelled_pictures(support).labels == ("cat", "cat", "cat", "dog", "dog")


def test_a_support_that_cannot_be(support):
    (support / "bird").mkdir()
    (support / "fish").mkdir()
    with pytest.raises(InputError, match=r"bird has no pictures, like 1 other"):
        labelled_pictures(support)
    (support / "x.jpg").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.jpg is not in the folder of a class"):
        labelled_pictures(support)
    for path in ("x.jpg", "dog/1.webp"):
        (support / path).unlink()
    for name in ("bird", "fish"):
        (support / name).rmdir()
    shutil.rmtree(support / "dog")
    with pytest.raises(InputError, match="only the class 'cat'"):
        labelled_pictures(support)


def test_links_in_circles_are_named(support):
    """Two of them in a folder would make 2^40 folders of it."""
    for name in ("first", "second"):
        (support / "cat" / name).symlink_to(support)
        for look in (labelled_pictures, unlabelled_pictures):
            with pytest.raises(InputError, match=r"/cat/(first|second) and .*same folder"):
                look(support)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: os.symlink("/dev/zero", path)])
def test_what_never_ends_is_not_read(support, make):
    make(support / "cat" / "x.png")
    with pytest.raises(InputError, match=r"x\.png: cannot be read \(not a regular file"):
        digests(unlabelled_pictures(support))


def test_the_same_picture_twice(support, tmp_path):
    (tmp_path / "copy.jpg").write_bytes(b"dog/1.webp")
    files = [str(tmp_path / "copy.jpg"), str(support / "cat/b.jpg")]
    known = labelled_pictures(support).files[1:]
    found = in_both(*(dict(zip(part, digests(part), strict=True)) for part in (known, files[:1])))
    assert found == [(files[0], str(support / "dog/1.webp"))]
    assert len(set(digests(labelled_pictures(support).files))) == 4
    with pytest.raises(InputError, match=r"gone\.jpg: "):
        digests([str(tmp_path / "gone.jpg")])
