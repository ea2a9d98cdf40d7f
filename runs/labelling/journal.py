"""The answers of a labelling session on disk: a file of JSON lines, to which lines are only appended."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter, ValidationError, model_validator

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from runs.storage.disk import is_full
from runs.storage.locks import Say, silent

FORMAT = "transduce labels 2"
Action = Literal["label", "none", "skip", "clear"]
STATES: dict[Action, str] = {"label": "labelled", "none": "none", "skip": "skipped", "clear": "open"}
"""The state after each action: `none` if the item belongs to no class, `skipped` if it is to be shown no more."""


class Line(BaseModel):
    """A line of the journal, with its time in seconds since 1970."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    time: float = Field(default_factory=lambda: round(time.time(), 3))


class Begin(Line):
    """The first line."""

    kind: Literal["begin"] = "begin"
    format: str = FORMAT


class NewClass(Line):
    """A class that was added."""

    kind: Literal["class"] = "class"
    name: str


class Answer(Line):
    """An answer, or one that takes back the last answer of the same client to the item.

    Attributes:
        number: number of the answer, from 1.
        id: the item.
        action, label: the answer; for `undo`, what is in force again.
        client: who gave it.
    """

    kind: Literal["answer"] = "answer"
    number: int
    id: str
    action: Action
    label: str | None
    client: str
    undo: bool = False

    @property
    def state(self) -> str:
        """The state of the item, a value of `STATES`."""
        return STATES[self.action]


class Shown(Line):
    """The audit after predictions, and the next batch.

    Attributes:
        labels: number of labels used to fit; 0 with the other numbers if there were no predictions.
        right, audited: right predictions in the audit, and its size.
        population: number of items that are not used to fit.
        by_hand: number of items answered by hand that are used to fit, or belong to no class.
        by_hand_right: those of them that are predicted rightly without their own label.
        taken: items of the audit, or answered by hand, that are used to fit from now on.
        joined: items answered by hand that are of the audit from now on.
        batch: the next items to label; those in `drawn` are of the audit.
    """

    kind: Literal["shown"] = "shown"
    labels: NonNegativeInt = 0
    right: NonNegativeInt = 0
    audited: NonNegativeInt = 0
    population: int
    by_hand: NonNegativeInt = 0
    by_hand_right: NonNegativeInt = 0
    taken: list[str] = []
    joined: list[str] = []
    batch: list[str] = []
    drawn: list[str] = []

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if not (self.right <= self.audited <= self.population and self.by_hand_right <= self.by_hand):
            raise ValueError("the counts of the audit contradict each other")
        return self


_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Begin | NewClass | Answer | Shown, Field(discriminator="kind")])


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
        self.path, whole = path, b""
        if os.path.lexists(path):
            with open_regular(path) as file:
                whole = file.read()
        self.lines = _parsed(path, whole)
        self._size = whole.rfind(b"\n") + 1
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        if self._size < len(whole):
            say(f"{path}: its last line was incomplete, because the program was ended while it wrote; removed")
            os.ftruncate(self._handle, self._size)
        if not self.lines:
            self.append([Begin()])

    def append(self, lines: Sequence[Line]) -> None:
        """Write lines, all or none of them, and wait until they are on the disk.

        Raises:
            NotSaved: the disk is full or not writable; no line is written.
        """
        data = b"".join(line.model_dump_json().encode() + b"\n" for line in lines)
        try:
            os.ftruncate(self._handle, self._size)  # removes what an earlier failed call could not
            os.lseek(self._handle, self._size, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            problem, remedy = f"cannot be written ({error.strerror})", "make it writable"
            if is_full(error):
                problem, remedy = "the disk is full", "free some space"
            raise NotSaved(f"{self.path}: {problem}, so nothing was saved; {remedy}, and answer again") from error
        self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def _parsed(path: Path, whole: bytes) -> list[Line]:
    """The complete lines, checked."""
    lines, classes, answers = list[Line](), set[str | None](), 0
    for text in whole.split(b"\n")[:-1]:
        problem, line = "is not a line of a journal of labels", None
        with contextlib.suppress(ValidationError):
            line = _LINE.validate_json(text)
        if isinstance(line, Begin) and line.format != FORMAT:
            raise InputError(f"{path}: has the format {line.format!r}; use the version that wrote it")
        if isinstance(line, NewClass):
            classes.add(line.name)
        if isinstance(line, Answer):
            answers += 1
            if (line.action == "label") != (line.label in classes):
                problem, line = f"has the label {line.label!r} for the action {line.action!r}", None
            elif line.number != answers:
                problem, line = f"is answer {line.number}, where answer {answers} is expected", None
        if line is None or (isinstance(line, Begin) == bool(lines)):
            raise InputError(
                f"{path}: line {len(lines) + 1} {problem}; the file is damaged. Restore it from a copy, or, to "
                "continue without this and all later lines, remove them"
            )
        lines.append(line)
    return lines
