"""Results folders that were moved or copied: what is finished is used again, and its files are found."""

import functools
import json
import shutil
import sqlite3
import subprocess
import sys

import pytest

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.cli import main
from runs.record.query import read_runs
from runs.track import Tracker
from tests.runs.test_tracking import start

SMALL = ["dataset=spirals", "arms=3", "points=30", "starts=2", "method=kmeans"]


def test_an_evaluation_goes_on_in_a_copy(trained_results, tmp_path, tiny_arguments, capsys):
    copy = shutil.copytree(trained_results, tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in trained_results.rglob("*")}
    assert main(["evaluate", *tiny_arguments, "strategy=simpleshot", f"results={copy}"]) == 0
    assert "reused 1" in capsys.readouterr().err
    read_in(copy)
    assert {path: path.stat().st_mtime_ns for path in trained_results.rglob("*")} == before


def read_in(results):
    """The files of every run are found there, as the UI reads them."""
    tracker = Tracker(Store(results))
    for row in read_runs(tracker, ""):
        assert row.artifact_uri.startswith((results / "artifacts").as_uri() + "/")
        assert tracker.read(row.run_id, "config.yaml", lambda path: path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["moved", "copied"])
def test_going_on_in_another_place(trained_results, tmp_path, tiny_arguments, capsys, monkeypatch, way):
    """Real commands: a training with its evaluation, and a clustering; then the same ones in the other place."""
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.1"])  # a report of a moment
    old, new = tmp_path / "first très long", tmp_path / "second"
    shutil.copytree(trained_results, old)
    lines = [item.replace("=", ": ", 1) for item in [*tiny_arguments, "strategy=simpleshot"]]
    (tmp_path / "tiny.yaml").write_text("\n".join(lines) + "\n")
    evaluate, cluster = ["evaluate", *tiny_arguments, "strategy=simpleshot"], ["cluster", *SMALL]
    assert main([*evaluate, f"results={old}"]) == 0
    assert "reused 1" in capsys.readouterr().err
    assert main([*cluster, f"results={old}"]) == 0
    (old.rename if way == "moved" else lambda to: shutil.copytree(old, to))(new)
    before = {path: path.stat().st_mtime_ns for path in old.rglob("*")}
    capsys.readouterr()
    for verb in (evaluate, cluster):
        assert main([*verb, f"results={new}"]) == 0
        assert "reused 1" in capsys.readouterr().err
    assert main(["table", str(tmp_path / "tiny.yaml"), f"results={new}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"]
    assert main(["report", f"results={new}"]) == 0
    read_in(new)
    assert {path: path.stat().st_mtime_ns for path in old.rglob("*")} == before, "a copy leaves what it is of alone"

    assert main(["evaluate", *tiny_arguments, "strategy=laplacianshot", f"results={new}"]) == 0
    files = (new / "artifacts").glob("evaluate/Tiny/*/artifacts/per_task.npz")
    assert len(list(files)) == 2, "new files go to the new place"
    assert old.exists() == (way == "copied")


def test_what_was_under_way_is_marked_in_a_copy_and_goes_on_in_the_original(tracker, store, tmp_path, notes):
    start(tracker)
    with store.lock("evaluation", "a" * 16, "x"):
        copy = Tracker(Store(shutil.copytree(store.root, tmp_path / "copy")), say=notes.note)
        assert copy.mark_orphans_killed() == 1
        assert tracker.mark_orphans_killed() == 0
    assert str(store.root) in "".join(notes.notes)


def test_a_folder_in_use_under_another_name_is_left_alone(tracker, store, tmp_path):
    """As where two machines see it under two paths."""
    run = start(tracker)
    other = tmp_path / "elsewhere"
    shutil.copytree(store.root, other)
    shutil.rmtree(other / "locks")
    (other / "locks").symlink_to(store.root / "locks")
    before = (other / "mlflow.db").read_bytes()
    with store.lock("evaluation", "a" * 16, "x"), pytest.raises(InputError, match="in use by another process"):
        Tracker(Store(other)).get(run.run_id)
    assert (other / "mlflow.db").read_bytes() == before


def test_a_database_without_its_files_is_read_and_not_written(tracker, store, tmp_path):
    start(tracker).finish()
    other = Store(tmp_path / "other")
    other.prepare()
    shutil.copy(store.database, other.database)
    (row,) = read_runs(Tracker(other), "")
    assert row.artifact_uri.startswith(store.artifacts.as_uri())
    with pytest.raises(InputError, match="artefacts") as caught:
        start(Tracker(other))
    assert str(store.artifacts) in str(caught.value)


def test_a_copy_that_cannot_be_written_is_read(tracker, store, tmp_path, notes, monkeypatch):
    done = start(tracker)
    done.finish()
    start(tracker, identity="b" * 16)  # under way
    copy = Store(shutil.copytree(store.root, tmp_path / "copy"))
    before = copy.database.read_bytes()
    monkeypatch.setattr(
        "runs.record.relocation.sqlite3.connect",
        functools.partial(connect_read_only, sqlite3.connect),
    )
    other = Tracker(copy, say=notes.note)
    for _ in range(2):
        (row,) = read_runs(other, "")
        assert row.run_id == done.run_id
        assert other.read(row.run_id, "config.yaml", lambda path: path.is_file(), row.artifact_uri)
        assert row.artifact_uri.startswith(copy.artifacts.as_uri() + "/")
    (note,) = notes.notes
    assert "read-only" in note
    assert copy.database.read_bytes() == before


def connect_read_only(connect, address, **options):
    """As SQLite opens a file that cannot be written: no privilege of whoever runs the tests helps."""
    return connect(address.replace("mode=rw", "mode=ro"), **options)


@pytest.mark.slow
def test_the_record_is_brought_up_to_date_where_assertions_are_off(tracker, store, tmp_path, child_environment):
    start(tracker).finish()
    copy = Store(shutil.copytree(store.root, tmp_path / "copy"))
    code = (
        "import sys\nfrom runs.record.query import read_runs\nfrom runs.storage.store import Store\n"
        "from runs.track import Tracker\n"
        "print(read_runs(Tracker(Store(sys.argv[1])), '')[0].artifact_uri)"
    )
    command = [sys.executable, "-O", "-c", code, str(copy.root)]
    child = subprocess.run(command, env=child_environment, capture_output=True, text=True, check=True)
    assert child.stdout.startswith(copy.artifacts.as_uri() + "/")
