"""Atomic replacement of files: a path holds either the complete new file or its previous content."""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

LONGEST = 40  # characters of a name that are kept in that of its unfinished file, to leave room for a prefix
ABANDONED = 24 * 3600  # seconds after which an unfinished file is taken to be left by a killed process


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Context with a new, empty file in the same folder, which replaces `path` if no error occurs.

    Its extension is that of `path`, since some writers depend on it. It gets the default permissions (umask), whatever
    its writer set. Concurrent writers use separate files, and the last one wins.

    Args:
        path: the file; its folder must exist.
    """
    path = Path(path)
    _remove_abandoned(path)
    partial = path.with_name(f".{secrets.token_hex(4)}.partial.{path.name[-LONGEST:]}")
    try:
        partial.touch(exist_ok=False)
        mode = partial.stat().st_mode & 0o777
        yield partial
        if partial.stat().st_mode & 0o777 != mode:
            partial.chmod(mode)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _remove_abandoned(path: Path) -> None:
    pattern = re.compile(r"\.[0-9a-f]{8}\.partial\." + re.escape(path.name[-LONGEST:]))
    with contextlib.suppress(OSError), os.scandir(path.parent) as files:
        for file in files:
            if pattern.fullmatch(file.name) and time.time() - file.stat().st_mtime > ABANDONED:
                os.unlink(file)
