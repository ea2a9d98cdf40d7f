"""Exported runs: a file of finished runs that tables read without MLflow, such as the shipped record.

The file has JSON lines, compressed if its name ends in .gz: a header, then one run a line with its parameters, tags,
last metrics and small artefacts.
"""

import base64
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clustering.files.atomic import replacing
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from runs.record.query import NOTE, RunRow, Tags
from runs.record.run_folders import RunFolders
from runs.storage.locks import Say, silent

HEADER = {"format": "transduce runs", "version": 1}
REMEDY = "give a file of reproduction/export.py"
LARGEST_FILE = 1 << 18  # bytes of one artefact; larger ones are left out
FOLDERS = re.compile(
    r"""(?<![\w.:/])(?:file://)?(?:/(?:[^\s,\[\]'"/]+/)*(?=[^\s/])|[A-Za-z]:\\(?:[^\s,\[\]'"\\]+\\)*)"""
)


class ExportedRuns(RunFolders):
    """The runs of an exported file, held in memory.

    Args:
        path: the file.
        say: function that prints messages about damaged artefacts.
        remedy: what to do about a file that cannot be read, for the message.

    Attributes:
        runs: newest first.
        files: the artefacts of each run, by run id and name.

    Raises:
        InputError: the file cannot be read, or is no exported file; the message names the line.
    """

    def __init__(self, path: Path, say: Say = silent, remedy: str = REMEDY) -> None:
        self.say, self.runs, self.files = say, list[RunRow](), dict[str, dict[str, bytes]]()
        for number, line in enumerate(_lines(path, remedy), 2):
            try:
                self._add(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: not an exported run ({error}); {remedy}") from error
        self.runs.sort(key=lambda row: (-row.start, row.run_id))

    def _add(self, entry: dict[str, Any]) -> None:
        files = {Path(name).name: base64.b64decode(text, validate=True) for name, text in entry.pop("files").items()}
        entry["metrics"] = {name: math.nan if x is None else float(x) for name, x in entry["metrics"].items()}
        entry |= {"start": int(entry["start"]), "params": dict(entry["params"]), "tags": dict(entry["tags"])}
        row = RunRow(**entry, status="FINISHED", artifact_uri="")
        self.runs.append(row)
        self.files[row.run_id] = files

    def select(self, prefix: str, *, tags: Tags | None = None) -> list[RunRow]:
        """Return the runs of the experiments whose name starts with `prefix`, newest first, like `read_runs`."""
        runs = [row for row in self.runs if row.experiment.startswith(prefix)]
        return [row for row in runs if all(row.tags.get(key) in allowed for key, allowed in (tags or {}).items())]

    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """Write one artefact of a run to a folder and return its path, or None if it is missing."""
        content = self.files.get(run_id, {}).get(name)
        if content is None:
            return None
        (folder / name).write_bytes(content)
        return folder / name


def write_runs(path: Path, runs: Collection[RunRow], files_of: Callable[[RunRow], Mapping[str, bytes]]) -> None:
    """Write runs to a file, oldest first; an existing file is replaced when all are written.

    Folders of this machine are removed from parameters and tags; names of files remain.

    Args:
        files_of: returns the artefacts of a run by name; those above `LARGEST_FILE` are left out.
    """
    with (
        replacing(path) as new,
        open(new, "wb") as raw,
        # Without a name and a time in the archive, the same runs give the same file.
        gzip.GzipFile("", "wb", 9, raw, mtime=0) if path.suffix == ".gz" else raw as file,
    ):
        file.write(_line(HEADER))
        for row in sorted(runs, key=lambda row: (row.start, row.run_id)):
            entry = asdict(row)
            del entry["status"], entry["artifact_uri"]
            tags = {name: text for name, text in row.tags.items() if name == NOTE or not name.startswith("mlflow.")}
            entry["params"] = {name: without_folders(text) for name, text in row.params.items()}
            entry["tags"] = {name: without_folders(text) for name, text in tags.items()}
            entry["metrics"] = {name: x if math.isfinite(x) else None for name, x in row.metrics.items()}
            files = {name: content for name, content in files_of(row).items() if len(content) <= LARGEST_FILE}
            entry["files"] = {name: base64.b64encode(content).decode() for name, content in files.items()}
            file.write(_line(entry))


def without_folders(text: str) -> str:
    """Return a text with every absolute path cut to the name of its file."""
    return FOLDERS.sub("", text)


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _lines(path: Path, remedy: str) -> Iterator[bytes]:
    """Yield the lines after the header."""
    try:
        with open_regular(path) as raw, gzip.open(raw) if path.suffix == ".gz" else raw as file:
            if file.readline() != _line(HEADER):
                raise InputError(f"{path}: not a file of exported runs; {remedy}")
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from error
