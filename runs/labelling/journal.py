"""The answers of a labelling session on disk: a file of JSON lines, to which lines are only appended."""

import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError
from runs.labelling.answers import STATES
from runs.storage.disk import is_full
from runs.storage.locks import Say, silent

FORMAT = "transduce labels 1"
FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "begin": {"format": (str,)},
    "pile": {"fingerprint": (str,), "items": (int,)},
    "class": {"name": (str,)},
    "shown": {
        **dict.fromkeys(("labels", "right", "audited", "population"), (int,)),
        **dict.fromkeys(("taken", "items"), (list,)),
    },
    "answer": {
        **dict.fromkeys(("id", "title", "action", "client"), (str,)),
        "number": (int,),
        "label": (str, type(None)),
        "undo": (bool,),
    },
}
"""Fields of each kind of line, with their types. Every line also has `kind` and `time`, in seconds since 1970."""
LATER: Mapping[str, tuple[type, ...]] = {"by_hand": (int,), "by_hand_right": (int,), "joined": (list,)}
"""Fields of `shown` that journals of earlier versions do not have."""

Line = dict[str, Any]


class NotSaved(InputError):
    """A line could not be written; the journal is as before."""


class Journal:
    """An open journal. Calls must not overlap; the caller holds a lock.

    Args:
        path: the file, created if it does not exist.
        say: shows a message if the last line was incomplete and has been removed.

    Attributes:
        lines: the lines read when the journal was opened.

    Raises:
        InputError: the file is of another program or damaged; the message names it and the line.
    """

    def __init__(self, path: Path, say: Say = silent) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if not stat.S_ISREG(os.fstat(self._handle).st_mode):
                raise InputError(f"{path}: not a regular file (a device or pipe); move it elsewhere")
            whole = _read(self._handle)
            self.lines = _parsed(path, whole)
            self._size = whole.rfind(b"\n") + 1
            if self._size < len(whole):
                say(f"{path}: its last line was incomplete, because the program was ended while it wrote; removed")
                os.ftruncate(self._handle, self._size)
            if not self.lines:
                self.append([{"kind": "begin", "format": FORMAT}])
                _sync_folder(path.parent)
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, lines: Sequence[Mapping[str, Any]]) -> list[Line]:
        """Write lines, all or none of them, and wait until they are on the disk.

        Returns:
            The lines with their time.

        Raises:
            NotSaved: the disk is full or not writable; no line is written.
        """
        now = round(time.time(), 3)
        timed = [{**line, "time": now} for line in lines]
        data = b"".join(json.dumps(line, ensure_ascii=True).encode() + b"\n" for line in timed)
        try:
            os.ftruncate(self._handle, self._size)  # removes what an earlier failed call could not
            os.lseek(self._handle, self._size, os.SEEK_SET)
            _write(self._handle, data)
            os.fsync(self._handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            problem, remedy = f"cannot be written ({error.strerror})", "make it writable"
            if is_full(error):
                problem, remedy = "the disk is full", "free some space"
            raise NotSaved(f"{self.path}: {problem}, so nothing was saved; {remedy}, and answer again") from error
        self._size += len(data)
        return timed

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def _read(handle: int) -> bytes:
    pieces = []
    while piece := os.read(handle, 1 << 22):
        pieces.append(piece)
    return b"".join(pieces)


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _parsed(path: Path, whole: bytes) -> list[Line]:
    """The complete lines, checked."""
    lines: list[Line] = []
    classes = set[str]()
    answers = 0
    for number, text in enumerate(whole.split(b"\n")[:-1], 1):
        line = _line(text)
        if line is None:
            raise _damaged(path, number, "is not a line of a journal of labels")
        if number == 1 and line["kind"] != "begin":
            raise _damaged(path, number, "does not begin a journal of labels")
        if line["kind"] == "begin" and line["format"] != FORMAT:
            raise InputError(f"{path}: line {number} has the format {line['format']!r}; use the version that wrote it")
        if line["kind"] == "class":
            classes.add(line["name"])
        if line["kind"] == "answer":
            answers += 1
            if (line["action"] == "label") != (line["label"] in classes):
                raise _damaged(path, number, f"has the label {line['label']!r} for the action {line['action']!r}")
            if line["number"] != answers:
                raise _damaged(path, number, f"is answer {line['number']}, where answer {answers} is expected")
        lines.append(line)
    return lines


def _line(text: bytes) -> Line | None:
    """The line, or None if it is not one."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not isinstance(line.get("time"), (int, float)):
        return None
    fields = FIELDS.get(line["kind"]) if isinstance(line.get("kind"), str) else None
    if fields is None:
        return None
    if not all(name in line and type(line[name]) in types for name, types in fields.items()):
        return None
    check = CHECKS.get(line["kind"])
    return line if check is None or check(line) else None


def _is_answer(line: Line) -> bool:
    return line["action"] in STATES


def _is_step(line: Line) -> bool:
    items = all(
        isinstance(item, list) and len(item) == 4 and isinstance(item[0], str) and isinstance(item[3], bool)
        for item in line["items"]
    )
    if not all(type(line[name]) in types for name, types in LATER.items() if name in line):
        return False
    counts = line["labels"] >= 0 and 0 <= line["right"] <= line["audited"] <= line["population"]
    counts = counts and 0 <= line.get("by_hand_right", 0) <= line.get("by_hand", 0)
    return items and counts and all(isinstance(item, str) for item in [*line["taken"], *line.get("joined", ())])


CHECKS: Mapping[str, Callable[[Line], bool]] = {"answer": _is_answer, "shown": _is_step}


def _damaged(path: Path, number: int, problem: str) -> InputError:
    return InputError(
        f"{path}: line {number} {problem}; the file is damaged. Restore it from a copy, or, to continue without this "
        "and all later lines, remove them"
    )
