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
from runs.record.query import read_runs
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
        record._row(run, experiment.name)
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id])
    ]


prefixes = st.sampled_from(["", "evaluate/", "evaluate/glyphs", "evaluate/glyphs_2", "evaluate/%", "EVALUATE", "x"])
filters = st.dictionaries(
    st.sampled_from(["benchmark", "key", "split", "note", "absent", "mlflow.runName"]),
    st.lists(st.sampled_from([*BENCHMARKS, "novel", "", "a' or 1=1", f"{1:016d}", f"{2:016d}", "another name"])),
    max_size=2,
)


@settings(deadline=None, max_examples=20)
@given(prefixes, filters, st.sets(st.sampled_from(STATUSES)), st.sampled_from([2, 1000]))
def test_the_rows_are_those_that_are_asked_for(filled, every_row, prefix, tags, statuses, page):
    rows = [row for row in every_row if row.experiment.startswith(prefix) and row.status in statuses]
    rows = [row for row in rows if all(row.tags.get(key) in values for key, values in tags.items())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "PAGE", page)
        found = read_runs(Tracker(filled), prefix, tags=tags, statuses=statuses)
    alike(found, sorted(rows, key=lambda row: (-row.start, row.run_id)))


def test_numbers_and_texts_are_exact(tracker, filled):
    rows = read_runs(tracker, "evaluate/")
    assert {row.experiment for row in rows} == {"evaluate/glyphs", "evaluate/glyphs_2"}
    assert (len(rows), {row.status for row in rows}) == (8, {"FINISHED"})
    (row,) = read_runs(tracker, "train/", statuses=["KILLED"])
    assert math.isnan(row.metrics["bad"])
    assert (row.metrics["loss"], row.metrics["tiny"]) == (1.0, 5e-324), "the value of the last step"
    assert (row.params["audit"], row.params["training"]) == ('["a", "ü\\n\t"]', "None")
    assert row.end == 1_700_000_000_002
    assert row.artifact_uri == (filled.artifacts / "train" / "glyphs" / row.run_id / "artifacts").as_uri()
    assert read_runs(tracker, "train/", statuses=["RUNNING"])[0].end is None


def test_parent_runs_of_commands_are_left_out(store):
    tracker = Tracker(store)
    with tracker.command("evaluate/x", "evaluate 2 configs", "a" * 16) as parent:
        tracker.start("evaluate/x", "x", stage="evaluation", key="b", params={"seed": 0}, parent=parent).finish()
    assert [(row.name, row.params) for row in read_runs(tracker, "")] == [("x", {"seed": "0"})]
    assert tracker.client.get_run(parent).info.status == "FINISHED"


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
        (b"\xa5", "results=FOLDER"),
    ],
)
def test_a_damaged_or_foreign_database_is_named(copied, change, message):
    if isinstance(change, bytes):
        content = copied.database.read_bytes()
        copied.database.write_bytes(content[:8192] + change * (len(content) - 8192))
    else:
        with closing(sqlite3.connect(copied.database)) as database, database:
            database.execute(change)
    with pytest.raises(InputError, match=message) as caught:
        read_runs(Tracker(copied), "")
    assert str(copied.database) in str(caught.value)


def test_a_cut_database_elsewhere_is_named_with_its_variable(copied, monkeypatch):
    copied.database.write_bytes(copied.database.read_bytes()[:50_000])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{copied.database}")
    with pytest.raises(InputError, match="MLFLOW_TRACKING_URI"):
        read_runs(Tracker(copied), "")
