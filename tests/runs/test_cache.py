"""The results folder: what is published, what is damaged, who waits, what cannot be written."""

import dataclasses
import errno
import itertools
import math
import os
import re
import threading

import pytest

from clustering.foundation.errors import InputError
from runs.cache import Store, key, revisions
from runs.storage import locks
from runs.storage.together import Output, write_together
from tests.runs.children import started


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


KEY = "a" * 16


def publish(store, key=KEY, text="weights", kind="checkpoint", **facts):
    def save(folder):
        (folder / "file").write_text(text)

    return store.publish(kind, key, save, config="seed: 0\n", metrics={"accuracy": 0.5}, facts=facts)


def content(store):
    return (store.find("checkpoint", KEY).path / "file").read_text()


def test_a_key_is_of_settings_inputs_and_revisions():
    """The number does not depend on the version of Python, nor on the order of the settings."""
    made = key("evaluation", {"seed": 0, "shot": 1}, {"features": "f"}, {"strategy": 1})
    assert made == "8b8aa250714f12e2" == key("evaluation", {"shot": 1, "seed": 0}, {"features": "f"}, {"strategy": 1})
    others = [
        key("tuning", {"seed": 0, "shot": 1}, {"features": "f"}, {"strategy": 1}),
        key("evaluation", {"seed": 1, "shot": 1}, {"features": "f"}, {"strategy": 1}),
        key("evaluation", {"seed": 0, "shot": 1}, {"features": "g"}, {"strategy": 1}),
        key("evaluation", {"seed": 0, "shot": 1}, {"features": "f"}, {"strategy": 2}),
    ]
    assert len({made, *others}) == 5
    with pytest.raises(ValueError, match="JSON"):
        key("evaluation", {"weight": math.nan}, {}, {})


def test_the_revision_of_a_plug_in_is_one_unless_it_says_otherwise():
    class Revised:
        revision = 3

    found = revisions(strategy=Revised, sampler=object, evaluation=2)
    assert found == {"strategy": found["strategy"], "sampler": 1, "evaluation": 2}
    assert re.fullmatch("3 [0-9a-f]{16}", str(found["strategy"])), "a class of a user counts by its file, too"
    Revised.__module__ = "fsl.strategies.revised"
    assert revisions(strategy=Revised) == {"strategy": 3}


def test_published_is_found_and_replaced(store):
    made = publish(store, tags={"way": 5})
    found = store.find("checkpoint", KEY)
    assert found == dataclasses.replace(made, reused=True)
    assert not made.reused
    assert (found.name, found.config) == (f"checkpoint/{KEY}", "seed: 0\n")
    assert (found.metrics, found.facts) == ({"accuracy": 0.5}, {"tags": {"way": 5}})
    assert store.peek("checkpoint", KEY)
    assert made.fingerprint == publish(store, "b" * 16).fingerprint != publish(store, text="other").fingerprint
    assert content(store) == "other"
    assert sorted(path.name for path in store.cache("checkpoint").iterdir()) == [KEY, "b" * 16]


def test_half_done_is_not_found_and_stays(store):
    (store.working("checkpoint", KEY) / "last.ckpt").write_text("half")
    assert store.find("checkpoint", KEY) is None
    assert (store.working("checkpoint", KEY) / "last.ckpt").read_text() == "half"
    forced = store.working("checkpoint", KEY, force=True)
    assert [path.name for path in forced.iterdir()] == ["forced"]
    (forced / "last.ckpt").write_text("half")
    assert len(list(store.working("checkpoint", KEY, force=True).iterdir())) == 2, "a forced one is resumed"
    publish(store)
    assert not forced.exists()


DAMAGES = ("one byte", "cut", "empty", "missing", "other kind", "pipe", "folder")
FILES = ("file", "complete.json", "metrics.json", "config.yaml")


@pytest.mark.parametrize(
    ("name", "damage"), [*itertools.product(FILES, DAMAGES), (".", "empty"), (".", "pipe")]
)  # ".": the folder itself
def test_a_damaged_result_is_put_aside(store, notes, damage, name):
    folder = publish(store).path
    path = folder / name
    if name == ".":
        path = folder.rename(folder.with_name("b" * 16)) and folder
    written = b"0123" if name == "." else path.read_bytes()
    path.unlink(missing_ok=True)
    if damage == "pipe":
        os.mkfifo(path)
    elif damage == "folder":
        path.mkdir()
    elif damage != "missing":
        changed = written[:3] + bytes([written[3] ^ 4]) + written[4:]
        path.write_bytes({"cut": written[:-1], "empty": b"", "other kind": b"[" * 9999, "one byte": changed}[damage])
    assert store.find("checkpoint", KEY, notes.note) is None
    assert "is damaged" in notes
    assert not os.path.lexists(folder)
    assert os.path.lexists(folder.with_name(f"{KEY}.damaged-1"))
    publish(store)
    assert store.find("checkpoint", KEY) is not None


