"""Exported runs: a file of finished runs that can be read on any machine, without MLflow.

The file has JSON lines, compressed if its name ends in .gz: a header, then one run a line with its parameters, tags,
last metrics and small artefacts. It may come from a stranger: nothing in it is executed or unpickled, every value is
checked, and its size is limited.
"""

import base64
import binascii
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from clustering.files.atomic import replacing
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from runs.record.query import NOTE, RunRow, Tags
from runs.record.run_folders import RunFolders
from runs.storage.locks import Say, silent

HEADER = {"format": "transduce runs", "version": 1}
REMEDY = "give a file of reproduction/export.py"
FEWER = "export a record with fewer runs"
LARGEST_FILE = 1 << 18  # bytes of one artefact; larger ones are left out
LONGEST_LINE = 1 << 24  # characters of one run
MOST_RUNS = 100_000
LARGEST_TOTAL = 1 << 30  # characters of all runs, uncompressed
LONGEST_NAME = 250  # bytes
RUN_ID = r"[0-9a-f]{32}"
FILE_NAME = r'(?![. ])[^/\\:*?"<>|\x00-\x1f\x7f-\x9f\ud800-\udfff]+'  # on any system a file of the folder it is put in
EXPERIMENT = f"(?!Default$){FILE_NAME}(/{FILE_NAME})*"  # MLflow keeps the files of its experiment Default elsewhere
NAME = r"\w[\w.: -]*(/\w[\w.: -]*)*"  # of parameters, tags and metrics; MLflow allows hardly more
NAMED = 3  # runs named of those that are left out
LARGEST_NUMBER = 1e100  # squares and sums of such numbers are finite; a larger one, of a diverged run, counts as NaN
LONGEST_TEXT = 6000  # characters of one parameter or tag, as in MLflow
FOLDERS = re.compile(
    r"""(?<![\w.:/])(?:file://)?(?:/(?:[^\s,\[\]'"/]+/)*(?=[^\s/])|[A-Za-z]:\\(?:[^\s,\[\]'"\\]+\\)*)"""
)


class SupportsWrite(Protocol):
    """A file that bytes can be written to."""

    def write(self, content: bytes, /) -> int: ...


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
        self.say = say
        self.files: dict[str, dict[str, bytes]] = {}
        rows: dict[str, RunRow] = {}
        for number, entry in _lines(path, remedy):
            try:
                row, files = _parse(entry)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(f"{path}, line {number}: not an exported run ({error}); {remedy}") from error
            if row.run_id in rows:
                raise InputError(f"{path}, line {number}: run {row.run_id} occurs twice; {remedy}")
            rows[row.run_id], self.files[row.run_id] = row, files
        self.runs = sorted(rows.values(), key=lambda row: (-row.start, row.run_id))

    def select(self, prefix: str, *, tags: Tags | None = None) -> list[RunRow]:
        """Return the runs of the experiments whose name starts with `prefix`, newest first, like `read_runs`."""
        wanted = (tags or {}).items()
        return [
            row
            for row in self.runs
            if row.experiment.startswith(prefix) and all(row.tags.get(key) in allowed for key, allowed in wanted)
        ]

    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """Write one artefact of a run to a folder and return its path, or None if it is missing."""
        content = self.files.get(run_id, {}).get(name)
        if content is None:
            return None
        path = folder / name
        path.write_bytes(content)
        return path


FilesOf = Callable[[RunRow], Mapping[str, bytes]]


def write_runs(path: Path, runs: Collection[RunRow], files_of: FilesOf, say: Say = silent) -> int:
    """Write runs to a file, oldest first; an existing file is replaced when all are written.

    Folders of this machine are removed from parameters, tags and texts; names of files remain. Runs that
    `ExportedRuns` would refuse, such as those of other programs, are left out, with a message.

    Args:
        files_of: returns the artefacts of a run by name; those above `LARGEST_FILE` are left out.

    Returns:
        The number of runs written.

    Raises:
        InputError: there are more runs than `ExportedRuns` reads, or the file cannot be written.
    """
    if len(runs) > MOST_RUNS:
        raise InputError(f"{len(runs):,} runs, and a file can hold {MOST_RUNS:,}; {FEWER}")
    try:
        with replacing(path) as new, open(new, "wb") as raw:
            if path.suffix == ".gz":
                # Without a name and a time in the archive, the same runs give the same file.
                with gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
                    refused = _write(packed, runs, files_of)
            else:
                refused = _write(raw, runs, files_of)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); give another file") from error
    if refused:
        more = f" and {len(refused) - NAMED:,} more" if len(refused) > NAMED else ""
        say(f"left out, because a reader would refuse them: {'; '.join(refused[:NAMED])}{more}")
    return len(runs) - len(refused)


def without_folders(text: str) -> str:
    """Return a text with every absolute path cut to the name of its file."""
    return FOLDERS.sub("", text)


