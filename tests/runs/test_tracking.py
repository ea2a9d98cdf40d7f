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
from runs.record.address import quiet_mlflow
from runs.record.code_version import code_version
from runs.record.machine import _processor
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


def test_a_run_holds_what_it_was_given(tracker):
    run = start(tracker)
    run.log(metrics={"accuracy": 0.5}, tags={"seed": 0})
    run.finish()
    found = tracker.find("evaluate/tiny", "a" * 16)
    assert found.info.run_name == "laplacianshot 5w1s tiny/conv4 s0"
    assert found.data.params == {"shot": "1", "strategy.weight": "0.7"}
    assert found.data.metrics == {"accuracy": 0.5}
    tags = found.data.tags
    assert (tags["key"], tags["stage"], tags["shot"], tags["seed"]) == ("a" * 16, "evaluation", "1", "0")
    assert tags["code"] == code_version()
    assert re.fullmatch(r".+, \d+ cores?(, .+)?", tags["machine"])


def test_a_processor_whose_name_is_not_utf8(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_bytes(b"processor\t: 0\r\nmodel name\t: CPU \xae 3 GHz\r\n")
    monkeypatch.setattr("runs.record.machine.CPUINFO", tmp_path / "cpuinfo")
    assert _processor.__wrapped__() == "CPU \N{REPLACEMENT CHARACTER} 3 GHz"


def test_files_are_kept_inside_the_store(tracker, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start(tracker)
    (tmp_path / "rows.txt").write_text("1 2 3")
    run.artifact(tmp_path / "rows.txt")
    inside = store.artifacts / "evaluate" / "tiny" / run.run_id / "artifacts"
    assert (inside / "config.yaml").read_text() == "shot: 1\n"
    assert (inside / "rows.txt").read_text() == "1 2 3"
    assert not (tmp_path / "mlruns").exists()
    assert tracker.download(run.run_id, "rows.txt", tmp_path).read_text() == "1 2 3"
    assert tracker.download(run.run_id, "nothing.txt", tmp_path) is None


def test_only_finished_and_not_deleted_runs_are_found_newest_first(tracker):
    assert tracker.find("evaluate/tiny", "a" * 16) is None
    running, failed, first, second = (start(tracker) for _ in range(4))
    failed.stop("FAILED", "why")
    assert tracker.find("evaluate/tiny", "a" * 16) is None
    first.finish()
    second.finish()
    start(tracker, key="b" * 16).finish()
    found = tracker.find("evaluate/tiny", "a" * 16)
    assert found.info.run_id in (first.run_id, second.run_id)
    times = {run.run_id: tracker.client.get_run(run.run_id).info.start_time for run in (first, second)}
    assert times[found.info.run_id] == max(times.values())
    tracker.client.delete_run(found.info.run_id)
    assert tracker.find("evaluate/tiny", "a" * 16).info.run_id != found.info.run_id
    assert tracker.get(found.info.run_id) is None
    assert tracker.get(running.run_id) is not None
    assert tracker.get("0" * 32) is None
    assert len(read_runs(tracker, "evaluate/")) == 2
    assert len(read_runs(tracker, "evaluate/", tags={"shot": ["1"]})) == 2
    assert read_runs(tracker, "train/") == []


def test_the_block_of_a_run_marks_how_it_ended(tracker):
    killed, failed, finished = start(tracker), start(tracker), start(tracker)
    with pytest.raises(KeyboardInterrupt), killed.guarded():
        raise KeyboardInterrupt
    with pytest.raises(RuntimeError, match="boom"), failed.guarded():
        raise RuntimeError("boom")
    finished.finish()
    with pytest.raises(RuntimeError, match="later"), finished.guarded():
        raise RuntimeError("later")
    assert [status(tracker, run) for run in (killed, failed, finished)] == ["KILLED", "FAILED", "FINISHED"]
    assert tracker.get(failed.run_id).data.tags["ended"] == "RuntimeError: boom"


def test_values_that_are_no_numbers_are_named_not_logged(tracker):
    run = start(tracker)
    run.log(metrics={"accuracy": math.nan, "objective": math.inf, "seconds": 1.0})
    data = tracker.get(run.run_id).data
    assert data.metrics == {"seconds": 1.0}
    assert data.tags["undefined"] == "accuracy, objective"


def test_long_values_are_cut_knowingly_and_many_are_split(tracker):
    params = {f"key.{i}": i for i in range(230)} | {"long": "x" * 7000}
    run = start(tracker, params=params, tags={"long": "y" * 9000})
    run.log(metrics={f"metric.{i}": i for i in range(1500)})
    data = tracker.get(run.run_id).data
    assert len(data.params) == 231
    assert len(data.params["long"]) == 6000
    assert data.params["long"].endswith("(truncated; complete in config.yaml)")
    assert len(data.tags["long"]) == 5000
    assert len(data.metrics) == 1500
    with pytest.raises(InputError, match="250"):
        run.log(metrics={"k" * 251: 1.0})


def test_a_resumed_run_is_the_same_run_and_repeats_nothing(tracker, notes):
    run = start(tracker)
    for epoch in (1, 2, 3):
        run.metrics({"train_loss": 1 / epoch}, epoch)
    run.metrics({"validation_accuracy": 0.25}, 2)
    run.stop("KILLED", "why")
    (resumed,) = tracker.unfinished("evaluate/tiny", ["a" * 16, "b" * 16]).values()
    for epoch in (2, 3, 4):  # what was logged after the last saved state comes again
        resumed.metrics({"train_loss": 1 / epoch, "validation_accuracy": epoch / 8}, epoch)
    resumed.finish()
    history = tracker.client.get_metric_history(run.run_id, "train_loss")
    assert [(point.step, point.value) for point in history] == [(1, 1.0), (2, 0.5), (3, 1 / 3), (4, 0.25)]
    history = tracker.client.get_metric_history(run.run_id, "validation_accuracy")
    assert [(point.step, point.value) for point in history] == [(2, 0.25), (3, 0.375), (4, 0.5)]
    assert status(tracker, run) == "FINISHED"
    tags = tracker.get(run.run_id).data.tags
    assert tags["resumed"] == "1"
    assert "ended" not in tags
    assert tracker.unfinished("evaluate/tiny", ["a" * 16]) == {}


def test_a_deleted_run_is_not_resumed(tracker):
    tracker.client.delete_run(start(tracker).run_id)
    assert tracker.unfinished("evaluate/tiny", ["a" * 16]) == {}


def test_a_deleted_experiment_is_restored(tracker, store, notes):
    start(tracker).finish()
    tracker.client.delete_experiment(tracker.experiment("evaluate/tiny"))
    again = Tracker(store, say=notes.note)
    start(again).finish()
    assert "restored" in notes


def test_an_experiment_made_by_another_process_meanwhile(tracker, store, monkeypatch):
    other = Tracker(store)
    real = tracker.client.get_experiment_by_name
    calls = []

    def late(name):
        calls.append(name)
        if len(calls) == 1:
            other.experiment(name)
            return None
        return real(name)

    monkeypatch.setattr(tracker.client, "get_experiment_by_name", late)
    assert tracker.experiment("train/x") == other.experiment("train/x")


def test_nothing_is_made_before_it_is_needed(tmp_path):
    tracker = Tracker(Store(tmp_path / "results"))
    assert not tracker.exists()
    assert tracker.find("evaluate/tiny", "a") is None
    assert read_runs(tracker, "evaluate/") == []
    tracker.end_dead_runs()
    assert not any(tmp_path.iterdir())


def test_a_half_made_database_is_made_again(empty_record):
    assert empty_record.read_bytes().startswith(b"SQLite format 3")
    assert not empty_record.with_name("mlflow.db.new").exists()


def test_a_folder_with_spaces_and_accents(tmp_path, empty_record):
    store = Store(tmp_path / "a folder, très long" / "results")
    store.prepare()
    shutil.copy(empty_record, store.database)
    start(Tracker(store)).finish()
    start(Tracker(store)).finish()
    assert len(list((store.artifacts / "evaluate" / "tiny").glob("*/artifacts/config.yaml"))) == 2


def test_a_foreign_database_is_named(store):
    store.database.write_bytes(b"this is no database at all, but long enough to be looked at" * 100)
    with pytest.raises(InputError, match=r"mlflow\.db") as caught:
        Tracker(store).client  # noqa: B018
    assert str(store.database) in str(caught.value)
    assert b"this is no database" in store.database.read_bytes()


def test_a_database_elsewhere(store, empty_record, tmp_path, monkeypatch):
    shutil.copy(empty_record, tmp_path / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    store.database.unlink()
    tracker = Tracker(store)
    start(tracker).finish()
    assert tracker.find("evaluate/tiny", "a" * 16) is not None
    assert not store.database.exists()
    assert (store.artifacts / "evaluate" / "tiny").is_dir()


def test_an_empty_address_is_none(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert Tracker(store).own


def test_a_moved_results_folder_keeps_its_runs_and_their_files(tracker, store, tmp_path, notes):
    run = start(tracker)
    run.finish()
    moved = Tracker(Store(shutil.move(store.root, tmp_path / "moved")), say=notes.note)
    (row,) = read_runs(moved, "evaluate/")
    assert moved.read(row.run_id, "config.yaml", lambda path: path.read_text(), row.artifact_uri) == "shot: 1\n"
    start(moved, "b" * 16).finish()
    assert "was moved" in notes
    assert {row.experiment for row in read_runs(moved, "evaluate/")} == {"evaluate/tiny"}
    assert len(list((tmp_path / "moved" / "artifacts" / "evaluate" / "tiny").glob("*/artifacts/config.yaml"))) == 2
    assert moved.find("evaluate/tiny", "b" * 16) is not None


@pytest.mark.parametrize("place", ["", "None"])
def test_an_experiment_without_a_place_for_artifacts_is_named(tracker, store, place):
    start(tracker).finish()
    with contextlib.closing(sqlite3.connect(store.database)) as record, record:
        record.execute("update experiments set artifact_location = nullif(?, 'None')", [place])
    with pytest.raises(InputError, match="no place for artifacts"):
        start(Tracker(store))


def test_a_shared_database_has_a_place_for_artifacts_that_the_user_names(store, monkeypatch):
    tracker = Tracker(store, uri="postgresql://host/runs")
    monkeypatch.delenv("MLFLOW_DEFAULT_ARTIFACT_ROOT", raising=False)
    with pytest.raises(InputError, match="MLFLOW_DEFAULT_ARTIFACT_ROOT"):
        tracker.artifact_location("evaluate/tiny")
    monkeypatch.setenv("MLFLOW_DEFAULT_ARTIFACT_ROOT", "s3://bucket/runs/")
    assert tracker.artifact_location("evaluate/tiny") == "s3://bucket/runs/evaluate/tiny"
    assert Tracker(store, uri="http://host").artifact_location("evaluate/tiny") is None


@pytest.mark.parametrize("text", [b"SQLite format 3\0" + b"\xa5" * 5000, b"SQLite format 3\0", "pipe"])
def test_a_damaged_database_is_named(store, text):
    store.database.unlink()
    os.mkfifo(store.database) if text == "pipe" else store.database.write_bytes(text)
    with pytest.raises(InputError, match=r"mlflow\.db"):
        Tracker(store).client  # noqa: B018


def test_a_database_with_text_that_is_no_utf8_is_named(tracker, store, capsys):
    start(tracker).finish()
    with contextlib.closing(sqlite3.connect(store.database)) as record, record:
        record.execute("update tags set value = cast(x'ff41' as text)")
    with pytest.raises(InputError, match=r"mlflow\.db"):
        read_runs(tracker, "")


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns"])
def test_a_folder_as_tracking_uri_is_refused(store, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match="sqlite:////"):
        Tracker(store)


def test_a_server_that_does_not_answer_is_named_and_asked_once(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = Tracker(store)
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9: the record of runs cannot be reached") as first:
        tracker.find("evaluate/tiny", "a" * 16)
    with pytest.raises(InputError) as second:
        read_runs(tracker, "")
    assert second.value is first.value


def test_what_a_user_sets_for_mlflow_counts(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    quiet_mlflow()
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES, MLFLOW_HTTP_REQUEST_TIMEOUT

    assert (MLFLOW_HTTP_REQUEST_TIMEOUT.get(), MLFLOW_HTTP_REQUEST_MAX_RETRIES.get()) == (77, 3)


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


def test_a_store_by_another_name_is_the_same_store(tracker, store, tmp_path):
    start(tracker).finish()
    (tmp_path / "link").symlink_to(store.root)
    start(Tracker(Store(tmp_path / "link"))).finish()
    assert len(read_runs(tracker, "evaluate/")) == 2


@pytest.mark.parametrize("kind", ["empty", "foreign", "folder", "text"])
def test_what_is_no_record_is_left_as_it_is(tmp_path, kind):
    """MLflow would fill an empty or foreign database with its own tables, and earlier runs would seem lost."""
    store = Store(tmp_path)
    if kind == "folder":
        store.database.mkdir()
    elif kind == "foreign":
        with sqlite3.connect(store.database) as connection:
            connection.execute("create table a (b)")
        connection.close()
    else:
        store.database.write_bytes(b"" if kind == "empty" else b"some text, long enough to be looked at")
    before = None if kind == "folder" else store.database.read_bytes()
    with pytest.raises(InputError, match=r"mlflow\.db"):
        assert Tracker(store).client
    assert kind == "folder" or store.database.read_bytes() == before


def test_a_database_in_a_folder_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/no/such/x.db")
    with pytest.raises(InputError, match="no folder"):
        Tracker(Store(tmp_path))
    assert not (tmp_path / "no").exists()


SECRET = "s3cr3t-pa55"


@pytest.mark.usefixtures("empty_record")  # MLflow warns while it is imported
@pytest.mark.parametrize(
    "uri",
    [
        f"http://user:{SECRET}@127.0.0.1:9",
        f"http://user:{SECRET}@127.0.0.1:port",
        f"http://user:x/{SECRET}@127.0.0.1:9",
        f"postgresql+nowhere://user:{SECRET}@127.0.0.1/runs",
        f"mongodb://user:{SECRET}@127.0.0.1/runs",
        f"postgresql://user:{SECRET}@127.0.0.1:x/runs",
        f"sqlite:////no/such/folder/x.db?password={SECRET}",
        f"postgresql+nowhere://user:it's{SECRET}@127.0.0.1/runs",
        f'postgresql+nowhere://user:a"b{SECRET}@127.0.0.1/runs',
        f"postgresql+nowhere://user:a b{SECRET}@127.0.0.1/runs",
        f"http://u:123/{SECRET}@127.0.0.1:9/",
        f"http://user:{SECRET}@[127.0.0.1",
        f"sqlite:////no/such/folder/x.db?password=it's{SECRET}",
        f"sqlite:////no/such/folder/x.db?a=b&wallet_password={SECRET}&access_token={SECRET}&api_key={SECRET}",
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
        ("postgresql+psycopg2://u:x@127.0.0.1/r", "psycopg2", "psycopg2-binary"),
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


def test_the_error_that_ended_a_run_is_recorded_without_a_password(tracker):
    run = start(tracker)
    run.stop("FAILED", f"OSError: http://user:{SECRET}@host does not answer")
    assert tracker.get(run.run_id).data.tags["ended"] == "OSError: http://host does not answer"


def test_an_address_of_artifacts_that_is_none_has_none(tracker, tmp_path):
    assert tracker.download("0" * 32, "config.yaml", tmp_path, "file://[x/\0") is None