def test_the_record_of_another_result_does_not_count(store, notes):
    first = publish(store).path
    (first / "complete.json").write_text((publish(store, "b" * 16).path / "complete.json").read_text())
    assert store.find("checkpoint", KEY, notes.note) is None
    assert "of another result" in notes


def test_what_was_computed_from_an_earlier_input_does_not_count(store, notes):
    old = publish(store)
    publish(store, kind="evaluation", inputs={old.name: old.fingerprint, "features/gone": "f"})
    publish(store)
    assert store.find("evaluation", KEY) is not None, "the same content again"
    publish(store, text="other weights")
    assert not store.peek("evaluation", KEY)
    assert store.find("evaluation", KEY, notes.note) is None
    assert "computed with an earlier checkpoint" in notes


def test_the_id_of_a_folder_is_random_and_stays(store, tmp_path):
    assert store.id == Store(store.root).id != Store(tmp_path / "other").id
    (store.root / "id").unlink()
    os.mkfifo(store.root / "id")
    with pytest.raises(InputError, match="remove this file"):
        store.id  # noqa: B018


@pytest.mark.parametrize("place", ["a file", "below a file", "proc"])
def test_a_store_that_cannot_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    root = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "sub", "proc": "/proc/none"}[place]
    with pytest.raises(InputError, match="results=FOLDER") as caught:
        Store(root).prepare()
    assert str(root) in str(caught.value)


# Writing that is interrupted.


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("before", ["the new one is whole", "the old one is away", "the new one is there", "full"])
def test_an_end_while_a_result_is_replaced(store, monkeypatch, before):
    """By a kill or a full disk: one of both is found afterwards, whole, and nothing is left beside it."""
    publish(store, text="old")
    real = os.replace

    def replace(source, target):
        kind = source.suffix
        if (kind, before) in {("", "the old one is away"), (".new", "the new one is there")}:
            raise SystemExit
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", replace)
        if before in ("the new one is whole", "full"):
            patch.setattr("os.fsync", full if before == "full" else lambda _: (_ for _ in ()).throw(SystemExit))
        with pytest.raises((SystemExit, OSError)):
            publish(store, text="new")
    assert content(Store(store.root)) == ("old" if before in ("the new one is whole", "full") else "new")
    assert [path.name for path in store.cache("checkpoint").iterdir()] == [KEY]
    publish(store, text="newest")
    assert content(store) == "newest"


@pytest.mark.parametrize("stop", [None, full, KeyboardInterrupt, "fsync", "folder"])
def test_files_that_belong_together_are_replaced_all_or_none(tmp_path, monkeypatch, stop):
    places = [tmp_path / name for name in ("a.csv", "b.html", "c.csv")]
    for place in places[:2]:
        place.write_text("old")

    def fill(path):
        path.write_text("new")
        if path.name.endswith("c.csv") and stop is full:
            full()
        if path.name.endswith("c.csv") and stop is KeyboardInterrupt:
            raise KeyboardInterrupt

    if stop == "folder":
        places[2].mkdir()
    if stop == "fsync":
        monkeypatch.setattr("os.fsync", full)
    outputs = [Output(place, "output=FILE", fill) for place in places]
    if stop is None:
        write_together(outputs)
        assert [place.read_text() for place in places] == ["new"] * 3
        return
    raised = KeyboardInterrupt if stop is KeyboardInterrupt else InputError
    with pytest.raises(
        raised, match=None if raised is KeyboardInterrupt else r"[abc]\.\w+: cannot be written .*output="
    ):
        write_together(outputs)
    assert [place.read_text() for place in places[:2]] == ["old", "old"]
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


# Locks.


def test_the_second_waits_and_says_so(store, notes, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    order, said = [], threading.Event()

    def second():
        def say(text):
            notes.note(text)
            said.set()

        with store.lock("checkpoint", "a", "the training of x", say):
            order.append("second")

    with store.lock("checkpoint", "a", "the training of x"):
        thread = threading.Thread(target=second)
        thread.start()
        assert said.wait(20)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]
    assert "another process is working on the training of x" in notes


def test_a_killed_owner_frees_its_lock(store, child_environment):
    store.prepare()
    code = (
        "import sys, time; from runs.cache import Store\n"
        "with Store(sys.argv[1]).lock('checkpoint', 'a', 'x'): print('held', flush=True); time.sleep(60)"
    )
    with started(["-c", code, str(store.root)], child_environment) as child:
        assert child.stdout.readline() == "held\n"
        with store.try_lock("checkpoint", "a") as free:
            assert not free
    with store.try_lock("checkpoint", "a") as free:
        assert free
