"""Exported runs: what comes back, what is left out, and files that are refused."""

import base64
import gzip
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from clustering.files.arrays import read_arrays
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record.exported import HEADER, LARGEST_FILE, ExportedRuns, _line, without_folders
from runs.record.query import NOTE, read_runs
from runs.stages.clustering.results import TRIALS
from runs.stages.results import PER_TASK
from runs.track import Tracker
from tests.runs.records import add_runs, exporting

export_runs = exporting().export_runs


@pytest.fixture
def other(tmp_path: Path, empty_record: Path) -> Tracker:
    store = Store(tmp_path / "second")
    store.prepare()
    shutil.copy(empty_record, store.database)
    return Tracker(store)


@pytest.fixture
def filled(tracker: Tracker, tmp_path: Path) -> Tracker:
    run = tracker.start(
        "cluster/digits",
        "kmeans digits s0",
        stage="clustering",
        key="0123456789abcdef",
        params={"dataset.root": "/data/of mine/x", "seed": 0},
        config="root: /data/points.npz\n",
        tags={"method": "kmeans"},
    )
    run.log(metrics={"nmi": 0.1 + 0.2, "ari": math.nan, "objective": 1e300})
    for name, size in (("trials.npz", 1000), ("large.npz", LARGEST_FILE + 1)):
        (tmp_path / name).write_bytes(b"\x01" * size)
        run.artifact(tmp_path / name)
    run.finish()
    return tracker


def test_runs_come_back(filled: Tracker, other: Tracker, tmp_path: Path) -> None:
    (before,) = read_runs(filled, "")
    export_runs(filled, tmp_path / "runs.jsonl.gz")
    assert add_runs(ExportedRuns(tmp_path / "runs.jsonl.gz"), other) == 1
    (after,) = read_runs(other, "")
    assert (after.name, after.experiment, after.start, after.end) == (
        before.name,
        before.experiment,
        before.start,
        before.end,
    )
    assert after.metrics == {"nmi": 0.1 + 0.2, "objective": 1e300}
    assert after.params["seed"] == "0"
    assert after.tags["code"] == before.tags["code"]
    assert after.tags["undefined"] == "ari"
    assert other.read(after.run_id, "trials.npz", Path.read_bytes, after.artifact_uri) == b"\x01" * 1000
    assert other.read(after.run_id, "config.yaml", Path.read_text, after.artifact_uri) == "root: points.npz\n"
    with pytest.raises(ValueError, match="missing"):
        other.read(after.run_id, "large.npz", Path.read_bytes, after.artifact_uri)


NOISE = np.random.default_rng(0).random(100_000)


@pytest.mark.parametrize(
    ("name", "kept", "left_out"),
    [(PER_TASK, "accuracies", "trace"), (TRIALS, "labels", "confidence")],
    ids=["scores of tasks", "trials"],
)
def test_large_arrays_that_no_table_needs_are_left_out(
    tracker: Tracker, tmp_path: Path, name: str, kept: str, left_out: str
) -> None:
    run = tracker.start("cluster/a", "a", stage="clustering", key="0" * 16, params={}, config="", tags={})
    values = np.arange(300).reshape(3, 100) % 7
    np.savez_compressed(tmp_path / name, **{kept: values, left_out: NOISE})
    assert (tmp_path / name).stat().st_size > LARGEST_FILE
    run.artifact(tmp_path / name)
    run.finish()
    export_runs(tracker, tmp_path / "runs.jsonl")
    (tmp_path / "exported.npz").write_bytes(ExportedRuns(tmp_path / "runs.jsonl").files[run.run_id][name])
    exported = read_arrays(tmp_path / "exported.npz")
    assert exported.keys() == {kept}
    np.testing.assert_array_equal(exported[kept], values)


