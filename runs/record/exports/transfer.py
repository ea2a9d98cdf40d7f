"""Export finished runs of a record to a file, and import such a file into a record."""

import dataclasses
import io
import math
import tempfile
from pathlib import Path
from urllib.request import url2pathname

import numpy as np

from clustering.files.arrays import read_arrays
from clustering.foundation.errors import InputError
from runs.record.exports.exported import LARGEST_FILE, ExportedRuns, is_exported, without_folders, write_runs
from runs.record.query import RunRow, read_runs
from runs.stages.clustering.results import TRIALS
from runs.stages.results import PER_TASK
from runs.storage.locks import locked
from runs.storage.together import check_place
from runs.track import Tracker

EXPORTED = "exported_run"  # tag of an imported run: its id in the record that it was exported from
LEFT_OUT = (".png", ".pdf")  # suffixes of pictures; a figure also has an SVG file, which is exported
LARGE = ("trace", "confidence")  # arrays of scores
STATUSES = ("FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED")


def export_runs(tracker: Tracker, path: Path, prefix: str = "") -> int:
    """Write the finished runs of the experiments whose name starts with `prefix` to a file.

    Returns:
        The number of runs.

    Raises:
        InputError: there is no such run, one of its files cannot be read, or the file cannot be written.
    """
    runs = read_runs(tracker, prefix)
    if not runs:
        named = f" in experiments named {prefix}...; change experiments=, or" if prefix else ";"
        raise InputError(f"{tracker.place}: no finished run{named} give another folder with results=FOLDER")
    check_place("FILE", path)
    if path.exists() and path.stat().st_size and not is_exported(path):
        raise InputError(f"FILE={path}: exists, and does not contain exported runs; give another name, or move it")
    here = {run.tags.get(EXPORTED, run.run_id): run for run in runs}  # an imported run keeps its first id
    rows = [_exported(run_id, run) for run_id, run in here.items()]
    return write_runs(path, rows, lambda row: _files(tracker, here[row.run_id]), tracker.say)


def _exported(run_id: str, run: RunRow) -> RunRow:
    tags = {name: text for name, text in run.tags.items() if name != EXPORTED}
    return dataclasses.replace(run, run_id=run_id, tags=tags)


def import_runs(exported: ExportedRuns, tracker: Tracker) -> int:
    """Add exported runs to a record, except those that it has.

    A run becomes FINISHED after its files are stored; an interrupted import continues with the first incomplete run.

    Returns:
        The number of added runs.

    Raises:
        InputError: the record cannot be written.
    """
    tracker.store.prepare()
    added = 0
    with locked(tracker.store.locks / "import.lock", "the import of runs", tracker.say):
        known = set()
        for run in read_runs(tracker, "", statuses=STATUSES):
            if EXPORTED not in run.tags:
                known.add(run.run_id)
            elif run.status == "FINISHED":
                known.add(run.tags[EXPORTED])
            else:
                tracker.client.delete_run(run.run_id)  # its import was interrupted
        for row in reversed(exported.runs):
            if row.run_id not in known:
                _add(row, exported.files[row.run_id], tracker)
                added += 1
    return added


def _add(row: RunRow, files: dict[str, bytes], tracker: Tracker) -> None:
    with tempfile.TemporaryDirectory() as folder:
        created = tracker.client.create_run(
            tracker.experiment(row.experiment), start_time=row.start, run_name=row.name, tags={EXPORTED: row.run_id}
        )
        run = tracker.tracked(created.info.run_id)
        with run.guarded():
            finite = {name: value for name, value in row.metrics.items() if math.isfinite(value)}
            kept = {name: text for name, text in row.tags.items() if name != EXPORTED}
            run.log(params=row.params, tags=kept, metrics=finite)
            for name, content in files.items():
                path = Path(folder) / name
                path.write_bytes(content)
                run.artifact(path)
            tracker.client.set_terminated(run.run_id, "FINISHED", end_time=row.end)


def _files(tracker: Tracker, run: RunRow) -> dict[str, bytes]:
    """Return the small files of a run by name, without `LEFT_OUT`; texts without folders of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        if run.artifact_uri.startswith("file://"):
            place = Path(url2pathname(run.artifact_uri.removeprefix("file://")))
            paths = [path for path in place.iterdir() if path.is_file()] if place.is_dir() else []
        else:
            entries = [entry for entry in tracker.client.list_artifacts(run.run_id) if not entry.is_dir]
            wanted = [e.path for e in entries if e.path == PER_TASK or (e.file_size or 0) <= LARGEST_FILE]
            downloads = [tracker.download(run.run_id, name, Path(folder)) for name in wanted]
            paths = [path for path in downloads if path is not None]
        try:
            kept = [path for path in paths if path.suffix not in LEFT_OUT]
            if run.experiment.startswith("tune/"):  # the means of the trials suffice
                kept = [path for path in kept if path.name != PER_TASK]
            files = {path.name: _content(path) for path in kept}
        except OSError as error:
            problem = f"{error.filename}: a file of run {run.run_id} cannot be read ({error.strerror})"
            raise InputError(f"{problem}; make it readable, or delete the run") from error
    return {name: content for name, content in files.items() if content is not None}


def _content(path: Path) -> bytes | None:
    """Return the content of a file of a run, as it is exported; None if it is too large."""
    size = path.stat().st_size
    if path.name == TRIALS or (path.name == PER_TASK and size > LARGEST_FILE):
        return _smaller(path)
    if size > LARGEST_FILE:
        return None
    content = path.read_bytes()
    return _cleaned(content) if path.suffix == ".yaml" else content


def _smaller(path: Path) -> bytes | None:
    """Return scores without large arrays that no table needs: the objective at each step, and the confidence of each
    point; None if they are still too large. A damaged file remains as it is."""
    try:
        arrays = read_arrays(path, lambda name: name not in LARGE)
    except ValueError:
        return path.read_bytes() if path.stat().st_size <= LARGEST_FILE else None
    if path.name == TRIALS and "labels" in arrays and np.abs(arrays["labels"]).max(initial=0) < 128:
        arrays["labels"] = arrays["labels"].astype(np.int8)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue() if packed.tell() <= LARGEST_FILE else None


def _cleaned(content: bytes) -> bytes:
    """A text without folders of this machine; bytes that are no text, of a damaged file, remain."""
    return without_folders(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
