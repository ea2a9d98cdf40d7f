"""Files that belong together: none of them takes its place before all are written."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clustering.errors import InputError
from clustering.replacing import replacing


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
    """Write files of which some may be there already: all are replaced at the end, or none.

    Raises:
        InputError: a disk that is full, or cannot be written to; names the file and the key.
    """
    with contextlib.ExitStack() as places:
        for place, key, write in outputs:
            try:
                write(places.enter_context(replacing(place)))
            except OSError as error:
                raise InputError(
                    f"{place}: cannot be written ({error.strerror}); what was there is untouched: make room, or give "
                    f"another place with {key}"
                ) from error