def test_some_files_are_left_out_and_damaged_ones_stay(tracker: Tracker, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / PER_TASK, accuracies=np.zeros(10))
    (tmp_path / "config.yaml").write_bytes(b"\xff\x80")
    for suffix in ("svg", "png", "pdf"):
        (tmp_path / f"drawing.{suffix}").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    run = tracker.start("tune/mini", "a", stage="x", key="0" * 16, params={}, tags={NOTE: "A"})
    for name in (PER_TASK, "config.yaml", "drawing.svg", "drawing.png", "drawing.pdf"):
        run.artifact(tmp_path / name)
    run.finish()
    export_runs(tracker, tmp_path / "runs.jsonl")
    exported = ExportedRuns(tmp_path / "runs.jsonl")
    assert exported.files[run.run_id].keys() == {"config.yaml", "drawing.svg"}, "the means of the trials suffice"
    assert exported.files[run.run_id]["config.yaml"] == b"\xff\x80"
    assert exported.runs[0].tags[NOTE] == "A"


def test_a_file_of_a_run_that_cannot_be_read_is_named(
    filled: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match=r"\.(yaml|npz): a file of run [0-9a-f]{32} cannot be read"):
        export_runs(filled, tmp_path / "runs.jsonl")
    assert not (tmp_path / "runs.jsonl").exists()


def test_an_export_leaves_no_file_behind(filled: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder" / "runs.jsonl.gz"
    path.parent.mkdir()
    export_runs(filled, path)
    before = path.read_bytes()
    assert str(tmp_path).encode() not in gzip.decompress(before)
    with monkeypatch.context() as patch:
        patch.setitem(export_runs.__globals__, "_files", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            export_runs(filled, path)
    assert [file.read_bytes() for file in path.parent.iterdir()] == [before]
    killed = path.with_name(f".01234567.partial.{path.name}")
    killed.touch()
    os.utime(killed, (0, 0))
    export_runs(filled, path)
    assert list(path.parent.iterdir()) == [path]


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/mnist.npz", "mnist.npz"),
        ("['/a/b.npz', '/c/d.npz']", "['b.npz', 'd.npz']"),
        ("file:///a/b/c", "c"),
        ("C:\\a\\b.npz", "b.npz"),
        ("cluster/mnist", "cluster/mnist"),
        ("http://host:80/a/b", "http://host:80/a/b"),
        ("1 / 2", "1 / 2"),
    ],
)
def test_folders_are_removed(text: str, expected: str) -> None:
    assert without_folders(text) == expected


RUN = {
    "run_id": "0" * 32,
    "name": "kmeans",
    "experiment": "cluster/digits",
    "start": 1,
    "end": 2,
    "params": {"seed": "0"},
    "metrics": {"nmi": 0.5},
    "tags": {"stage": "clustering"},
    "files": {"config.yaml": base64.b64encode(b"seed: 0").decode()},
}


@pytest.mark.parametrize(
    "entry",
    [5, RUN | {"start": "now"}, RUN | {"metrics": {"nmi": "a"}}, RUN | {"files": {"a.npz": "not base64"}}, {}],
    ids=str,
)
def test_changed_runs_are_refused(tmp_path: Path, entry: object) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(_line(HEADER) + _line(RUN))
    assert ExportedRuns(path).files["0" * 32] == {"config.yaml": b"seed: 0"}
    path.write_bytes(_line(HEADER) + json.dumps(entry).encode())
    with pytest.raises(InputError, match=r"runs\.jsonl, line 2: not an exported run"):
        ExportedRuns(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]\n", b"{" * 100_000, "pipe"])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_other_files_are_refused(tmp_path: Path, content: bytes | str, ending: str) -> None:
    path = tmp_path / f"runs.{ending}"
    if isinstance(content, str):  # it would block the reader for ever
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"runs\.jsonl.*: (not a file of exported runs|cannot be read)"):
        ExportedRuns(path)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl.gz").write_bytes(gzip.compress(_line(HEADER) * 100)[:-10])
    with pytest.raises(InputError, match=r"runs\.jsonl\.gz"):
        ExportedRuns(tmp_path / "runs.jsonl.gz")
