"""The answers of a labelling session on disk: a file of JSON lines, to which lines are only appended."""

import contextlib
import os
import time
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from clustering.files.regular import read_bytes
from clustering.foundation.errors import InputError
from runs.storage.disk import is_full
from runs.storage.locks import Say, silent

FORMAT = "transduce labels 3"


class Given(BaseModel):
    """The answer of a client to an item.

    Attributes:
        id: the item.
        version: the version of the item that the client saw: the number of answers to it so far.
        action: label, none (it belongs to no class), skip (it is to be shown no more) or clear.
        label: the class, for the action label.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    id: str = Field(max_length=200)
    version: int = Field(ge=0)
    action: Literal["label", "none", "skip", "clear"]
    label: str | None = None

    @model_validator(mode="after")
    def _label_of_action(self) -> Self:
        if (self.action == "label") != (self.label is not None):
            raise ValueError(f"the action {self.action!r} with the label {self.label!r}")
        return self


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


class Answers(Line):
    """Answers that a client gave at once."""

    kind: Literal["answers"] = "answers"
    client: str
    answers: list[Given]


class Undo(Line):
    """A client took back its last answers that nobody had changed."""

    kind: Literal["undo"] = "undo"
    client: str


class Accuracy(BaseModel):
    """Estimated accuracy of the predictions of the items that were not used to fit.

    Attributes:
        accuracy, low, high: estimate and limits of its interval, in [0, 1].
        audited: number of answers that the predictions were compared with.
        population: number of items that were not used to fit.
    """

    accuracy: float
    low: float
    high: float
    audited: int
    population: int


class Batch(Line):
    """The next items to label, after predictions.

    Attributes:
        accuracy: that of the predictions; None without an audit.
        items: the items; empty if the present ones are not all answered.
        drawn: those of them that are of the audit.
        taken: items of the audit, or answered by hand, that are used to fit from now on.
        joined: items answered by hand that are of the audit from now on.
    """

    kind: Literal["batch"] = "batch"
    accuracy: Accuracy | None = None
    items: list[str] = []
    drawn: list[str] = []
    taken: list[str] = []
    joined: list[str] = []


_LINE: TypeAdapter[Line] = TypeAdapter(
    Annotated[Begin | NewClass | Answers | Undo | Batch, Field(discriminator="kind")]
)


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
        self.path, whole = path, read_bytes(path) if os.path.lexists(path) else b""
        self.lines = _parsed(path, whole)
        self._size = whole.rfind(b"\n") + 1
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        if self._size < len(whole):
            say(f"{path}: its last line was incomplete, because the program was ended while it wrote; removed")
        if not self.lines:
            self.append(Begin())

    def append(self, line: Line) -> None:
        """Write a line, and wait until it is on the disk.

        Raises:
            NotSaved: the disk is full or not writable; nothing is written.
        """
        data = line.model_dump_json().encode() + b"\n"
        try:
            os.ftruncate(self._handle, self._size)  # removes an incomplete line
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
    lines, classes = list[Line](), set[str | None]({None})
    for text in whole.split(b"\n")[:-1]:
        line = None
        with contextlib.suppress(ValidationError):
            line = _LINE.validate_json(text)
        if isinstance(line, Begin) and line.format != FORMAT:
            raise InputError(f"{path}: has the format {line.format!r}; use the version that wrote it")
        if isinstance(line, NewClass):
            classes.add(line.name)
        unknown = isinstance(line, Answers) and any(one.label not in classes for one in line.answers)
        if line is None or unknown or isinstance(line, Begin) == bool(lines):
            raise InputError(
                f"{path}: line {len(lines) + 1} is not a line of a journal of labels, or labels as an unknown class; "
                "the file is damaged. Restore it from a copy, or, to continue without this and all later lines, "
                "remove them"
            )
        lines.append(line)
    return lines
