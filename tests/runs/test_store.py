"""The results folder: what is published, what is damaged, who waits, what cannot be written."""

import dataclasses
import errno
import os
import threading

import pytest

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.storage import locks
from runs.storage import store as store_module
from runs.storage.disk import write_text
from tests.runs.children import started


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def publish(store, identity="a" * 16, text="weights", **facts):
    (store.partial("checkpoints", identity) / "file").write_text(text)
    return store.publish("checkpoints", identity, ["file"], facts)


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRANSDUCE_RESULTS", raising=False)
    assert Store().root == tmp_path / "results"
    monkeypatch.setenv("TRANSDUCE_RESULTS", str(tmp_path / "elsewhere"))
    assert Store().root == tmp_path / "elsewhere"
    assert Store("given").root == tmp_path / "given"
    assert not any(tmp_path.iterdir()), "asking where it is makes nothing"


def test_published_is_found_and_its_facts(store):
    made = publish(store, run="r", accuracy=0.5)
    found = store.find("checkpoints", "a" * 16)
    assert found == dataclasses.replace(made, reused=True)
    assert not made.reused
    assert found.facts == {"run": "r", "accuracy": 0.5}
    assert not (store.cache("checkpoints") / ("a" * 16 + ".partial")).exists()


def test_fingerprint_is_of_the_content(store):
    first, second, third = publish(store, "a" * 16), publish(store, "b" * 16), publish(store, "c" * 16, "other")
    assert first.fingerprint == second.fingerprint != third.fingerprint


def test_half_done_is_not_found_and_stays(store):
    (store.partial("checkpoints", "a" * 16) / "last.ckpt").write_text("half")
    assert store.find("checkpoints", "a" * 16) is None
    assert (store.partial("checkpoints", "a" * 16) / "last.ckpt").read_text() == "half"
    assert not any(store.partial("checkpoints", "a" * 16, fresh=True).iterdir())


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "no record", "foreign record", "another's record"])
def test_a_damaged_folder_is_put_aside(store, notes, damage):
    folder = publish(store).path
    if damage == "cut":
        (folder / "file").write_text("weigh")
    elif damage == "changed":
        (folder / "file").write_text("WEIGHTS")
    elif damage == "missing":
        (folder / "file").unlink()
    elif damage == "no record":
        (folder / "complete.json").unlink()
    elif damage == "foreign record":
        (folder / "complete.json").write_text('{"identity": 3')
    else:
        text = (folder / "complete.json").read_text()
        (folder / "complete.json").write_text(text.replace("a" * 16, "b" * 16))
    assert store.peek("checkpoints", "a" * 16) is None
    assert folder.exists(), "peek changes nothing"
    assert store.find("checkpoints", "a" * 16, notes.note) is None
    assert "is damaged" in notes
    assert not folder.exists()
    assert folder.with_name("a" * 16 + ".damaged-1").exists()
    publish(store)
    assert store.find("checkpoints", "a" * 16) is not None


def test_publishing_again_replaces(store):
    publish(store, text="old")
    publish(store, text="new")
    assert (store.find("checkpoints", "a" * 16).path / "file").read_text() == "new"
    assert sorted(path.name for path in store.cache("checkpoints").iterdir()) == ["a" * 16]


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
    store.cache("features").chmod(0o500)
    try:
        if os.access(store.cache("features"), os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(InputError, match="Permission denied"):
            Store(tmp_path / "results").prepare()
    finally:
        store.cache("features").chmod(0o700)


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
    partial = store.partial("checkpoints", "a" * 16)
    (partial / "file").write_text("new")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("runs.storage.store.os.fsync", full)
        with pytest.raises(OSError, match="the disk is full"):
            store.publish("checkpoints", "a" * 16, ["file"], {})
    assert (store.find("checkpoints", "a" * 16).path / "file").read_text() == "old"
    assert [path.name for path in partial.iterdir()] == ["file"], "no temporary file stays"
    store.publish("checkpoints", "a" * 16, ["file"], {})
    assert (store.find("checkpoints", "a" * 16).path / "file").read_text() == "new"


def test_write_text_is_whole_or_not_at_all(tmp_path, monkeypatch):
    write_text(tmp_path / "f", "one")
    monkeypatch.setattr("runs.storage.store.os.replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
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
        "import sys, time; from runs.storage.store import Store\n"
        "with Store(sys.argv[1]).lock('checkpoint', 'a', 'x'): print('held', flush=True); time.sleep(60)"
    )
    with started(["-c", code, str(store.root)], child_environment) as child:
        assert child.stdout.readline() == "held\n"
        with store.try_lock("checkpoint", "a") as free:
            assert not free
    with store.try_lock("checkpoint", "a") as free:
        assert free


@pytest.mark.parametrize("after", ["the old one is away", "the new one is there"])
def test_a_kill_while_a_finished_folder_is_replaced(store, monkeypatch, after):
    """The new folder was whole before: it is what is found, and nothing is left beside it."""

    def made(content):
        (store.partial("features", "a") / "file").write_text(content)
        return store.publish("features", "a", ["file"], {"content": content})

    made("old")
    real = store_module.os.replace

    def replace(source, target):
        if after == "the old one is away" and str(source).endswith("a.partial"):
            raise SystemExit
        real(source, target)

    def deleting(*_, **__):
        raise SystemExit

    monkeypatch.setattr(store_module.os, "replace", replace)
    monkeypatch.setattr(store_module.shutil, "rmtree", deleting)
    with pytest.raises(SystemExit):
        made("new")
    monkeypatch.undo()
    again = Store(store.root)
    again.prepare()
    assert again.find("features", "a").facts == {"content": "new"}
    assert [path.name for path in again.cache("features").iterdir()] == ["a"]
