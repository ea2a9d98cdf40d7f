"""Write the finished runs of a record to a file of exported runs, such as the shipped record.

    python reproduction/export.py FILE [RESULTS]

FILE is compressed if its name ends in .gz. RESULTS is the folder of the results, else that of TRANSDUCE_RESULTS.
"""

import io
import sys
import tempfile
from pathlib import Path
from urllib.request import url2pathname

import numpy as np

from clustering.files.arrays import read_arrays
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.record.exported import LARGEST_FILE, without_folders, write_runs
from runs.record.query import RunRow, read_runs
from runs.stages.clustering.results import TRIALS
from runs.stages.results import PER_TASK
from runs.track import Tracker

LEFT_OUT = (".png", ".pdf")  # suffixes of pictures; a figure also has an SVG file, which is exported
LARGE = ("trace", "confidence")  # arrays of scores


def export_runs(tracker: Tracker, path: Path) -> int:
    """Write the finished runs of a record to a file, and return their number.

    Raises:
        InputError: there is no run, one of its files cannot be read, or the file cannot be written.
    """
    runs = read_runs(tracker, "")
    if not runs:
        raise InputError(f"{tracker.place}: no finished run; give another folder of results")
    try:
        write_runs(path, runs, lambda row: _files(tracker, row))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); give another file") from error
    return len(runs)


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


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: reproduction/export.py FILE [RESULTS]")
    count = export_runs(Tracker(Store(*sys.argv[2:]), say=_say), Path(sys.argv[1]))
    _say(f"{count:,} runs exported: {sys.argv[1]}")
