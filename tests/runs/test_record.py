"""Reading many runs at once, from databases that the real MLflow wrote, against its own search."""

import math
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record import query as record
from runs.record.query import RunRow, read_runs
from runs.track import Tracker
from tests.runs.records import BENCHMARKS, STATUSES, alike, fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory, empty_record):
    store = Store(tmp_path_factory.mktemp("filled"))
    store.prepare()
    shutil.copy(empty_record, store.database)
    fill(Tracker(store))
    with closing(sqlite3.connect(store.database)) as database, database:  # as if many had begun at once
        database.execute("update runs set start_time = 1700000000000 + start_time % 3")
    return store


@pytest.fixture
def tracker(filled):
    return Tracker(filled)


@pytest.fixture(scope="module")
def every_row(filled):
    """Every run of the store by MLflow itself."""
    client = Tracker(filled).client
    return [
        RunRow(
            run.info.run_id,
            run.info.run_name,
            experiment.name,
            run.info.start_time,
            run.info.end_time,
            run.info.status,
            run.data.params,
            run.data.metrics,
            run.data.tags,
            run.info.artifact_uri,
        )
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id])
    ]


def chosen(rows, prefix, tags, statuses):
    """What is asked for, of all rows, by hand."""
    rows = [row for row in rows if row.experiment.startswith(prefix) and row.status in statuses]
    for key, values in tags.items():
        rows = [row for row in rows if row.tags.get(key) in values]
    return sorted(rows, key=lambda row: (-row.start, row.run_id))


prefixes = st.sampled_from(["", "evaluate/", "evaluate/glyphs", "evaluate/glyphs_2", "evaluate/%", "EVALUATE", "x"])
filters = st.dictionaries(
    st.sampled_from(["benchmark", "key", "split", "note", "absent", "mlflow.runName"]),
    st.lists(st.sampled_from([*BENCHMARKS, "novel", "", "a' or 1=1", f"{1:016d}", f"{2:016d}", "another name"])),
    max_size=2,
)


@settings(deadline=None, max_examples=20)
@given(prefixes, filters, st.sets(st.sampled_from(STATUSES)))
def test_the_rows_are_those_of_mlflow(filled, every_row, prefix, tags, statuses):
    tracker = Tracker(filled)
    expected = chosen(every_row, prefix, tags, statuses)
    alike(read_runs(tracker, prefix, tags=tags, statuses=statuses), expected)


def test_without_conditions_it_is_what_finished(tracker):
    rows = read_runs(tracker, "evaluate/")
    assert {row.experiment for row in rows} == {"evaluate/glyphs", "evaluate/glyphs_2"}
    assert len(rows) == 8
    assert {row.status for row in rows} == {"FINISHED"}
    assert {row.name for row in rows} == {"laplacianshot 5w1s", "another name"}
    assert [row.start for row in rows] == sorted((row.start for row in rows), reverse=True)


def test_numbers_and_texts_are_exact(tracker):
    (row,) = read_runs(tracker, "train/", statuses=["KILLED"])
    assert math.isnan(row.metrics["bad"])
    assert row.metrics["loss"] == 1.0, "the value of the last step"
    assert row.metrics["tiny"] == 5e-324
    assert row.params["audit"] == '["a", "ü\\n\t"]'
    assert row.params["training"] == "None"
    assert row.end == 1_700_000_000_002
    (running,) = read_runs(tracker, "train/", statuses=["RUNNING"])
    assert running.end is None


def test_pages_are_put_together(tracker, monkeypatch):
    every = read_runs(tracker, "", statuses=STATUSES)
    monkeypatch.setattr(record, "PAGE", 2)
    alike(read_runs(tracker, "", statuses=STATUSES), every)
    assert len(every) == 21


def test_the_artefacts_of_a_row_are_where_it_says(tracker, filled):
    (row,) = read_runs(tracker, "train/", statuses=["KILLED"])
    assert row.artifact_uri == (filled.artifacts / "train" / "glyphs" / row.run_id / "artifacts").as_uri()


