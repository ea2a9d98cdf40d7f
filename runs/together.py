"""Files that belong together: none of them takes its place before all are written."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clustering.errors import InputError


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
    partials: list[Path] = []
    try:
        for place, key, write in outputs:
            partials.append(place.with_name(f".{place.stem}.{os.getpid()}{place.suffix}"))
            try:
                write(partials[-1])
            except OSError as error:
                raise InputError(
                    f"{place}: cannot be written ({error.strerror}); what was there is untouched: make room, or give "
                    f"another place with {key}"
                ) from error
        for partial, output in zip(partials, outputs, strict=True):
            os.replace(partial, output.place)
    finally:
        for partial in partials:
            partial.unlink(missing_ok=True)
