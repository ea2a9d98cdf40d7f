"""Reading many runs at once, from databases that the real MLflow wrote, against its own search."""

import math
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record import place
from runs.record import query as record
from runs.record.query import RunRow, finished, read_runs
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
    st.sampled_from(["benchmark", "identity", "split", "note", "absent", "mlflow.runName"]),
    st.lists(st.sampled_from([*BENCHMARKS, "novel", "", "a' or 1=1", f"{1:016d}", f"{2:016d}", "another name"])),
    max_size=2,
)


@settings(deadline=None, max_examples=20)
@given(prefixes, filters, st.sets(st.sampled_from(STATUSES)))
def test_the_rows_are_those_of_mlflow(filled, every_row, prefix, tags, statuses):
    tracker = Tracker(filled)
    expected = chosen(every_row, prefix, tags, statuses)
    alike(read_runs(tracker, prefix, tags=tags, statuses=statuses), expected)
    alike(record._ask(tracker.client, lambda name: name.startswith(prefix), tags, statuses), expected)


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


def test_pages_of_a_server_are_put_together(tracker, monkeypatch):
    every = record._ask(tracker.client, lambda name: True, {}, STATUSES)
    monkeypatch.setattr(record, "PAGE", 2)
    alike(record._ask(tracker.client, lambda name: True, {}, STATUSES), every)
    assert len(every) == 21


def test_the_artefacts_of_a_row_are_where_it_says(tracker, filled):
    (row,) = read_runs(tracker, "train/", statuses=["KILLED"])
    assert row.artifact_uri == (filled.artifacts / "train" / "glyphs" / row.run_id / "artifacts").as_uri()


def test_the_newest_of_each_identity(tracker):
    wanted = [f"{i:016d}" for i in range(5)]
    found = finished(tracker, ["evaluate/glyphs", "evaluate/gone"], wanted)
    assert sorted(found) == wanted[:3]
    for identity, row in found.items():
        newest = tracker.find("evaluate/glyphs", identity)
        assert (row.start, row.tags["identity"]) == (newest.info.start_time, identity)
    assert finished(tracker, ["evaluate/gone"], wanted) == {}
    assert finished(tracker, [], wanted) == {}
    assert finished(tracker, ["evaluate/glyphs"], []) == {}
    tracker.database = None  # as a server is asked
    assert finished(tracker, ["evaluate/glyphs", "evaluate/gone"], wanted).keys() == found.keys()


def test_many_identities_at_once(tracker):
    wanted = [f"{i:016d}" for i in range(50_000)]
    assert sorted(finished(tracker, ["evaluate/glyphs"], wanted)) == wanted[:3]


def test_nothing_is_made_where_no_run_was(tmp_path, monkeypatch):
    tracker = Tracker(Store(tmp_path / "results"))
    assert read_runs(tracker, "") == []
    assert finished(tracker, ["evaluate/glyphs"], ["a"]) == {}
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


def test_neither_mlflow_nor_torch_is_loaded(filled, child_environment):
    code = (
        "import sys\nfrom runs.record.query import finished, read_runs\nfrom runs.storage.store import Store\n"
        "from runs.record.tracking import Tracker\ntracker = Tracker(Store(sys.argv[1]))\n"
        "assert len(read_runs(tracker, 'evaluate/')) == 8\n"
        "assert len(finished(tracker, ['evaluate/glyphs'], ['0' * 16])) == 1\n"
        "assert not {'mlflow', 'sqlalchemy', 'torch'} & set(sys.modules)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(filled.root)], env=child_environment, capture_output=True, text=True
    )
    assert (child.returncode, child.stderr) == (0, "")


def test_no_table_of_values_is_read_as_a_whole(tracker):
    with tracker.opened() as database:
        plans = [
            database.execute(f"explain query plan {query}", values).fetchall()
            for query, values in (
                (record._RUNS + record._TAG, ["[]", "[]", "stage", "[]"]),
                (record._METRICS, ["[]"]),
            )
        ]
    steps = [step[3] for plan in plans for step in plan]
    assert any(step.startswith("SEARCH params USING INDEX") for step in steps)
    assert not [step for step in steps if step.startswith("SCAN") and step.split()[1] not in ("runs", "json_each")]


def test_nothing_can_be_changed(tracker):
    with pytest.raises(InputError, match="readonly"), tracker.opened() as database:
        database.execute("delete from runs")


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
    reading = sqlite3.connect(f"{copied.database.as_uri()}?mode=ro", uri=True)
    with closing(reading), pytest.raises(sqlite3.OperationalError):
        reading.execute("select * from runs").fetchall()
    alike(read_runs(Tracker(copied), ""), expected)
    assert Tracker(copied).client is not None


def test_a_process_that_writes_is_waited_for(copied, monkeypatch):
    expected = read_runs(Tracker(copied), "")
    with closing(sqlite3.connect(copied.database, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("begin exclusive")
        with monkeypatch.context() as patch:
            patch.setattr(place, "PATIENCE", 0.05)
            with pytest.raises(InputError, match=r"mlflow\.db"):
                read_runs(Tracker(copied), "")
        waiting = threading.Timer(0.5, lambda: writer.execute("commit"))
        waiting.start()
        alike(read_runs(Tracker(copied), ""), expected)
        waiting.join()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("drop table params", "params.*mlflow db upgrade sqlite:///"),
        ("alter table runs rename column status to state", "status.*mlflow db upgrade"),
        ("drop table alembic_version", "alembic_version"),
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


def test_a_server_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9"):
        read_runs(Tracker(Store(tmp_path)), "")
