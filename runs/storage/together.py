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
        place: where it is to be.
        key: that gives it another place, for messages, such as output=FILE.
        write: writes the file at a path.
    """

    place: Path
    key: str
    write: Callable[[Path], None]


def write_together(outputs: Sequence[Output]) -> None:
    """Write several files; existing ones are replaced at the end, all or none.

    Raises:
        InputError: a disk that is full, or cannot be written to; names the file and the key.
    """
    output = None
    try:
        with contextlib.ExitStack() as places:
            for output in outputs:
                partial = places.enter_context(replacing(output.place))
                output.write(partial)
                with partial.open("rb") as file:
                    os.fsync(file.fileno())  # a disk that is full says so at the latest here, before any is replaced
    except OSError as error:
        if output is None:
            raise
        raise InputError(
            f"{output.place}: cannot be written ({error.strerror}); make room, or give another place with {output.key}"
        ) from error
