"""Joint writing of several files: no file is replaced before all are written."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clustering.files.atomic import replacing
from clustering.foundation.errors import InputError


class Output(NamedTuple):
    """A file to be written.

    Attributes:
        place: path of the file.
        key: the key that sets another path, for messages, such as output=FILE.
        write: function that writes the file to a path.
    """

    place: Path
    key: str
    write: Callable[[Path], object]


def write_together(outputs: Sequence[Output]) -> None:
    """Write several files; existing files are replaced at the end, all of them or none.

    Raises:
        InputError: the disk is full or cannot be written; the message names the file and the key.
    """
    output = None
    try:
        with contextlib.ExitStack() as places:
            for output in outputs:
                partial = places.enter_context(replacing(output.place))
                output.write(partial)
                with partial.open("rb") as file:
                    os.fsync(file.fileno())  # reports a full disk before any file is replaced
    except OSError as error:
        if output is None:
            raise
        raise InputError(
            f"{output.place}: cannot be written ({error.strerror}); free some space, or use another path "
            f"with {output.key}"
        ) from error


def check_place(key: str, place: Path, ending: str = "") -> None:
    """Check that a file can be written.

    Args:
        key: the key that sets the path, for messages.
        place: path of the file.
        ending: the required extension; empty: any.

    Raises:
        InputError: the file has another extension, is a link or no file, or its folder is missing or not writable.
    """
    if ending and place.suffix != ending:
        raise InputError(f"{key}={place}: the output is a {ending} file; use that ending")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{key}={place}: its folder does not exist; create it, or give another path")
    if place.is_symlink():
        raise InputError(f"{key}={place} is a link, which the file would replace; give the path it points to")
    if place.exists() and not place.is_file():
        raise InputError(f"{key}={place} is not a file; give another path")
    try:
        with tempfile.TemporaryFile(dir=place.absolute().parent):
            pass
    except OSError as error:
        raise InputError(f"{key}={place}: its folder is not writable ({error.strerror}); give another path") from error
