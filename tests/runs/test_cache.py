"""The results folder: what is published, what is damaged, who waits, what cannot be written."""

import dataclasses
import errno
import math
import os
import re
import shutil
import threading

import pytest

from clustering.foundation.errors import InputError
from runs import cache
from runs.cache import Store, key, revisions
from runs.storage import locks
from runs.storage.disk import write_text
from tests.runs.children import started


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


KEY = "a" * 16


def publish(store, key=KEY, text="weights", kind="checkpoint", **facts):
    def save(folder):
        (folder / "file").write_text(text)

    return store.publish(kind, key, save, config="seed: 0\n", metrics={"accuracy": 0.5}, facts=facts)


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRANSDUCE_RESULTS", raising=False)
    assert Store().root == tmp_path / "results"
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(tmp_path / "elsewhere"))
    assert Store().root == tmp_path / "elsewhere"
    assert Store("given").root == tmp_path / "given"
    assert not any(tmp_path.iterdir()), "asking where it is makes nothing"


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


def test_published_is_found_and_its_facts(store):
    made = publish(store, tags={"way": 5})
    found = store.find("checkpoint", KEY)
    assert found == dataclasses.replace(made, reused=True)
    assert not made.reused
    assert (found.key, found.name, found.config) == (KEY, f"checkpoint/{KEY}", "seed: 0\n")
    assert (found.metrics, found.facts) == ({"accuracy": 0.5}, {"tags": {"way": 5}})
    assert store.facts("checkpoint") == [found.facts]
    assert store.peek("checkpoint", KEY)


def test_fingerprint_is_of_the_content(store):
    first, second, third = publish(store), publish(store, "b" * 16), publish(store, "c" * 16, "other")
    assert first.fingerprint == second.fingerprint != third.fingerprint


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


@pytest.mark.parametrize("damage", ["one byte", "cut", "empty", "missing", "other kind", "pipe", "folder"])
@pytest.mark.parametrize("name", ["file", "complete.json", "metrics.json", "config.yaml"])
def test_a_damaged_folder_is_put_aside(store, notes, damage, name):
    folder = publish(store).path
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage == "folder":
        path.mkdir()
    elif damage != "missing":
        changed = bytes([content[3] ^ 4])
        others = {"cut": content[:-1], "empty": b"", "other kind": b"[" * 9999, "one byte": content[:3] + changed}
        path.write_bytes(others[damage] + (content[4:] if damage == "one byte" else b""))
    assert store.find("checkpoint", KEY, notes.note) is None
    assert "is damaged" in notes
    assert not folder.exists()
    assert folder.with_name(f"{KEY}.damaged-1").exists()
    publish(store)
    assert store.find("checkpoint", KEY) is not None


@pytest.mark.parametrize("what", ["file", "pipe"])
def test_what_is_no_folder_is_put_aside(store, notes, what):
    place = store.cache("checkpoint") / KEY
    place.parent.mkdir(parents=True)
    os.mkfifo(place) if what == "pipe" else place.write_text("")
    assert store.find("checkpoint", KEY, notes.note) is None
    assert "is damaged" in notes
    assert publish(store).path == place


def test_the_record_of_another_result_does_not_count(store, notes):
    first = publish(store).path
    (first / "complete.json").write_text((publish(store, "b" * 16).path / "complete.json").read_text())
    assert store.find("checkpoint", KEY, notes.note) is None
    assert "of another result" in notes


def test_what_was_computed_from_an_earlier_input_does_not_count(store, notes):
    old = publish(store)
    made_of = {"inputs": {old.name: old.fingerprint, "features/gone": "f"}}
    publish(store, kind="evaluation", **made_of)
    publish(store)
    assert store.find("evaluation", KEY) is not None, "the same content again"
    publish(store, text="other weights")
    assert not store.peek("evaluation", KEY)
    assert store.find("evaluation", KEY, notes.note) is None
    assert "computed with an earlier checkpoint" in notes


def test_a_checked_file_is_not_read_again_until_it_changes(store, monkeypatch):
    folder = publish(store).path
    assert store.find("checkpoint", KEY) is not None
    read, real = [], cache._hash
    monkeypatch.setattr(cache, "_hash", lambda path: read.append(path.name) or real(path))
    assert store.find("checkpoint", KEY) is not None
    assert read == []
    os.utime(folder / "file", ns=(1, 1))
    assert store.find("checkpoint", KEY) is not None
    assert read == ["file"]


