"""Joint writing of several files: no file is replaced before all are written."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from clustering.files.atomic import replacing
from clustering.foundation.errors import InputError


class Output(NamedTuple):
    """A file to be written: its path, the key that sets another path, such as output=FILE, and what writes it."""

    place: Path
    key: str
    write: Callable[[Path], object]


def write_together(outputs: Sequence[Output]) -> None:
    """Write several files; existing files are replaced at the end, all of them or none.

    Raises:
        InputError: the disk is full or cannot be written; the message names the file and the key.
    """
    output = outputs[0]
    try:
        with ExitStack() as places:
            for output in outputs:
                partial = places.enter_context(replacing(output.place))
                output.write(partial)
                with partial.open("rb") as file:
                    os.fsync(file.fileno())  # reports a full disk before any file is replaced
    except OSError as error:
        remedy = f"free some space, or use another path with {output.key}"
        raise InputError(f"{output.place}: cannot be written ({error.strerror}); {remedy}") from error


def check_place(key: str, place: Path, ending: str = "") -> None:
    """Check that a file can be written.

    Args:
        key: the key that sets the path, for messages.
        place: path of the file.
        ending: the required extension; empty: any.

    Raises:
        InputError: the file has another extension, is a link or no file, or its folder is missing or not writable.
    """
    problem = ""
    if ending and place.suffix != ending:
        problem = f"has another ending; the output is a {ending} file: use that ending"
    elif place.is_symlink():
        problem = "is a link, which the file would replace; give the path it points to"
    elif place.exists() and not place.is_file():
        problem = "is not a file; give another path"
    else:
        try:
            with tempfile.TemporaryFile(dir=place.absolute().parent):
                pass
        except OSError as error:
            is_missing = not place.absolute().parent.is_dir()
            why = "does not exist" if is_missing else f"is not writable ({error.strerror})"
            problem = f"cannot be written: its folder {why}; give another path"
    if problem:
        raise InputError(f"{key}={place} {problem}")
