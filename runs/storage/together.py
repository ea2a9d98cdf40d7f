"""Joint writing of several files: no file is replaced before all are written."""

import contextlib
import os
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
            f"{output.place}: cannot be written ({error.strerror}); make room, or give another place with {output.key}"
        ) from error