def test_many_values_are_one_query(tracker, monkeypatch):
    asked, real = [], tracker.client.search_runs
    monkeypatch.setattr(tracker.client, "search_runs", lambda *a, **k: asked.append(a) or real(*a, **k), raising=False)
    rows = read_runs(tracker, "evaluate/", tags={"key": [f"{i:016d}" for i in range(50_000)]})
    assert {row.tags["key"] for row in rows} == {f"{i:016d}" for i in range(3)}
    assert len(asked) == 1


def test_the_whole_config_is_in_a_tag_however_long(store, tmp_path):
    tracker = Tracker(Store(tmp_path))
    flat = {f"strategy.{i}": "ü" * 40 for i in range(300)} | {"seed": 0, "audit": None}
    run = tracker.start("tune/x", "x", stage="tuning", key="a", params={"seed": 0}, flat=flat)
    run.finish()
    (row,) = read_runs(tracker, "tune/")
    assert row.params == {name: str(value) for name, value in flat.items()}
    assert tracker.get(run.run_id).data.params == {"seed": "0"}


def test_parent_runs_of_commands_are_left_out(store):
    tracker = Tracker(store)
    with tracker.command("evaluate/x", "evaluate 2 configs", "a" * 16) as parent:
        tracker.start("evaluate/x", "x", stage="evaluation", key="b", params={}, parent=parent).finish()
    assert [row.name for row in read_runs(tracker, "")] == ["x"]
    assert tracker.get(parent).info.status == "FINISHED"


def test_nothing_is_made_where_no_run_was(tmp_path, monkeypatch):
    tracker = Tracker(Store(tmp_path / "results"))
    assert read_runs(tracker, "") == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    assert read_runs(Tracker(Store(tmp_path / "results")), "") == []
    assert not any(tmp_path.iterdir())


def test_a_database_elsewhere_by_a_relative_path(filled, tmp_path, monkeypatch):
    shutil.copy(filled.database, tmp_path / "other ü#%.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other ü#%.db")
    tracker = Tracker(Store(tmp_path / "results"))
    monkeypatch.chdir("/")
    assert len(read_runs(tracker, "evaluate/")) == 8


# Faults.


@pytest.fixture
def copied(filled, tmp_path):
    store = Store(tmp_path / "results")
    store.prepare()
    shutil.copy(filled.database, store.database)
    return store


def test_what_a_killed_writer_left_is_rolled_back(copied):
    expected = read_runs(Tracker(copied), "")
    code = (
        "import os, signal, sqlite3, sys\nconnection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('pragma cache_size = 2')\nconnection.execute('begin')\n"
        "connection.execute(\"update params set value = 'x' || hex(randomblob(500))\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    before = copied.database.read_bytes()
    subprocess.run([sys.executable, "-c", code, str(copied.database)])
    assert copied.database.read_bytes() != before
    alike(read_runs(Tracker(copied), ""), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("alter table runs rename column status to state", "status"),
        ("drop table alembic_version", "another program"),
        ("update alembic_version set version_num = 'abc'", "mlflow db upgrade sqlite:///"),
    ],
)
def test_another_schema_is_named(copied, change, message):
    with closing(sqlite3.connect(copied.database)) as database, database:
        database.execute(change)
    with pytest.raises(InputError, match=message) as caught:
        read_runs(Tracker(copied), "")
    assert str(copied.database) in str(caught.value)


def test_a_damaged_database_is_named(copied, monkeypatch):
    content = copied.database.read_bytes()
    copied.database.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    with pytest.raises(InputError, match="results=FOLDER"):
        read_runs(Tracker(copied), "")
    copied.database.write_bytes(content[: len(content) // 2])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{copied.database}")
    with pytest.raises(InputError, match="MLFLOW_TRACKING_URI"):
        read_runs(Tracker(copied), "")
