"""The record of runs, with the real MLflow on a database of its own."""

import base64
import contextlib
import math
import os
import re
import shutil
import sqlite3
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.cli import main
from runs.record.code_version import code_version
from runs.record.passwords import without_passwords
from runs.record.query import read_runs
from runs.track import Tracker
from tests.runs.children import together
from tests.runs.unsteady import Unsteady


def start(tracker, key="a" * 16, name="laplacianshot 5w1s tiny/conv4 s0", experiment="evaluate/tiny", **more):
    values = {"params": {"shot": 1, "strategy.weight": 0.7}, "config": "shot: 1\n", "tags": {"shot": 1}}
    return tracker.start(experiment, name, stage="evaluation", key=key, **(values | more))


def status(tracker, run):
    return tracker.client.get_run(run.run_id).info.status


@contextlib.contextmanager
def opened(store):
    with contextlib.closing(sqlite3.connect(store.database)) as record, record:
        yield record


# Runs.


def test_a_run_holds_what_it_was_given_and_its_files_are_in_the_store(tracker, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start(tracker)
    run.log(metrics={"accuracy": 0.5, "bad": math.nan, "objective": math.inf}, tags={"seed": 0})
    (tmp_path / "rows.txt").write_text("1 2 3")
    run.artifact(tmp_path / "rows.txt")
    run.finish()
    found = tracker.find("a" * 16)
    assert found.info.run_name == "laplacianshot 5w1s tiny/conv4 s0"
    assert (found.data.params, found.data.metrics) == ({"shot": "1", "strategy.weight": "0.7"}, {"accuracy": 0.5})
    expected = {"key": "a" * 16, "stage": "evaluation", "shot": "1", "seed": "0", "code": code_version()}
    assert (expected | {"undefined": "bad, objective"}).items() <= found.data.tags.items()
    assert re.fullmatch(r".+, \d+ cores?(, .+)?", found.data.tags["machine"])
    inside = store.artifacts / "evaluate" / "tiny" / run.run_id / "artifacts"
    assert {path.name: path.read_text() for path in inside.iterdir()} == {
        "config.yaml": "shot: 1\n",
        "rows.txt": "1 2 3",
    }
    assert not (tmp_path / "mlruns").exists()
    assert tracker.download(run.run_id, "rows.txt", tmp_path).read_text() == "1 2 3"
    assert tracker.download(run.run_id, "nothing.txt", tmp_path) is None
    assert tracker.download("0" * 32, "config.yaml", tmp_path, "file://[x/\0") is None


def test_the_block_of_a_run_marks_how_it_ended(tracker):
    killed, failed, finished = start(tracker), start(tracker), start(tracker)
    with pytest.raises(KeyboardInterrupt), killed.guarded():
        raise KeyboardInterrupt
    with pytest.raises(OSError, match="host"), failed.guarded():
        raise OSError(f"http://user:{SECRET}@host does not answer")
    finished.finish()
    with pytest.raises(RuntimeError, match="later"), finished.guarded():
        raise RuntimeError("later")
    assert [status(tracker, run) for run in (killed, failed, finished)] == ["KILLED", "FAILED", "FINISHED"]
    assert tracker.client.get_run(failed.run_id).data.tags["ended"] == "OSError: http://host does not answer"


def test_a_resumed_run_is_the_same_run_and_repeats_nothing(tracker, notes):
    run = start(tracker)
    for epoch in (1, 2, 3):
        run.metrics({"loss": 1 / epoch}, epoch)
    run.metrics({"accuracy": 0.25}, 2)
    run.stop("KILLED", "why")
    (resumed,) = tracker.unfinished("evaluate/tiny", ["a" * 16, "b" * 16]).values()
    for epoch in (2, 3, 4):  # what was logged after the last saved state comes again
        resumed.metrics({"loss": 1 / epoch, "accuracy": epoch / 8}, epoch)
    resumed.finish()
    for name, expected in {
        "loss": [(1, 1.0), (2, 0.5), (3, 1 / 3), (4, 0.25)],
        "accuracy": [(2, 0.25), (3, 0.375), (4, 0.5)],
    }.items():
        history = tracker.client.get_metric_history(run.run_id, name)
        assert [(point.step, point.value) for point in history] == expected
    tags = tracker.client.get_run(run.run_id).data.tags
    assert (status(tracker, run), tags["resumed"], "ended" in tags) == ("FINISHED", "1", False)
    assert tracker.unfinished("evaluate/tiny", ["a" * 16]) == {}
    tracker.client.delete_run(start(tracker).run_id)
    assert tracker.unfinished("evaluate/tiny", ["a" * 16]) == {}, "a deleted run is not resumed"


# Experiments.


def test_a_deleted_experiment_is_restored(tracker, store, notes):
    start(tracker).finish()
    tracker.client.delete_experiment(tracker.experiment("evaluate/tiny"))
    start(Tracker(store, say=notes.note)).finish()
    assert "restored" in notes


def test_an_experiment_made_by_another_process_meanwhile(tracker, store, monkeypatch):
    other, real, calls = Tracker(store), tracker.client.get_experiment_by_name, []

    def late(name):
        calls.append(name)
        return real(name) if len(calls) > 1 else other.experiment(name) and None

    monkeypatch.setattr(tracker.client, "get_experiment_by_name", late)
    assert tracker.experiment("train/x") == other.experiment("train/x")


def test_a_moved_results_folder_keeps_its_runs_and_their_files(tracker, store, tmp_path, notes):
    start(tracker).finish()
    (tmp_path / "link").symlink_to(store.root)
    start(Tracker(Store(tmp_path / "link"))).finish()
    assert len(read_runs(tracker, "evaluate/")) == 2, "by another name it is the same folder"
    moved = Tracker(Store(shutil.move(store.root, tmp_path / "moved, très loin")), say=notes.note)
    row, _ = read_runs(moved, "evaluate/")
    assert moved.read(row.run_id, "config.yaml", lambda path: path.read_text(), row.artifact_uri) == "shot: 1\n"
    start(moved, "b" * 16).finish()
    assert "was moved" in notes
    assert {row.experiment for row in read_runs(moved, "evaluate/")} == {"evaluate/tiny"}
    assert len(list((moved.store.artifacts / "evaluate" / "tiny").glob("*/artifacts/config.yaml"))) == 3
    assert moved.find("b" * 16) is not None


# Where the record is.


def test_nothing_is_made_before_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    tracker = Tracker(Store(tmp_path / "results"))
    assert tracker.own
    assert not tracker.exists()
    assert tracker.find("a") is None
    assert read_runs(tracker, "evaluate/") == []
    tracker.end_dead_runs()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [b"SQLite format 3\0" + b"\xa5" * 5000, b"SQLite format 3\0", b"", b"text " * 99, "pipe", "folder", "foreign"],
)
def test_what_is_no_record_is_named_and_left_as_it_is(tmp_path, damage):
    """MLflow would fill an empty or foreign database with its own tables, and earlier runs would seem lost."""
    store = Store(tmp_path)
    if damage == "pipe":
        os.mkfifo(store.database)
    elif damage == "folder":
        store.database.mkdir()
    elif damage == "foreign":
        with opened(store) as record:
            record.execute("create table a (b)")
    else:
        store.database.write_bytes(damage)
    before = store.database.read_bytes() if store.database.is_file() else None
    with pytest.raises(InputError, match=re.escape(str(store.database))):
        Tracker(store).client  # noqa: B018
    assert before is None or store.database.read_bytes() == before


