"""Files that are written in one step: a path holds the whole new file, or what it held before."""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

ABANDONED = 24 * 3600  # seconds after which an unfinished file is of a process that was killed


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` to write to, which takes its place when all went well.

    Its name ends as that of `path` does, since some writers look at that. It gets the permissions of any new file (the
    umask's), whatever its writer made of them. Whoever writes to one path at the same time has a file of their own; the
    last one stays.

    Args:
        path: the file; its folder must exist.
    """
    path = Path(path)
    _remove_abandoned(path)
    partial = path.with_name(f".{secrets.token_hex(4)}.partial.{_ending(path)}")
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


def _ending(path: Path) -> str:
    """As much of a name as leaves room for what is put before it."""
    return path.name[-40:]


def _remove_abandoned(path: Path) -> None:
    pattern = re.compile(r"\.[0-9a-f]{8}\.partial\." + re.escape(_ending(path)))
    with contextlib.suppress(OSError), os.scandir(path.parent) as files:
        for file in files:
            if pattern.fullmatch(file.name) and time.time() - file.stat().st_mtime > ABANDONED:
                os.unlink(file)
