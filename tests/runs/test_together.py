"""Files that belong together are replaced all, or none."""

import errno

import pytest

from clustering.foundation.errors import InputError
from runs.storage.together import Output, write_together


@pytest.fixture
def outputs(tmp_path):
    for name in ("old.csv", "old.html"):
        (tmp_path / name).write_text("old")
    return [
        Output(tmp_path / name, "output=FILE", lambda path: path.write_text("new") and None)
        for name in ("old.csv", "old.html", "fresh.csv")
    ]


def test_all_get_their_places(outputs, tmp_path):
    write_together(outputs)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("old.csv", "old.html", "fresh.csv"), "new"
    )


@pytest.mark.parametrize(
    ("stop", "kind", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), InputError, r"fresh\.csv: .*No space.*--save FILE"),
        (KeyboardInterrupt("by hand"), KeyboardInterrupt, "by hand"),
    ],
)
def test_what_stops_one_leaves_all_as_they_were(outputs, tmp_path, stop, kind, words):
    def fill(path):
        path.write_text("ne")
        raise stop

    outputs[2] = Output(tmp_path / "fresh.csv", "--save FILE", fill)
    with pytest.raises(kind, match=words):
        write_together(outputs)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.csv": "old", "old.html": "old"}


def test_a_disk_that_is_full_when_the_data_get_there_leaves_all_as_they_were(outputs, tmp_path, monkeypatch):
    """Some file systems say so only then; here of the second file."""
    left = [0, 0]

    def fsync(_):
        if not left:
            raise OSError(errno.ENOSPC, "No space left")
        left.pop()

    monkeypatch.setattr("os.fsync", fsync)
    left.pop()
    with pytest.raises(InputError, match=r"old\.html: .*No space"):
        write_together(outputs)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.csv": "old", "old.html": "old"}


def test_a_file_that_cannot_take_its_place_is_named(outputs, tmp_path):
    (tmp_path / "fresh.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_together(outputs)