def test_a_database_with_text_that_is_no_utf8_is_named(tracker, store):
    start(tracker).finish()
    with opened(store) as record:
        record.execute("update tags set value = cast(x'ff41' as text)")
    with pytest.raises(InputError, match=r"mlflow\.db"):
        read_runs(tracker, "")


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("./mlruns", "sqlite:////"),
        ("file:///tmp/mlruns", "sqlite:////"),
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite:////no/such/x.db", "no folder"),
    ],
)
def test_an_address_that_keeps_no_runs_is_refused(store, monkeypatch, uri, said):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match=said):
        Tracker(store)


def test_a_server_that_does_not_answer_is_named_and_asked_once(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = Tracker(store)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9: the record of runs cannot be reached") as first:
        tracker.find("a" * 16)
    with pytest.raises(InputError) as second:
        read_runs(tracker, "")
    assert second.value is first.value


@pytest.mark.slow
def test_two_processes_on_a_new_store(tmp_path, child_environment):
    """MLflow itself: one of two processes that make one database at once dies of `duplicate column name`."""
    code = (
        "import sys\nfrom runs.cache import Store\nfrom runs.track import Tracker\n"
        "tracker = Tracker(Store(sys.argv[1]))\n"
        "run = tracker.start('train/x', sys.argv[2], stage='s', key=sys.argv[2], params={}, config='', tags={})\n"
        "run.finish()"
    )
    commands = [["-c", code, str(tmp_path / "results"), name] for name in "ab"]
    assert together(commands, child_environment, seconds=120) == [("", "")] * 2
    assert len(read_runs(Tracker(Store(tmp_path / "results")), "train/")) == 2


# Passwords and drivers.

SECRET = "s3cr3t-pa55"


@pytest.mark.usefixtures("empty_record")  # MLflow warns while it is imported
@pytest.mark.parametrize(
    "uri",
    [
        f"http://user:{SECRET}@127.0.0.1:9",
        f"http://user:{SECRET}@127.0.0.1:port",
        f"http://u:123/{SECRET}@127.0.0.1:9/",
        f"http://user:{SECRET}@[127.0.0.1",
        f"postgresql+nowhere://user:{SECRET}@127.0.0.1/runs",
        f"mongodb://user:{SECRET}@127.0.0.1/runs",
        f"postgresql://user:{SECRET}@127.0.0.1:x/runs",
        f"postgresql+nowhere://user:it's a\"b{SECRET}@127.0.0.1/runs",
        f"sqlite:////no/such/folder/x.db?a=b&wallet_password=it's{SECRET}&access_token={SECRET}&api_key={SECRET}",
    ],
)
def test_no_password_is_printed(tmp_path, monkeypatch, capsys, uri, tiny_arguments):
    """Nor is what MLflow and SQLAlchemy make of it an error of ours."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert main(["evaluate", *tiny_arguments, "strategy=simpleshot", f"results={tmp_path}", "--debug"]) == 2
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert "127.0.0.1" in err or "/no/such/folder" in err
    assert SECRET not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))


@pytest.mark.usefixtures("empty_record")
@pytest.mark.parametrize(
    ("uri", "module", "package"),
    [
        ("postgresql+psycopg://u:x@127.0.0.1/r", "psycopg", r"'psycopg\[binary\]'"),
        ("mysql+pymysql://u:x@127.0.0.1/r", "pymysql", "pymysql"),
    ],
)
def test_a_missing_driver_is_named(tmp_path, monkeypatch, uri, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=f"pip install {package}"):
        Tracker(Store(tmp_path), uri=uri).client  # noqa: B018


@pytest.mark.usefixtures("empty_record")
def test_user_and_password_of_an_address_are_sent_to_the_server(tmp_path, monkeypatch):
    with contextlib.closing(Unsteady(9, "error", b"/")) as server:
        address = server.address.replace("://", "://me:a%40b@")
        tracker = Tracker(Store(tmp_path), uri=address)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with pytest.raises(InputError, match="cannot be reached"):
            tracker.client.search_experiments()
        assert tracker.place == server.address
        ((_, _, header),) = server.seen
        assert base64.b64decode(header.removeprefix("Basic ")) == b"me:a@b"


@given(st.text(st.characters(codec="ascii", exclude_characters=" \t\r\n\v\f\x1c\x1d\x1e\x1f'\"<>"), min_size=1))
def test_no_part_of_a_password_is_left(password):
    quoted = quote(password, safe="")
    assert (
        without_passwords(f"at postgresql://user:{quoted}@host/runs, says it") == "at postgresql://host/runs, says it"
    )
    if "/" not in password and "?" not in password and "#" not in password:
        assert without_passwords(f"x mysql+pymysql://user:{password}@host/runs") == "x mysql+pymysql://host/runs"


@pytest.mark.filterwarnings("ignore")  # of SQLAlchemy about MLflow, when it is imported first here
@pytest.mark.parametrize("name", ["My%20Project", "?"])
def test_a_results_folder_whose_name_an_address_quotes(tmp_path, monkeypatch, name):
    """MLflow makes a folder of the quoted name."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert Tracker(Store(str(tmp_path / name))).client.search_experiments()
    assert [path.name for path in tmp_path.iterdir()] == [name]