def _write(file: SupportsWrite, runs: Collection[RunRow], files_of: FilesOf) -> list[str]:
    """Write the header and the runs; returns the names of refused runs, with the reasons."""
    refused, total = [], file.write(_line(HEADER))
    for row in sorted(runs, key=lambda row: (row.start, row.run_id)):
        small = {name: content for name, content in files_of(row).items() if len(content) <= LARGEST_FILE}
        entry = {
            "run_id": row.run_id,
            "name": row.name,
            "experiment": row.experiment,
            "start": row.start,
            "end": row.end,
            "params": {name: without_folders(text) for name, text in row.params.items()},
            "metrics": {n: value if abs(value) <= LARGEST_NUMBER else None for n, value in row.metrics.items()},
            "tags": _tags(row),
            "files": {name: base64.b64encode(content).decode() for name, content in sorted(small.items())},
        }
        line = _line(entry)
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"its files have more than {LONGEST_LINE:,} characters in total")
            _parse(entry)
        except ValueError as error:
            refused.append(f"{row.name} of {row.experiment} ({error})")
        else:
            total += len(line)
            if total > LARGEST_TOTAL:
                raise InputError(f"the runs have more than {LARGEST_TOTAL:,} characters in total; {FEWER}")
            file.write(line)
    return refused


def _tags(row: RunRow) -> dict[str, str]:
    """Return the tags of a run, of those of MLflow only the description; its origin is the name of the machine."""
    kept = {name: text for name, text in row.tags.items() if name == NOTE or not name.startswith("mlflow.")}
    tags = {name: without_folders(text) for name, text in kept.items()}
    return tags | ({"origin": row.tags["origin"].partition(":")[0]} if "origin" in tags else {})


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _lines(path: Path, remedy: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and content of each line after the header."""
    total = 0
    try:
        with (
            open_regular(path) as raw,
            gzip.open(raw) if path.suffix == ".gz" else raw as content,
            io.TextIOWrapper(content, encoding="utf-8") as file,
        ):
            for number in range(1, MOST_RUNS + 3):
                line = file.readline(LONGEST_LINE + 1)
                total += len(line)
                if not line:
                    if number == 1:
                        raise InputError(f"{path}: the file is empty; {remedy}")
                    return
                if len(line) > LONGEST_LINE or total > LARGEST_TOTAL:
                    raise InputError(f"{path}, line {number}: too large for exported runs; {remedy}")
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{path}, line {number}: not JSON ({error}); {remedy}") from error
                if number > 1:
                    yield number, entry
                elif entry != HEADER:
                    if isinstance(entry, dict) and entry.get("format") == HEADER["format"]:
                        version = f"version {str(entry.get('version'))[:20]} of exported runs, not {HEADER['version']}"
                        raise InputError(f"{path}: {version}; update transduce, or {remedy}")
                    raise InputError(f"{path}: not a file of exported runs; {remedy}")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; {remedy}") from error
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); {remedy}") from error
    raise InputError(f"{path}: more than {MOST_RUNS:,} runs; {FEWER}")


def _parse(entry: Mapping[str, Any]) -> tuple[RunRow, dict[str, bytes]]:
    """Return the run of one line and its artefacts, with every value checked."""
    run_id, experiment = _matching(entry["run_id"], RUN_ID), _matching(entry["experiment"], EXPERIMENT)
    start, end = _time(entry["start"]), None if entry["end"] is None else _time(entry["end"])
    metrics = {_matching(name, NAME): _number(value) for name, value in entry["metrics"].items()}
    files = {_matching(name, FILE_NAME): _content(name, encoded) for name, encoded in entry["files"].items()}
    tags = _texts(entry["tags"])
    row = RunRow(
        run_id,
        _text(entry["name"], 1000),
        experiment,
        start,
        end,
        "FINISHED",
        _texts(entry["params"]),
        metrics,
        tags,
        "",
    )
    return row, files


def _matching(value: Any, pattern: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value) or len(value.encode()) > LONGEST_NAME:
        raise ValueError(f"{str(value)[:50]!r} is not allowed here")
    return value


def _text(value: Any, length: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str) or len(value) > length:
        raise ValueError(f"{str(value)[:50]!r} is not a text of at most {length:,} characters")
    if re.search(r"[\0\ud800-\udfff]", value):  # a database cannot hold these
        raise ValueError(f"{value[:50]!r} has characters that no text has")
    return value


def _texts(values: Any) -> dict[str, str]:
    return {_matching(name, NAME): _text(value) for name, value in values.items()}


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST_NUMBER:  # NaN is not
        raise ValueError(f"{str(value)[:50]!r} is not a number of at most {LARGEST_NUMBER:g}")
    return float(value)


def _time(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f"{str(value)[:50]!r} is not a time in milliseconds")
    return value


def _content(name: str, encoded: Any) -> bytes:
    if not isinstance(encoded, str) or len(encoded) > 4 * (LARGEST_FILE + 2) // 3 + 4:
        raise ValueError(f"file {name} has more than {LARGEST_FILE:,} bytes")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"file {name}: {error}") from error
