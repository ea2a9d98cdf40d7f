"""A person's folders of pictures: what is found in them, and every way in which they can be wrong."""

import os
import shutil

import pytest

from clustering.foundation.errors import InputError
from fsl.picture_folders import check_apart, digests, in_both, labelled_pictures, unlabelled_pictures


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


def test_folders_that_are_not_there(tmp_path):
    for look in (labelled_pictures, unlabelled_pictures):
        with pytest.raises(InputError, match="nowhere"):
            look(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="not a folder"):
        labelled_pictures(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no folders"):
        labelled_pictures(tmp_path / "empty")
    with pytest.raises(InputError, match="no pictures"):
        unlabelled_pictures(tmp_path / "empty")


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


def test_neither_may_be_in_the_other(support, tmp_path):
    (tmp_path / "link").symlink_to(support)
    for query in (support, support / "cat", tmp_path, tmp_path / "link"):
        with pytest.raises(InputError, match="contains the other"):
            check_apart(support, query)
    (tmp_path / "support2").mkdir()
    check_apart(support, tmp_path / "support2")


def test_the_same_picture_twice(support, tmp_path):
    (tmp_path / "copy.jpg").write_bytes(b"dog/1.webp")
    files = [str(tmp_path / "copy.jpg"), str(support / "cat/b.jpg")]
    known = labelled_pictures(support).files[1:]
    found = in_both(*(dict(zip(part, digests(part), strict=True)) for part in (known, files[:1])))
    assert found == [(files[0], str(support / "dog/1.webp"))]
    assert len(set(digests(labelled_pictures(support).files))) == 4
    with pytest.raises(InputError, match=r"gone\.jpg: "):
        digests([str(tmp_path / "gone.jpg")])