def test_the_run_of_a_result_is_noted_for_each_record(store):
    entry = publish(store)
    assert entry.run_id("here#") == ""
    for i in range(60):
        entry.note_run(f"here#{i}", f"run {i}")
    assert (entry.run_id("here#59"), entry.run_id("here#0")) == ("run 59", "")
    (entry.path / "runs.json").write_text("[]")
    assert entry.run_id("here#59") == ""
    entry.note_run("here#", "run")
    assert entry.run_id("here#") == "run"
    assert store.find("checkpoint", KEY) is not None, "it is no part of the result"


def test_the_id_of_a_folder_is_random_and_stays(store, tmp_path):
    assert store.id == Store(store.root).id != Store(tmp_path / "other").id
    (store.root / "id").unlink()
    os.mkfifo(store.root / "id")
    with pytest.raises(InputError, match="remove this file"):
        store.id  # noqa: B018


def test_publishing_again_replaces(store):
    publish(store, text="old")
    publish(store, text="new")
    assert (store.find("checkpoint", KEY).path / "file").read_text() == "new"
    assert sorted(path.name for path in store.cache("checkpoint").iterdir()) == [KEY]


@pytest.mark.parametrize("place", ["a file", "below a file", "proc"])
def test_a_store_that_cannot_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    root = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "sub", "proc": "/proc/none"}[place]
    with pytest.raises(InputError, match="results=FOLDER") as caught:
        Store(root).prepare()
    assert str(root) in str(caught.value)


def test_a_read_only_store(tmp_path):
    store = Store(tmp_path / "results")
    store.prepare()
    store.images.chmod(0o500)
    try:
        if os.access(store.images, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(InputError, match="Permission denied"):
            Store(tmp_path / "results").prepare()
    finally:
        store.images.chmod(0o700)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
        RuntimeError("(sqlite3.OperationalError) database or disk is full"),
    ],
)
def test_a_full_disk_in_any_words_is_one_error(store, error):
    with pytest.raises(OSError, match="disk is full") as caught, store.watched():
        raise error
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(store.root)


def test_errors_of_other_places_are_left_alone(store):
    with pytest.raises(PermissionError), store.watched():
        raise PermissionError(errno.EACCES, "Permission denied", "/data/of/somebody")
    with pytest.raises(InputError, match="cannot write"), store.watched():
        raise PermissionError(errno.EACCES, "Permission denied", str(store.root / "cache"))


def test_a_full_disk_while_publishing_leaves_what_was_there(store, monkeypatch):
    publish(store, text="old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("runs.cache.os.fsync", full)
        with pytest.raises(OSError, match="the disk is full"):
            publish(store, text="new")
    assert (store.find("checkpoint", KEY).path / "file").read_text() == "old"
    publish(store, text="new")
    assert (store.find("checkpoint", KEY).path / "file").read_text() == "new"
    assert [path.name for path in store.cache("checkpoint").iterdir()] == [KEY]


def test_write_text_is_whole_or_not_at_all(tmp_path, monkeypatch):
    write_text(tmp_path / "f", "one")
    monkeypatch.setattr("os.fsync", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        write_text(tmp_path / "f", "two")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("f", "one")]


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
        with store.try_lock("checkpoint", "a") as free:
            assert not free
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]
    assert "another process is working on the training of x" in notes
    with store.try_lock("checkpoint", "a") as free:
        assert free


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


@pytest.mark.parametrize("after", ["the new one is whole", "the old one is away", "the new one is there"])
def test_a_kill_while_a_finished_folder_is_replaced(store, monkeypatch, after):
    """One of both is found afterwards, whole, and nothing is left beside it when it is published again."""
    publish(store, text="old")
    real, delete = os.replace, shutil.rmtree

    def stop():
        raise SystemExit

    def replace(source, target):
        if str(source).endswith(".new") == (after == "the old one is away"):
            stop()
        real(source, target)

    with monkeypatch.context() as patch:
        if after == "the new one is there":
            patch.setattr("shutil.rmtree", lambda path, **_: stop() if str(path).endswith(".old") else delete(path))
            patch.setattr(Store, "_tidy", lambda *_: None)
        else:
            patch.setattr("os.replace", replace)
        with pytest.raises(SystemExit):
            publish(store, text="new")
    found = Store(store.root).find("checkpoint", KEY)
    assert [path.name for path in store.cache("checkpoint").iterdir()] == [KEY]
    assert (found.path / "file").read_text() == ("old" if after == "the new one is whole" else "new")
    publish(store, text="newest")
    assert (store.find("checkpoint", KEY).path / "file").read_text() == "newest"
